"""ULP distance: the number of representable values between two floats of one type.

Floats of one sign are ordered like the integers that hold their magnitude, so a float becomes an integer that
counts representable values from zero - positive upwards, negative downwards - and the distance of two floats
is the difference of their integers (B. Dawson, "Comparing Floating Point Numbers", 2012).

- -0.0 and +0.0 are one value: distance 0, although their bits differ.
- Infinity is the value after the largest finite one: distance 1. Formats without infinity have no such step.
- A NaN has no distance from a number, nor from a NaN of another payload or sign: `NO_DISTANCE`. Equal bits:
0.
- Distances beyond 2**63 - 1 (float64, across zero, near the largest numbers) are given as 2**63 - 1.
- Of a complex number, the larger of the distances of its halves; `NO_DISTANCE` where either half has none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.numerics.bits import COMPLEX, FloatFormat, bits, float_format, is_nan, split

NO_DISTANCE = -1
"""Stands where one of the two is NaN and their bits are not the same."""

_LARGEST = np.uint64(np.iinfo(np.int64).max)


def ulp_distance(a: NDArray[Any], b: NDArray[Any], dtype: str) -> NDArray[np.int64]:
    """Return the ULP distance of each pair of elements.

    Args:
        a: As stored, any shape.
        b: The same type and shape.
        dtype: Name of their element type, a floating-point or complex one.

    Returns:
        int64 of the shape of `a`, ULPs, >= 0, or `NO_DISTANCE`.

    Raises:
        ValueError: if the type has no ULPs.
    """
    kind = float_format(dtype)
    if kind is None:
        raise ValueError(f"{dtype} is no floating-point type")
    pattern_a, pattern_b = bits(a, dtype), bits(b, dtype)
    of_a, of_b = _ordered(pattern_a, kind), _ordered(pattern_b, kind)
    # Subtraction of the unsigned views wraps around to the true distance, which int64 could not hold.
    wide_a, wide_b = of_a.view(np.uint64), of_b.view(np.uint64)
    gap = np.where(of_a >= of_b, wide_a - wide_b, wide_b - wide_a)
    distance = np.minimum(gap, _LARGEST).astype(np.int64)
    not_a_number = is_nan(pattern_a, kind) | is_nan(pattern_b, kind)
    distance = np.where(not_a_number, np.where(pattern_a == pattern_b, 0, NO_DISTANCE), distance)
    if dtype not in COMPLEX:
        return distance
    largest: NDArray[np.int64] = np.where((distance == NO_DISTANCE).any(-1), NO_DISTANCE, distance.max(-1))
    return largest


def _ordered(pattern: NDArray[Any], kind: FloatFormat) -> NDArray[np.int64]:
    """Return integers in the order of the values, 0 for both zeros."""
    magnitude, negative = split(pattern, kind)
    count = magnitude.astype(np.int64)
    return np.where(negative, -count, count)
