"""A straight line through the logarithm of a growing quantity, with the uncertainty of its slope."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

FEWEST = 3
"""Points that a line with an uncertainty needs."""
CONFIDENCE = 0.95

_STUDENT = (12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139)
"""97.5 % quantiles of Student's t with 1, 2, ... degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Trend:
    """By what factor a quantity changes when its argument grows by 1."""

    factor: float
    """Exponential of the slope."""
    low: float
    """Lower end of its 95 % interval."""
    high: float
    """Upper end of its 95 % interval."""
    points: int
    """Points the line was fitted to."""


def trend(x: Sequence[float], y: Sequence[float]) -> Trend | None:
    """Return the least-squares line through log(y) over x; None for fewer than `FEWEST` usable points.

    Points whose y is not a positive finite number are left out. The interval is that of ordinary least squares
    with Student's t: it takes the deviations from the line to be independent, which those of neighbouring
    training steps are only roughly.

    Args:
        x: Arguments.
        y: Values, as many.
    """
    points = [(at, math.log(value)) for at, value in zip(x, y, strict=True) if 0 < value < math.inf]
    if len(points) < FEWEST or len({at for at, _ in points}) < FEWEST:
        return None
    at, log = np.array(points).T
    centred = at - at.mean()
    spread = float((centred**2).sum())
    slope = float((centred * log).sum()) / spread
    rest = log - log.mean() - slope * centred
    free = len(points) - 2
    error = math.sqrt(float((rest**2).sum()) / free / spread)
    reach = student(free) * error
    return Trend(_exp(slope), _exp(slope - reach), _exp(slope + reach), len(points))


def student(free: int) -> float:
    """Return the 97.5 % quantile of Student's t with `free` >= 1 degrees of freedom, to about 1e-5.

    Beyond the table it is the Cornish-Fisher expansion (Abramowitz & Stegun 1964, 26.7.5).
    """
    if free <= len(_STUDENT):
        return _STUDENT[free - 1]
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    fourth = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return z + first / free + second / free**2 + third / free**3 + fourth / free**4


def _exp(value: float) -> float:
    return math.exp(min(max(value, -700.0), 700.0))
