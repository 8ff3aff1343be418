"""Whether two tensors of different element types hold the same values, but for rounding to the shorter type."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.numerics.bits import COMPLEX, FORMATS, decode
from bisect_diverge.numerics.summary import blocks

SAME = "same"
"""Every value is equal."""
ROUNDED = "rounded"
"""Values of the shorter type are those of the other, rounded or cut off."""


def cast_between(a: NDArray[Any], dtype_a: str, b: NDArray[Any], dtype_b: str) -> str:
    """Return `SAME`, `ROUNDED`, or an empty text where the values are others or cannot be compared.

    Args:
        a: As stored, any shape.
        dtype_a: Name of its element type.
        b: As stored, the same shape.
        dtype_b: Name of its element type, another one.
    """
    if dtype_a in COMPLEX or dtype_b in COMPLEX or not a.size:
        return ""
    kinds = [FORMATS[name] for name in (dtype_a, dtype_b) if name in FORMATS]
    # Rounding is off by half a unit, cutting off by less than a whole one.
    unit = max((kind.epsilon for kind in kinds), default=0.0)
    least = max((2.0 ** (1 - kind.bias - kind.mantissa) for kind in kinds), default=0.0)
    same = True
    for part_a, part_b in blocks(a, b):
        of_a, of_b = (decode(part, name).astype(np.float64) for part, name in ((part_a, dtype_a), (part_b, dtype_b)))
        equal = (of_a == of_b) | (np.isnan(of_a) & np.isnan(of_b))
        same &= bool(equal.all())
        with np.errstate(invalid="ignore", over="ignore"):
            near = np.abs(of_a - of_b) < np.maximum(unit * np.maximum(np.abs(of_a), np.abs(of_b)), least)
        if not (equal | near).all():
            return ""
    return SAME if same else ROUNDED
