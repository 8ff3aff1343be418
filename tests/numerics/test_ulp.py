"""ULP distances against the definition: the number of representable values between two floats."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisect_diverge.model.elements import BY_NAME
from bisect_diverge.numerics.bits import decode
from bisect_diverge.numerics.ulp import NO_DISTANCE, ulp_distance

SHORT = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]


def floats(*values: float, dtype: str = "float64") -> np.ndarray:
    """Return values in the storage type of a type numpy has."""
    return np.array(values, BY_NAME[dtype].storage)


@pytest.mark.parametrize("dtype", SHORT)
def test_distance_counts_the_values_between(dtype):
    """Sorted by value, neighbours of a short type are one apart, and equal values (the zeros) none."""
    width = BY_NAME[dtype].itemsize
    stored = np.arange(256**width, dtype=f"<u{width}").view(BY_NAME[dtype].storage)
    values = decode(stored, dtype)
    order = np.argsort(values, kind="stable")[: np.count_nonzero(~np.isnan(values))]
    ordered, values = stored[order], values[order]
    expected = (values[1:] != values[:-1]).astype(np.int64)

    np.testing.assert_array_equal(expected, ulp_distance(ordered[:-1], ordered[1:], dtype))
    assert ulp_distance(ordered[:1], ordered[-1:], dtype)[0] == expected.sum()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@given(data=st.data())
def test_the_next_value_is_one_away(dtype, data):
    """The next larger number is at distance 1, up to and including infinity."""
    kind = BY_NAME[dtype].storage
    value = np.array([data.draw(st.floats(width=8 * BY_NAME[dtype].itemsize, allow_nan=False))], kind)
    with np.errstate(over="ignore", under="ignore"):  # numpy remarks on a step to infinity or out of a subnormal
        upwards = np.nextafter(value, np.array(np.inf, kind))
    expected = 0 if value[0] == np.inf else 1

    assert ulp_distance(value, upwards, dtype).tolist() == [expected]


@given(st.floats(allow_nan=False), st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_distance_is_symmetric_and_adds_up(x, y, z):
    """Distances are those of points on a line, as far as int64 can hold them."""
    low, middle, high = sorted([x, y, z])
    a, b, c = (floats(value) for value in (low, middle, high))
    whole = ulp_distance(a, c, "float64")[0]

    assert whole == ulp_distance(c, a, "float64")[0]
    parts = int(ulp_distance(a, b, "float64")[0]) + int(ulp_distance(b, c, "float64")[0])
    assert whole == min(parts, 2**63 - 1)


def test_zeros_of_either_sign_are_one_value():
    """-0.0 and 0.0 have no value between them; their neighbours are two apart."""
    tiny = np.nextafter(0.0, 1.0)

    assert ulp_distance(floats(0.0), floats(-0.0), "float64").tolist() == [0]
    assert ulp_distance(floats(tiny), floats(-tiny), "float64").tolist() == [2]


def test_infinity_follows_the_largest_number():
    """The distance of infinity from the largest finite number is 1."""
    largest = np.finfo(np.float32).max

    assert ulp_distance(floats(largest, dtype="float32"), floats(np.inf, dtype="float32"), "float32").tolist() == [1]


def test_nan_has_no_distance_but_to_itself():
    """NaN against a number, or against another payload, has no distance; against the same bits it is 0."""
    patterns = np.array([0x7FC00000, 0x7FC00000, 0x7FC00000], "<u4").view("<f4")
    others = np.array([0x3F800000, 0x7FC00001, 0x7FC00000], "<u4").view("<f4")

    assert ulp_distance(patterns, others, "float32").tolist() == [NO_DISTANCE, NO_DISTANCE, 0]


def test_distance_across_all_of_float64_does_not_overflow():
    """Distances that int64 cannot hold are given as its largest value."""
    largest = np.finfo(np.float64).max

    assert ulp_distance(floats(-largest), floats(largest), "float64").tolist() == [2**63 - 1]
    assert ulp_distance(floats(0.0), floats(largest), "float64").tolist() == [0x7FEFFFFFFFFFFFFF]


def test_complex_distance_is_the_larger_half():
    """Of a complex pair the farther half counts, and NaN in either leaves none."""
    one = np.nextafter(np.float32(1), np.float32(2))
    a = np.array([1 + 1j, 1 + 1j], "<c8")
    b = np.array([complex(one, 1), complex(np.nan, 1)], "<c8")

    assert ulp_distance(a, b, "complex64").tolist() == [1, NO_DISTANCE]


def test_integers_have_no_distance():
    """A type without ULPs is refused."""
    with pytest.raises(ValueError, match="int64"):
        ulp_distance(np.array([1]), np.array([2]), "int64")
