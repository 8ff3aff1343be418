"""One tensor in a few numbers, and two tensors' distance, against plain Python."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bisect_diverge.numerics import summary
from bisect_diverge.numerics.summary import gap, lone_nan, summarize, ulp_histogram


def test_summary_counts_what_is_not_finite_apart():
    """NaNs and infinities are counted and stay out of minimum, maximum and mean."""
    found = summarize(np.array([1.0, np.nan, -np.inf, 3.0, np.inf]), "float64")

    assert (found.numel, found.minimum, found.maximum, found.mean) == (5, 1.0, 3.0, 2.0)
    assert (found.nan, found.inf) == (1, 2)


@pytest.mark.parametrize("values", [[], [np.nan]])
def test_summary_without_finite_elements_has_no_values(values):
    """Where there is no finite element there is no minimum, maximum or mean."""
    found = summarize(np.array(values, np.float64), "float64")

    assert (found.minimum, found.maximum, found.mean) == (None, None, None)


def test_summary_of_other_types():
    """Integers, truth values, complex numbers and bfloat16 have summaries too."""
    bfloat16 = np.array([0x3F80, 0xC000], "<u2")  # 1, -2

    assert summarize(np.array([-3, 5], "<i8"), "int64").mean == 1
    assert summarize(np.array([0, 1, 1, 1], "<u1"), "bool").mean == 0.75
    assert summarize(np.array([3 + 4j], "<c16"), "complex128").maximum == 5
    assert summarize(bfloat16, "bfloat16").minimum == -2


def test_large_tensors_are_looked_at_in_blocks(monkeypatch):
    """The result does not depend on the size of the blocks."""
    array = np.linspace(-1, 1, 1000).reshape(10, 100)
    other = array.copy()
    other[7, 3] += 0.5
    whole = summarize(array, "float64"), gap(array, other, "float64"), ulp_histogram(array, other, "float64")
    monkeypatch.setattr(summary, "BLOCK", 7)

    pieces = summarize(array, "float64"), gap(array, other, "float64"), ulp_histogram(array, other, "float64")
    assert pieces[0].mean == pytest.approx(whole[0].mean, abs=1e-15)
    assert pieces[1:] == whole[1:]
    assert whole[1].first_index == (7, 3)


@given(st.data())
def test_gap_agrees_with_plain_python(data):
    """Counts, largest differences and first index are those of a loop over the elements."""
    shape = data.draw(hnp.array_shapes(max_dims=3, max_side=4))
    elements = st.floats(width=32, allow_nan=True) | st.sampled_from([0.0, -0.0, 1.0, np.inf])
    a = data.draw(hnp.arrays("<f4", shape, elements=elements))
    b = data.draw(hnp.arrays("<f4", shape, elements=elements))
    pairs = list(zip(a.reshape(-1).tolist(), b.reshape(-1).tolist(), strict=True))
    unequal = (a.view("<u4") != b.view("<u4")).reshape(-1).tolist()
    finite = [(x, y) for x, y in pairs if math.isfinite(x) and math.isfinite(y)]
    found = gap(a, b, "float32")

    assert found.differing == sum(unequal)
    assert found.max_abs == max((abs(x - y) for x, y in finite), default=None)
    relative = [abs(x - y) / max(abs(x), abs(y)) if x or y else 0.0 for x, y in finite]
    assert found.max_rel == max(relative, default=None)
    first = tuple(map(int, np.unravel_index(unequal.index(True), shape))) if any(unequal) else None
    assert found.first_index == first


def test_gap_of_integers_is_exact_at_the_ends():
    """The distance of the smallest and largest int64 does not wrap around."""
    a, b = np.array([-(2**63)], "<i8"), np.array([2**63 - 1], "<i8")

    assert gap(a, b, "int64").max_abs == float(2**64 - 1)
    assert gap(a, b, "int64").max_ulp is None
    assert gap(np.array([0], "<u8"), np.array([2**64 - 1], "<u8"), "uint64").max_abs == float(2**64 - 1)


def test_gap_beyond_the_largest_float_is_that_float():
    """A difference too large for float64 is given as its largest number, which JSON can hold."""
    largest = sys.float_info.max

    assert gap(np.array([largest]), np.array([-largest]), "float64").max_abs == largest


def test_gap_of_empty_tensors_is_empty():
    """Empty tensors differ nowhere."""
    found = gap(np.zeros((0, 3)), np.zeros((0, 3)), "float64")

    assert (found.differing, found.max_ulp, found.max_abs, found.first_index) == (0, None, None, None)


def test_ulp_histogram_sorts_distances_into_buckets():
    """Buckets are 0, 1, 2-3, 4-15, 16 and more, and last the pairs without distance."""
    steps = np.array([0, 1, 2, 3, 4, 15, 16, 1000])
    a = np.full(9, 1.0, "<f4")
    b = np.append((a[:8].view("<u4") + steps.astype("<u4")).view("<f4"), np.float32(np.nan))

    assert ulp_histogram(a, b, "float32") == (1, 1, 2, 2, 2, 1)


def test_bucket_labels_fit_the_buckets():
    """There is a label for every bucket."""
    assert len(summary.ULP_BUCKETS) == len(summary.ULP_BUCKET_LABELS)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_nan_in_one_tensor_only(dtype: str):
    """The first NaN that the other lacks is found, in either; NaNs of both do not count."""
    a = np.zeros((2, 3), dtype)
    a[0, 1] = np.nan
    b = a.copy()
    assert lone_nan(a, b, dtype) is None

    b[1, 2] = np.nan
    assert lone_nan(a, b, dtype) == ("b", (1, 2))
    assert lone_nan(b, a, dtype) == ("a", (1, 2))
    assert lone_nan(np.zeros(3, "<i4"), np.ones(3, "<i4"), "int32") is None


@pytest.mark.parametrize(
    ("a", "b", "across"),
    [
        ([1e-9, 2.0], [-1e-9, 4.0], True),
        ([1.0, 2.0], [1.0, 4.0], False),
        ([0.0], [-0.0], False),
        ([math.nan], [1.0], False),
    ],
)
def test_the_largest_distance_may_lead_across_zero(a, b, across):
    """Such a distance counts nearly all numbers that there are, and says nothing of how far the two are apart."""
    assert gap(np.array(a, np.float32), np.array(b, np.float32), "float32").across_zero is across
