"""The bits of stored tensors, checked against torch over every pattern of the narrow types."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bisect_diverge.model.elements import BY_NAME, Kind
from bisect_diverge.numerics.bits import COMPLEX, FORMATS, bits, decode, differs, float_format, is_nan

NARROW = [
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
]


def patterns(dtype: str) -> np.ndarray:
    """Return every bit pattern of a type of one or two bytes, in its storage type."""
    width = BY_NAME[dtype].itemsize
    return np.arange(256**width, dtype=f"<u{width}").view(BY_NAME[dtype].storage)


def test_every_float_type_of_the_file_has_a_format():
    """A type that the file knows as floating-point can be decoded, and no other type is listed."""
    floats = {name for name, element in BY_NAME.items() if element.kind is Kind.FLOAT}
    complexes = {name for name, element in BY_NAME.items() if element.kind is Kind.COMPLEX}

    assert floats == set(FORMATS)
    assert complexes == set(COMPLEX)


@pytest.mark.parametrize("dtype", NARROW)
def test_decode_agrees_with_torch_on_every_pattern(dtype):
    """Every pattern of a narrow type has the value that torch gives it."""
    stored = patterns(dtype)
    tensor = torch.from_numpy(stored.view(f"<u{stored.itemsize}").copy()).view(getattr(torch, dtype))
    expected = tensor.to(torch.float32).to(torch.float64).numpy()

    np.testing.assert_array_equal(expected, decode(stored, dtype))


@pytest.mark.parametrize("dtype", NARROW)
def test_is_nan_agrees_with_decode_on_every_pattern(dtype):
    """The patterns called NaN are those that decode to NaN."""
    stored = patterns(dtype)

    np.testing.assert_array_equal(np.isnan(decode(stored, dtype)), is_nan(bits(stored, dtype), FORMATS[dtype]))


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")  # it is only viewed here
def test_decode_of_complex32_agrees_with_torch():
    """A complex32 is two float16 halves, the real one first."""
    tensor = torch.tensor([1.5 - 2.25j, -0.0 + 65504j], dtype=torch.complex32)
    stored = tensor.view(torch.int32).numpy().view("<u4")

    np.testing.assert_array_equal(np.array([1.5 - 2.25j, -0.0 + 65504j]), decode(stored, "complex32"))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@given(data=st.data())
def test_decode_of_wide_floats_is_exact(dtype, data):
    """float32 and float64 decode to the same numbers, NaN to NaN."""
    array = data.draw(hnp.arrays(BY_NAME[dtype].storage, st.integers(0, 20)))

    np.testing.assert_array_equal(array.astype(np.float64), decode(array, dtype))


def test_decode_keeps_integers_beyond_the_reach_of_float64():
    """2**63 - 1 stays itself: integers are not turned into floats."""
    array = np.array([2**63 - 1, -(2**63)], "<i8")

    assert decode(array, "int64").tolist() == [2**63 - 1, -(2**63)]


def test_decode_of_bool_gives_truth_values():
    """Stored bytes become truth values."""
    assert decode(np.array([0, 1], "<u1"), "bool").tolist() == [False, True]


@pytest.mark.parametrize("dtype", [name for name, element in BY_NAME.items() if element.storage])
def test_bits_keep_the_shape_of_every_type(dtype):
    """Every type with a pool has a view of its bits; a complex one has an axis for its halves."""
    stored = np.zeros((2, 3), BY_NAME[dtype].storage)
    expected = (2, 3, 2) if dtype in COMPLEX else (2, 3)

    assert bits(stored, dtype).shape == expected
    assert bits(stored, dtype).dtype == np.dtype(BY_NAME[dtype].bits)


def test_bits_of_scalar_and_strided_arrays():
    """A 0-d array stays 0-d, and a transposed one is read in logical order."""
    grid = np.arange(6, dtype="<f4").reshape(2, 3)

    assert bits(np.float32(1.0).reshape(()), "float32").shape == ()
    np.testing.assert_array_equal(bits(grid, "float32").T, bits(grid.T, "float32"))


def test_zeros_of_either_sign_differ():
    """-0.0 and 0.0 are equal numbers with different bits."""
    assert differs(np.array([0.0]), np.array([-0.0]), "float64").tolist() == [True]


def test_nan_equals_itself_and_differs_from_other_payloads():
    """A NaN is equal to one of the same payload and differs from one of another."""
    nan = np.array([0x7FC00000, 0x7FC00000], "<u4").view("<f4")
    other = np.array([0x7FC00000, 0x7FC00001], "<u4").view("<f4")

    assert differs(nan, other, "float32").tolist() == [False, True]


def test_a_complex_number_differs_where_either_half_does():
    """One answer is given for both halves."""
    a, b = np.array([1 + 1j, 1 + 1j, 1 + 1j]), np.array([1 + 1j, 2 + 1j, 1 + 2j])

    assert differs(a, b, "complex128").tolist() == [False, True, True]


def test_integers_have_no_float_format():
    """Types without ULPs say so."""
    assert float_format("int32") is None
    assert float_format("complex64") == FORMATS["float32"]


def test_signalling_nan_decodes_without_a_warning():
    """A signalling NaN is NaN; numpy's remark on the conversion is not passed on."""
    signalling = np.array([0x7F800001], "<u4").view("<f4")

    assert np.isnan(decode(signalling, "float32")).all()
