"""The bits of stored tensors: integer views, exact values, and where two tensors differ.

A tensor is read from a recording in the storage type of its element type: as itself where numpy has the type,
else (bfloat16, float8, complex32) as unsigned integers of the same width. Every function here takes such an
array and the name of the element type.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Specials(StrEnum):
    """Which bit patterns of a floating-point format are not numbers."""

    IEEE = "ieee"
    """Exponent all ones: infinity where the mantissa is 0, else NaN (IEEE 754)."""
    FN = "fn"
    """Finite, NaN only where exponent and mantissa are all ones (OCP float8 E4M3)."""
    FNUZ = "fnuz"
    """Finite, unsigned zero, NaN is the pattern that would be -0 (float8 of Graphcore and AMD)."""
    SCALE = "scale"
    """Exponents without sign, zero and mantissa; NaN where all ones (OCP E8M0)."""


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """One floating-point format of real numbers."""

    bits: str
    """numpy dtype of the unsigned integers that hold its bits."""
    exponent: int
    """Width of the exponent, bits."""
    mantissa: int
    """Width of the mantissa, bits, without the hidden one."""
    bias: int
    """What is subtracted from the exponent."""
    specials: Specials
    """Which patterns are not numbers."""

    @property
    def epsilon(self) -> float:
        """Distance from 1 to the next larger number."""
        return 2.0**-self.mantissa


FORMATS = {
    "float64": FloatFormat("<u8", 11, 52, 1023, Specials.IEEE),
    "float32": FloatFormat("<u4", 8, 23, 127, Specials.IEEE),
    "float16": FloatFormat("<u2", 5, 10, 15, Specials.IEEE),
    "bfloat16": FloatFormat("<u2", 8, 7, 127, Specials.IEEE),
    "float8_e4m3fn": FloatFormat("<u1", 4, 3, 7, Specials.FN),
    "float8_e5m2": FloatFormat("<u1", 5, 2, 15, Specials.IEEE),
    "float8_e4m3fnuz": FloatFormat("<u1", 4, 3, 8, Specials.FNUZ),
    "float8_e5m2fnuz": FloatFormat("<u1", 5, 2, 16, Specials.FNUZ),
    "float8_e8m0fnu": FloatFormat("<u1", 8, 0, 127, Specials.SCALE),
}
"""Format of each real floating-point type (IEEE 754; OCP 8-bit formats; arXiv 2209.05433, 2206.02915)."""

COMPLEX = {"complex128": "float64", "complex64": "float32", "complex32": "float16"}
"""Element type of the two halves of each complex type."""

_NUMPY_FLOATS = {"float64": "<f8", "float32": "<f4", "float16": "<f2"}


def float_format(dtype: str) -> FloatFormat | None:
    """Return the format of a floating-point type, of its halves for a complex one; None for other types."""
    return FORMATS.get(COMPLEX.get(dtype, dtype))


def bits(array: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Return the bits of each element as unsigned integers.

    Args:
        array: As stored, any shape.
        dtype: Name of its element type.

    Returns:
        Unsigned integers of the shape of `array`, for a complex type with one more axis of length 2 (real and
        imaginary half).
    """
    whole = np.ascontiguousarray(array).reshape(array.shape)  # ascontiguousarray makes 0-d arrays 1-d
    kind = float_format(dtype)
    width = kind.bits if kind is not None else f"<u{whole.itemsize}"
    if dtype in COMPLEX:
        return whole.reshape(-1).view(width).reshape((*whole.shape, 2))
    return whole.view(width)


def differs(a: NDArray[Any], b: NDArray[Any], dtype: str) -> NDArray[np.bool_]:
    """Return where two tensors of one type and shape differ in at least one bit; bool, of their shape."""
    unequal: NDArray[np.bool_] = bits(a, dtype) != bits(b, dtype)
    return np.asarray(unequal.any(axis=-1)) if dtype in COMPLEX else unequal


def decode(array: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Return the exact values of a stored tensor.

    Args:
        array: As stored, any shape.
        dtype: Name of its element type.

    Returns:
        float64 for floating-point types, complex128 for complex ones, bool for bool; integers and bytes as
        they are (float64 could not hold all of int64).
    """
    if dtype in COMPLEX:
        halves = _decode_float(bits(array, dtype), COMPLEX[dtype])
        return np.ascontiguousarray(halves).view(np.complex128)[..., 0]
    if dtype in FORMATS:
        return _decode_float(bits(array, dtype), dtype)
    return array != 0 if dtype == "bool" else array


def is_nan(pattern: NDArray[Any], kind: FloatFormat) -> NDArray[np.bool_]:
    """Return which bit patterns are NaN; bool, of the shape of `pattern`."""
    magnitude, sign = split(pattern, kind)
    largest = pattern.dtype.type((1 << (kind.exponent + kind.mantissa)) - 1)
    tests = {
        Specials.IEEE: lambda: magnitude > (largest >> kind.mantissa) << kind.mantissa,
        Specials.FN: lambda: magnitude == largest,
        Specials.FNUZ: lambda: (magnitude == 0) & sign,
        Specials.SCALE: lambda: magnitude == largest,
    }
    found: NDArray[np.bool_] = tests[kind.specials]()
    return found


def split(pattern: NDArray[Any], kind: FloatFormat) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return magnitude (exponent and mantissa as one integer) and sign bit of each pattern."""
    width = kind.exponent + kind.mantissa
    mask = pattern.dtype.type((1 << width) - 1)
    signed = kind.specials is not Specials.SCALE
    return pattern & mask, (pattern >> width).astype(np.bool_) if signed else np.zeros(pattern.shape, np.bool_)


def _decode_float(pattern: NDArray[Any], dtype: str) -> NDArray[np.float64]:
    if dtype in _NUMPY_FLOATS:
        native = pattern.view(_NUMPY_FLOATS[dtype])
    elif dtype == "bfloat16":  # the upper half of a float32
        native = (pattern.astype("<u4") << 16).view("<f4")
    else:
        return np.asarray(_float8_values(dtype)[pattern])
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return np.asarray(native.astype(np.float64))


@cache
def _float8_values(dtype: str) -> NDArray[np.float64]:
    """Return the value of each of the 256 patterns of an 8-bit type, float64[256]."""
    kind = FORMATS[dtype]
    pattern = np.arange(256, dtype=np.uint8)
    magnitude, negative = split(pattern, kind)
    exponent = (magnitude >> kind.mantissa).astype(np.int64)
    fraction = (magnitude & ((1 << kind.mantissa) - 1)) / (1 << kind.mantissa)
    subnormal = (exponent == 0) & (kind.specials is not Specials.SCALE)
    scale = np.where(subnormal, 1, exponent) - kind.bias
    value = np.ldexp(np.where(subnormal, fraction, 1 + fraction), scale)
    if kind.specials is Specials.IEEE:
        value[exponent == (1 << kind.exponent) - 1] = np.inf
    value = np.asarray(np.where(negative, -value, value))
    value[is_nan(pattern, kind)] = np.nan
    return value
