"""A hint at why two tensors differ, from their elements alone.

The rules are tried in the order of `Signature`; the first that fits is the answer. A hint is not a proof: it
tells a reader where to look first.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.numerics.arithmetic import shorter_arithmetic
from bisect_diverge.numerics.bits import COMPLEX, FORMATS, FloatFormat, bits, decode, differs, float_format
from bisect_diverge.numerics.summary import blocks


class Signature(StrEnum):
    """How two tensors differ; the order of members is the order of the rules."""

    EQUAL = "equal"
    """No element differs in its bits."""
    NAN = "nan"
    """An element is NaN in exactly one of the two, or the NaNs have different payloads."""
    SIGN_OF_ZERO = "sign-of-zero"
    """Every differing element is zero in both."""
    REDUCTION_ORDER = "reduction-order"
    """Every differing element is finite in both, and the difference is at most `rounding`, relative to the
    element or to the root mean square of the tensor: another order of summation, or another kernel. Or the same
    in a shorter type, whose values a float32 tensor holds under autocast, see `Hint.rounded_as`."""
    PERMUTATION = "permutation"
    """Both hold the same elements in another order."""
    MASKED = "masked"
    """Every differing element is zero in exactly one of the two, as after dropout with another mask (at least two)."""
    SCALED = "scaled"
    """Every differing element of B is A's times one constant, within rounding (at least two elements)."""
    SHIFTED = "shifted"
    """Every differing element of B is A's plus one constant, within rounding (at least two elements)."""
    SHORTER_ARITHMETIC = "shorter-arithmetic"
    """The differences are as large as rounding errors of a shorter type, see `Hint.rounded_as`: one run computed in
    TF32, float16 or bfloat16."""
    UNRELATED = "unrelated"
    """The differences are as large as the values, which do not correlate: another seed, other data."""
    VALUES = "values"
    """Anything else."""


@dataclass(frozen=True, slots=True)
class Hint:
    """How two tensors differ."""

    signature: Signature
    """The rule that fits."""
    rounded_as: str = ""
    """The shorter type whose rounding it is; for *reduction-order* empty where it is the tensor's own."""


SMALL_SHARE = 1 / 16
"""Share of elements up to which differences of a unit of a shorter type are taken for its rounding."""

UNRELATED_ELEMENTS = 32
"""Differing elements from which values can be told to be unrelated."""

SAMPLE = 1 << 20
"""Differing elements that the rules look at; of more, the first."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What one pass over both tensors found."""

    a: NDArray[Any]
    """Values of differing elements in A, at most `SAMPLE`."""
    b: NDArray[Any]
    """The same elements in B."""
    differing: int
    """Number of differing elements."""
    scale: float
    """Root mean square of the finite elements of A."""
    same_elements: bool
    """Both hold the same bit patterns equally often."""
    epsilon: float
    """Distance from 1 to the next larger number of the type; 0 for integers."""
    rounding: float
    """What counts as rounding, see `rounding`."""
    numel: int
    """Number of elements."""
    dtype: str
    """Name of the element type."""


def rounding(kind: FloatFormat) -> float:
    """Return the relative difference up to which two results are the same but for rounding.

    32 units of the last place for float32 and float64, where errors of a whole sum add up (of a million terms
    in random order about that many); fewer for short types, which are rounded once from a longer accumulator:
    8 for float16, 4 for bfloat16, 1 or 2 for float8.
    """
    return min(32, 1 << kind.mantissa // 3) * kind.epsilon


def signature(a: NDArray[Any], b: NDArray[Any], dtype: str) -> Signature:
    """Return the name of `hint` alone."""
    return hint(a, b, dtype).signature


def hint(a: NDArray[Any], b: NDArray[Any], dtype: str, *, computed: bool = True, products: bool = True) -> Hint:
    """Return a hint at why two tensors differ.

    Args:
        a: As stored, any shape.
        b: The same type and shape.
        dtype: Name of their element type.
        computed: A kernel made them; what was fed in is never *reduction-order*.
        products: They may be sums of products; weights are not, and never *shorter-arithmetic*.
    """
    found = _look(a, b, dtype)
    rules = _RULES if float_format(dtype) else _INTEGER_RULES
    if not found.differing:
        return Hint(Signature.EQUAL)
    with np.errstate(all="ignore"):
        allowed = [(name, fits) for name, fits in rules if computed or name is not Signature.REDUCTION_ORDER]
        name = next((name for name, fits in allowed if fits(found)), Signature.VALUES)
        return _of_other_values(found, computed=computed, products=products) if name is Signature.VALUES else Hint(name)


def _of_other_values(found: _Found, *, computed: bool, products: bool) -> Hint:
    """Return a hint at differences that none of the simple rules explains."""
    rounded_as = _shorter_type(found) if computed else ""
    if rounded_as:
        return Hint(Signature.REDUCTION_ORDER, rounded_as)
    if computed and products:
        scale, numel = found.scale, found.numel
        computed_as = shorter_arithmetic(found.a, found.b, scale=scale, numel=numel, dtype=found.dtype)
        if computed_as:
            return Hint(Signature.SHORTER_ARITHMETIC, computed_as)
    return Hint(Signature.UNRELATED if _unrelated(found) else Signature.VALUES)


def _look(a: NDArray[Any], b: NDArray[Any], dtype: str) -> _Found:
    parts_a, parts_b = [], []
    taken = differing = count = 0
    squares = 0.0
    balance = 0
    for block_a, block_b in blocks(a, b):
        unequal = np.flatnonzero(differs(block_a, block_b, dtype))
        differing += len(unequal)
        chosen = unequal[: SAMPLE - taken]
        taken += len(chosen)
        parts_a.append(decode(block_a[chosen], dtype))
        parts_b.append(decode(block_b[chosen], dtype))
        squares_of_block, count_of_block = _squares(decode(block_a, dtype))
        squares += squares_of_block
        count += count_of_block
        balance += _mixed_sum(block_a[unequal], dtype) - _mixed_sum(block_b[unequal], dtype)
    empty = np.zeros(0)
    kind = float_format(dtype)
    return _Found(
        np.concatenate(parts_a) if parts_a else empty,
        np.concatenate(parts_b) if parts_b else empty,
        differing,
        float(np.sqrt(squares / count)) if count else 0.0,
        balance % 2**64 == 0,
        kind.epsilon if kind else 0.0,
        rounding(kind) if kind else 0.0,
        a.size,
        dtype,
    )


def _squares(values: NDArray[Any]) -> tuple[float, int]:
    if values.dtype.kind not in "fc":
        return 0.0, 0
    finite = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        return float((np.abs(finite) ** 2).sum()), finite.size


def _mixed_sum(stored: NDArray[Any], dtype: str) -> int:
    """Return a sum that two collections share, but for a chance of 2**-64, only if they are the same."""
    pattern = bits(stored, dtype)
    if dtype in COMPLEX:
        wide = pattern.astype(np.uint64)
        pattern = wide[..., 0] * np.uint64(0xD1342543DE82EF95) + wide[..., 1]
    # splitmix64 (Steele, Lea & Flood 2014): a bijection that leaves no linear relation for the sum to cancel.
    x = pattern.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int((x ^ (x >> np.uint64(31))).sum(dtype=np.uint64))


def _nan(found: _Found) -> bool:
    return bool((np.isnan(found.a) | np.isnan(found.b)).any())


def _sign_of_zero(found: _Found) -> bool:
    return bool(((found.a == 0) & (found.b == 0)).all())


def _reduction_order(found: _Found) -> bool:
    size = np.maximum(np.maximum(np.abs(found.a), np.abs(found.b)), found.scale)
    return bool((np.isfinite(size) & (np.abs(found.a - found.b) <= found.rounding * size)).all())


def _shorter_type(found: _Found) -> str:
    """Return the shorter type whose rounding the differences of a float32 tensor are; empty: of none.

    Either all differing values are numbers of that type, or they are one unit of it apart in a few elements.
    """
    size = np.maximum(np.abs(found.a), np.abs(found.b))
    if found.dtype != "float32" or not np.isfinite(size).all():
        return ""
    gap = np.abs(found.a - found.b)
    pattern = np.concatenate([found.a, found.b]).astype(np.float32).view(np.uint32)
    for name, spare in _SHORTER.items():
        kind = FORMATS[name]
        near = np.maximum(size, found.scale)
        if not (pattern & spare).any() and (gap <= rounding(kind) * near).all():
            return name
    few = found.differing <= SMALL_SHARE * found.numel
    unit = np.exp2(np.frexp(size)[1] - 1.0)  # the power of two at or below each value
    fitting = (name for name in reversed(_SHORTER) if (gap <= FORMATS[name].epsilon * unit).all())
    return next(fitting, "") if few else ""


def _unrelated(found: _Found) -> bool:
    """Whether the differences are as large as those of independent values, and nothing correlates."""
    if len(found.a) < UNRELATED_ELEMENTS or found.a.dtype.kind not in "fiu":
        return False
    a, b = (values.astype(np.float64) for values in (found.a, found.b))
    a, b = a - a.mean(), b - b.mean()
    spread_a, spread_b = np.sqrt((a**2).mean()), np.sqrt((b**2).mean())
    if not (np.isfinite(spread_a * spread_b) and spread_a * spread_b > 0):
        return False
    # Of independent values it is within 3 / sqrt(n) of 0 in 99.7 % of cases.
    return bool(abs((a * b).mean() / (spread_a * spread_b)) < 3 / np.sqrt(len(a)))


def _permutation(found: _Found) -> bool:
    return found.same_elements


def _masked(found: _Found) -> bool:
    return found.differing > 1 and bool(((found.a == 0) ^ (found.b == 0)).all())


def _scaled(found: _Found) -> bool:
    if found.differing < 2 or (found.a == 0).any():
        return False
    largest = int(np.abs(found.a).argmax())
    expected = found.a * (found.b[largest] / found.a[largest])
    return _close(expected, found.b, np.abs(found.b), found.epsilon)


def _shifted(found: _Found) -> bool:
    if found.differing < 2:
        return False
    constant = (found.b - found.a)[int(np.abs(found.a).argmin())]
    return _close(found.a + constant, found.b, np.maximum(np.abs(found.a), np.abs(found.b)), found.epsilon)


def _close(expected: NDArray[Any], actual: NDArray[Any], size: NDArray[Any], epsilon: float) -> bool:
    return bool((np.isfinite(actual) & (np.abs(expected - actual) <= 4 * epsilon * size)).all())


def _shifted_integers(found: _Found) -> bool:
    if found.differing < 2 or found.a.dtype.kind not in "iu":
        return False
    gaps = found.b.astype(np.uint64) - found.a.astype(np.uint64)  # wraps around: exact for every width
    return bool((gaps == gaps[0]).all())


_SHORTER = {"bfloat16": 0xFFFF, "float16": 0xFFF}
"""Shorter type to the bits of a float32 that are zero in its values (one more is left for float16 sums)."""

_RULES = (
    (Signature.NAN, _nan),
    (Signature.SIGN_OF_ZERO, _sign_of_zero),
    (Signature.REDUCTION_ORDER, _reduction_order),
    (Signature.PERMUTATION, _permutation),
    (Signature.MASKED, _masked),
    (Signature.SCALED, _scaled),
    (Signature.SHIFTED, _shifted),
)

_INTEGER_RULES = (
    (Signature.PERMUTATION, _permutation),
    (Signature.SHIFTED, _shifted_integers),
)
