"""One tensor in a few numbers, and the distances of two tensors in a few buckets."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.numerics.bits import COMPLEX, FORMATS, decode, differs, float_format
from bisect_diverge.numerics.ulp import NO_DISTANCE, ulp_distance

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK = 1 << 20
"""Elements looked at together, so that a summary of any tensor needs little memory beside it."""

ULP_BUCKETS = ((0, 0), (1, 1), (2, 3), (4, 15), (16, None))
"""Smallest and largest ULP distance of each bucket, both inclusive; None: no upper end."""

ULP_BUCKET_LABELS = ("0", "1", "2-3", "4-15", "16+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One tensor in a few numbers; of complex numbers, their absolute values."""

    numel: int
    """Number of elements."""
    minimum: float | None
    """Smallest finite value; None: there is none."""
    maximum: float | None
    """Largest finite value; None: there is none."""
    mean: float | None
    """Mean of the finite values; None: there are none."""
    nan: int
    """Number of NaNs."""
    inf: int
    """Number of infinities of either sign."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """How far two tensors of one type and shape are apart."""

    differing: int
    """Number of elements whose bits differ."""
    max_ulp: int | None
    """Largest ULP distance; None where the type has none, or no pair of numbers differs in bits."""
    max_abs: float | None
    """Largest absolute difference of finite elements; None if there are none."""
    max_rel: float | None
    """Largest ``|a-b| / max(|a|, |b|)`` over the same elements; None if there are none."""
    first_index: tuple[int, ...] | None
    """Index of the first differing element in row-major order; None where none differs."""
    across_zero: bool = False
    """Whether the largest ULP distance is one of two numbers of different sign: it counts all that lie between."""


def blocks(*arrays: NDArray[Any]) -> Iterator[tuple[NDArray[Any], ...]]:
    """Return equally long flat pieces of arrays of one shape, at most `BLOCK` elements each."""
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, flat[0].size, BLOCK):
        yield tuple(array[start : start + BLOCK] for array in flat)


def summarize(array: NDArray[Any], dtype: str) -> Summary:
    """Return a tensor in a few numbers.

    Args:
        array: As stored, any shape.
        dtype: Name of its element type.
    """
    lows, highs, total, finite_count, nan, inf = [], [], 0.0, 0, 0, 0
    for (block,) in blocks(array):
        values = decode(block, dtype)
        values = np.abs(values) if dtype in COMPLEX else values
        if values.dtype.kind == "f":
            nan += int(np.isnan(values).sum())
            inf += int(np.isinf(values).sum())
            values = values[np.isfinite(values)]
        if values.size:
            lows.append(float(values.min()))
            highs.append(float(values.max()))
            total += _sum(values)
            finite_count += values.size
    return Summary(
        numel=array.size,
        minimum=min(lows, default=None),
        maximum=max(highs, default=None),
        mean=total / finite_count if finite_count else None,
        nan=nan,
        inf=inf,
    )


def gap(a: NDArray[Any], b: NDArray[Any], dtype: str) -> Gap:
    """Return how far two tensors of one type and shape are apart."""
    differing, first = 0, None
    ulps: list[tuple[int, bool]] = []
    absolute: list[float] = []
    relative: list[float] = []
    for number, (block_a, block_b) in enumerate(blocks(a, b)):
        unequal = np.flatnonzero(differs(block_a, block_b, dtype))
        if len(unequal) and first is None:
            first = number * BLOCK + int(unequal[0])
        differing += len(unequal)
        ulps += _largest_ulp(block_a[unequal], block_b[unequal], dtype)
        of_block = _largest_differences(block_a, block_b, dtype)
        if of_block is not None:
            absolute.append(of_block[0])
            relative.append(of_block[1])
    max_ulp, across_zero = max(ulps, default=(None, False))
    return Gap(
        differing=differing,
        max_ulp=max_ulp,
        across_zero=across_zero,
        max_abs=max(absolute, default=None),
        max_rel=max(relative, default=None),
        first_index=None if first is None else tuple(map(int, np.unravel_index(first, a.shape))),
    )


def lone_nan(a: NDArray[Any], b: NDArray[Any], dtype: str) -> tuple[str, tuple[int, ...]] | None:
    """Return ``a`` or ``b`` and the index of the first element that is NaN only there; None: there is none."""
    if float_format(dtype) is None:
        return None
    for number, (block_a, block_b) in enumerate(blocks(a, b)):
        of_a, of_b = np.isnan(decode(block_a, dtype)), np.isnan(decode(block_b, dtype))
        found = np.flatnonzero(of_a != of_b)
        if len(found):
            index = np.unravel_index(number * BLOCK + int(found[0]), a.shape)
            return ("a" if of_a[found[0]] else "b"), tuple(map(int, index))
    return None


def ulp_histogram(a: NDArray[Any], b: NDArray[Any], dtype: str) -> tuple[int, ...]:
    """Return the number of pairs of elements in each of `ULP_BUCKETS`, and last of those without distance."""
    counts = np.zeros(len(ULP_BUCKETS) + 1, np.int64)
    for block_a, block_b in blocks(a, b):
        distance = ulp_distance(block_a, block_b, dtype)
        for number, (low, high) in enumerate(ULP_BUCKETS):
            inside = distance >= low if high is None else (distance >= low) & (distance <= high)
            counts[number] += int(inside.sum())
        counts[-1] += int((distance == NO_DISTANCE).sum())
    return tuple(counts.tolist())


def _sum(values: NDArray[Any]) -> float:
    with np.errstate(over="ignore"):
        return float(values.sum(dtype=np.float64))


def _largest_ulp(a: NDArray[Any], b: NDArray[Any], dtype: str) -> list[tuple[int, bool]]:
    """Return the largest distance and whether it leads across zero; empty where no pair has one."""
    if dtype not in FORMATS and dtype not in COMPLEX:
        return []
    distance = ulp_distance(a, b, dtype)
    at = int(distance.argmax()) if distance.size else 0
    if not distance.size or distance[at] == NO_DISTANCE:  # the smallest value, so that no pair has a distance
        return []
    one_a, one_b = decode(a[at : at + 1], dtype), decode(b[at : at + 1], dtype)
    apart = dtype in FORMATS and bool(distance[at])  # of a complex number it is not known which part it is
    return [(int(distance[at]), apart and bool(np.signbit(one_a) != np.signbit(one_b)))]


def _largest_differences(a: NDArray[Any], b: NDArray[Any], dtype: str) -> tuple[float, float] | None:
    """Return the largest absolute and relative difference of finite elements; None if there are none."""
    of_a, of_b = decode(a, dtype), decode(b, dtype)
    if of_a.dtype.kind in "fc":
        finite = np.isfinite(of_a) & np.isfinite(of_b)
        of_a, of_b = of_a[finite], of_b[finite]
    if not of_a.size:
        return None
    if of_a.dtype.kind in "fc":
        with np.errstate(over="ignore"):  # the result is then the largest number
            absolute = np.abs(of_a - of_b)
            scale = np.maximum(np.abs(of_a), np.abs(of_b))
    else:
        absolute = _integer_distance(of_a, of_b)
        scale = np.maximum(np.abs(of_a.astype(np.float64)), np.abs(of_b.astype(np.float64)))
    relative = np.divide(absolute, scale, out=np.zeros(absolute.shape), where=scale > 0)
    return min(float(absolute.max()), sys.float_info.max), float(relative.max())


def _integer_distance(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """Return |a - b| without overflow, rounded once."""
    wide = np.uint64 if a.dtype == np.uint64 else np.int64
    a, b = a.astype(wide), b.astype(wide)
    forward = a.view(np.uint64) - b.view(np.uint64)
    return np.where(a >= b, forward, -forward).astype(np.float64)
