"""Where two tensors differ, and how."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bisect_diverge.numerics import elementwise as module
from bisect_diverge.numerics import summary
from bisect_diverge.numerics.elementwise import Layout, elementwise, extent
from bisect_diverge.numerics.ulp import NO_DISTANCE, ulp_distance

BASE = np.random.default_rng(5).standard_normal((6, 4, 5)).astype(np.float32)


def spoilt(where: tuple) -> np.ndarray:
    """Return the base with some elements one unit further from zero."""
    out = BASE.copy()
    out.view(np.uint32)[where] += 1
    return out


@pytest.mark.parametrize(
    ("where", "layout", "axis", "index", "touched"),
    [
        (np.s_[2, 3, 1], Layout.ONE_ELEMENT, None, None, (1, 1, 1)),
        (np.s_[2], Layout.ONE_INDEX, 0, 2, (1, 4, 5)),
        (np.s_[:, 3], Layout.ONE_INDEX, 1, 3, (6, 1, 5)),
        (np.s_[..., 4], Layout.ONE_INDEX, 2, 4, (6, 4, 1)),
        (np.s_[...], Layout.EVERYWHERE, None, None, (6, 4, 5)),
        (np.s_[::2, 1:3], Layout.SCATTERED, None, None, (3, 2, 5)),
        (np.s_[:0], Layout.SCATTERED, None, None, (0, 0, 0)),
    ],
)
def test_where_the_differing_elements_lie(where, layout, axis, index, touched):
    """One element, one sample, one row, one channel, everywhere, or here and there."""
    found = elementwise(BASE, spoilt(where), "float32").extent

    assert (found.layout, found.axis, found.index, found.touched) == (layout, axis, index, touched)


def test_an_axis_of_length_one_says_nothing():
    """All elements of a single row are not *one row* of it."""
    assert extent(np.ones((1, 8), np.bool_)).layout is Layout.EVERYWHERE
    assert extent(np.ones((), np.bool_)).layout is Layout.ONE_ELEMENT
    assert extent(np.zeros((0, 3), np.bool_)).layout is Layout.SCATTERED


def test_what_appears_and_what_flips():
    """NaN and infinity are counted by the run that has them, signs where both are numbers other than zero."""
    a = np.array([1, np.nan, np.inf, 1, -2, 0.0, 5, np.inf], np.float32)
    b = np.array([np.nan, 1, 1, -np.inf, 2, -0.0, 5, -np.inf], np.float32)
    found = elementwise(a, b, "float32")

    assert (found.nan_appearing, found.nan_vanishing) == (1, 1)
    assert (found.inf_appearing, found.inf_vanishing) == (1, 1)
    assert found.sign_flips == 3  # 1 to -inf, -2 to 2, inf to -inf; zeros have no sign to flip
    assert found.no_distance == 2


def test_signs_of_integers_and_parts_of_complex_elementwise():
    """Integers flip too; a complex number has no sign and no ULP distance beyond that of its halves."""
    ids = np.array([3, -4, 0], "<i8")
    assert elementwise(ids, -ids, "int64").sign_flips == 2
    assert elementwise(ids, -ids, "int64").ulp_histogram == ()
    pair = np.array([1 + 1j, 2]), np.array([1 - 1j, 2])
    assert elementwise(*(half.astype(np.complex64) for half in pair), "complex64").sign_flips == 0
    mask = np.array([0, 1], "<u1")
    assert elementwise(mask, 1 - mask, "bool").extent.layout is Layout.EVERYWHERE


@given(st.data())
def test_percentiles_and_histogram_agree_with_all_distances(data):
    """Every differing element is in one bucket, and percentiles are distances that occur."""
    shape = data.draw(hnp.array_shapes(max_dims=2, max_side=8))
    a, b = (data.draw(hnp.arrays("<f4", shape)) for _ in range(2))
    found = elementwise(a, b, "float32")
    differing = a.view("<u4") != b.view("<u4")
    distances = ulp_distance(a, b, "float32")[differing]
    known = np.sort(distances[distances != NO_DISTANCE])

    for bucket in found.ulp_histogram:
        assert bucket.count == ((known >= bucket.low) & (known <= bucket.high)).sum()
    assert sum(bucket.count for bucket in found.ulp_histogram) == len(known)
    assert found.no_distance == len(distances) - len(known)
    for percent, ulp in found.ulp_percentiles:
        assert (known <= ulp).mean() * 100 >= percent
        assert ulp in known


def test_large_tensors_are_looked_at_in_blocks(monkeypatch):
    """Blocks and a sample of the elements change nothing but the percentiles, and these little."""
    a = np.linspace(1, 2, 5000, dtype=np.float32)
    b = a.copy()
    b.view(np.uint32)[1000:] += np.arange(4000, dtype=np.uint32) % 100 + 1
    whole = elementwise(a, b, "float32")
    for of_blocks in (module, summary):
        monkeypatch.setattr(of_blocks, "BLOCK", 300)
    monkeypatch.setattr(module, "SAMPLE", 900)
    parts = elementwise(a, b, "float32")

    assert (parts.extent, parts.ulp_histogram) == (whole.extent, whole.ulp_histogram)
    assert whole.ulp_percentiles == ((50, 50), (90, 90), (99, 99))
    assert all(abs(x - y) <= 5 for (_, x), (_, y) in zip(parts.ulp_percentiles, whole.ulp_percentiles, strict=True))
