"""Whether two results look as if one was computed in a shorter type than the other, as under TF32 or autocast.

Inputs that are rounded to m bits of mantissa are wrong by up to 2**-(m+1) of themselves; in a sum of many products
these errors add up like a random walk, as the products do, so the result is wrong by about 2**-(m+1) of its root
mean square, however long the sum is (N. Higham, "Accuracy and Stability of Numerical Algorithms", 2002, ch. 3).
That is 2**-11 for TF32 and float16, which have 10 bits, and 2**-8 for bfloat16, which has 7.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.numerics.bits import FORMATS

FEWEST = 16
"""Differing elements from which the size of their differences tells a type."""
MOST = 0.5
"""Share of elements that differ where one result was computed in a shorter type."""
LARGEST = 8.0
"""Largest difference, in root mean squares of all differences: rounding errors have no long tail."""
ONE_WAY = 0.95
"""Share of elements that may move in one direction, towards zero or away from it: rounding goes both ways. (Of sums
whose terms were cut off instead of rounded nine in ten shrink.)"""

_SIZES = {"bfloat16": (-10.0, -7.0), "tf32 or float16": (-13.0, -10.0)}
"""Binary logarithm of the relative difference: least (exclusive) and greatest, to the types it speaks for."""
_SPARE_BITS = {"bfloat16": 0xFFFF, "float16": 0x1FFF}
"""Bits of a float32 that are zero where it holds a number of a shorter type."""


def shorter_arithmetic(a: NDArray[Any], b: NDArray[Any], *, scale: float, numel: int, dtype: str) -> str:
    """Return the type in which one of two results looks to be computed; empty: in none that can be told.

    Args:
        a: Values of the differing elements in A, float64[n].
        b: The same elements in B.
        scale: Root mean square of all elements of A.
        numel: Number of all elements.
        dtype: Type of both; only float32 results are judged.
    """
    if dtype != "float32" or len(a) < FEWEST or len(a) < MOST * numel or not scale > 0:
        return ""
    gap = np.abs(a - b)
    if not np.isfinite(gap).all():
        return ""
    return _held(a, b, gap, scale) or _sized(a, b, gap, scale)


def _held(a: NDArray[Any], b: NDArray[Any], gap: NDArray[Any], scale: float) -> str:
    """One of the two holds numbers of a shorter type only, and the other is as near as its rounding."""
    near = np.maximum(np.maximum(np.abs(a), np.abs(b)), scale)
    for name, spare in _SPARE_BITS.items():
        close = bool((gap <= 8 * FORMATS[name].epsilon * near).all())
        short = [not (values.astype(np.float32).view(np.uint32) & np.uint32(spare)).any() for values in (a, b)]
        if close and short[0] != short[1]:
            return name
    return ""


def _sized(a: NDArray[Any], b: NDArray[Any], gap: NDArray[Any], scale: float) -> str:
    """The differences are of the size of a shorter type's rounding errors, and spread as these are."""
    size = math.sqrt(float((gap**2).mean()))
    grown = float((np.abs(b) > np.abs(a)).mean())
    if max(grown, 1 - grown) > ONE_WAY or float(gap.max()) > LARGEST * size:
        return ""
    found = math.log2(size / scale)
    return next((name for name, (least, greatest) in _SIZES.items() if least < found <= greatest), "")
