"""Where two tensors differ, and how: which indices, how many ULP, NaN and infinity that appear, signs that flip."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.numerics.bits import decode, differs, float_format
from bisect_diverge.numerics.summary import BLOCK, blocks
from bisect_diverge.numerics.ulp import NO_DISTANCE, ulp_distance

PERCENTS = (50, 90, 99)
"""Percentiles of the ULP distance that are given."""
SAMPLE = 1 << 22
"""Differing elements from which percentiles are taken; of more, every n-th."""
MOST = 0.5
"""Share of elements from which a difference that every index of every axis shows is *everywhere*."""


class Layout(StrEnum):
    """Where the differing elements of a tensor lie."""

    ONE_ELEMENT = "one-element"
    """There is one."""
    ONE_INDEX = "one-index"
    """All have the same index along one axis that has several."""
    EVERYWHERE = "everywhere"
    """At least `MOST` of all elements differ, along every index of every axis."""
    SCATTERED = "scattered"
    """Anything else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Where the differing elements of a tensor lie."""

    layout: Layout
    """In what manner."""
    axis: int | None = None
    """For *one-index* the axis along which all have the same index; else None."""
    index: int | None = None
    """That index; else None."""
    touched: tuple[int, ...]
    """For each axis, along how many of its indices something differs."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Some of the differing elements, by ULP distance."""

    low: int
    """Smallest distance, ULP, inclusive."""
    high: int
    """Largest distance, ULP, inclusive."""
    count: int
    """Elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elements:
    """How two tensors of one type and shape differ."""

    extent: Extent
    """Where the differing elements lie."""
    ulp_percentiles: tuple[tuple[int, int], ...] = ()
    """Pairs (percent, ULP): that share of the differing elements with a distance is at most so far apart."""
    ulp_histogram: tuple[Bucket, ...] = ()
    """Differing elements by ULP distance, in powers of two; buckets without elements are left out."""
    no_distance: int = 0
    """Differing elements without ULP distance: NaN in one run, or NaNs of different payloads."""
    nan_appearing: int = 0
    """Elements that are NaN in B only."""
    nan_vanishing: int = 0
    """Elements that are NaN in A only."""
    inf_appearing: int = 0
    """Elements that are infinite in B only."""
    inf_vanishing: int = 0
    """Elements that are infinite in A only."""
    sign_flips: int = 0
    """Elements that are positive in one and negative in the other."""


def elementwise(a: NDArray[Any], b: NDArray[Any], dtype: str) -> Elements:
    """Return where and how two tensors differ.

    Args:
        a: As stored, any shape.
        b: The same type and shape.
        dtype: Name of their element type.
    """
    where = np.zeros(a.size, np.bool_)
    counts = np.zeros(len(_COUNTS), np.int64)
    for number, (block_a, block_b) in enumerate(blocks(a, b)):
        unequal = differs(block_a, block_b, dtype)
        where[number * BLOCK : number * BLOCK + len(unequal)] = unequal
        counts += _special(decode(block_a[unequal], dtype), decode(block_b[unequal], dtype))
    special: dict[str, Any] = dict(zip(_COUNTS, counts.tolist(), strict=True))
    ulps = _ulps(a.reshape(-1), b.reshape(-1), where, dtype)
    return Elements(extent=extent(where.reshape(a.shape)), **ulps, **special)


def extent(where: NDArray[np.bool_]) -> Extent:
    """Return where the true elements of a mask lie.

    Args:
        where: bool, any shape: which elements differ.
    """
    axes = range(where.ndim)
    shown = [where.any(axis=tuple(other for other in axes if other != axis)) for axis in axes]
    touched = tuple(int(np.count_nonzero(indices)) for indices in shown)
    count = int(np.count_nonzero(where))
    if count == 1:
        return Extent(layout=Layout.ONE_ELEMENT, touched=touched)
    single = [axis for axis in axes if touched[axis] == 1 and where.shape[axis] > 1]
    if single:
        axis = single[0]
        return Extent(layout=Layout.ONE_INDEX, axis=axis, index=int(shown[axis].argmax()), touched=touched)
    everywhere = touched == where.shape and count >= MOST * where.size
    return Extent(layout=Layout.EVERYWHERE if everywhere else Layout.SCATTERED, touched=touched)


_COUNTS = ("nan_appearing", "nan_vanishing", "inf_appearing", "inf_vanishing", "sign_flips")


def _special(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.int64]:
    """Return the counts of `_COUNTS` among differing elements, given as values."""
    if a.dtype.kind in "iu":
        return np.array([0, 0, 0, 0, np.count_nonzero(_flipped(a, b))], np.int64)
    if a.dtype.kind not in "fc":
        return np.zeros(len(_COUNTS), np.int64)
    nan_a, nan_b, inf_a, inf_b = np.isnan(a), np.isnan(b), np.isinf(a), np.isinf(b)
    masks = [nan_b & ~nan_a, nan_a & ~nan_b, inf_b & ~inf_a, inf_a & ~inf_b]
    if a.dtype.kind == "f":
        masks.append(_flipped(a, b))
    found = [int(np.count_nonzero(mask)) for mask in masks]
    return np.array(found + [0] * (len(_COUNTS) - len(found)), np.int64)


def _flipped(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which elements are positive in one and negative in the other."""
    return ((a < 0) & (b > 0)) | ((a > 0) & (b < 0))


def _ulps(a: NDArray[Any], b: NDArray[Any], where: NDArray[np.bool_], dtype: str) -> dict[str, Any]:
    """Return what `Elements` says of ULP distances; nothing for a type that has none."""
    if float_format(dtype) is None:
        return {}
    stride = max(-(-int(np.count_nonzero(where)) // SAMPLE), 1)
    histogram = np.zeros(65, np.int64)
    sampled: list[NDArray[np.int64]] = []
    lost = seen = 0
    for number, (block_a, block_b) in enumerate(blocks(a, b)):
        unequal = np.flatnonzero(where[number * BLOCK : number * BLOCK + len(block_a)])
        distance = ulp_distance(block_a[unequal], block_b[unequal], dtype)
        sampled.append(distance[-seen % stride :: stride])
        seen += len(distance)
        known = distance[distance != NO_DISTANCE]
        lost += len(distance) - len(known)
        histogram += np.bincount(_bit_length(known), minlength=65)
    chosen = np.sort(np.concatenate([part[part != NO_DISTANCE] for part in sampled])) if sampled else np.zeros(0, int)
    return {
        "ulp_percentiles": tuple((percent, _percentile(chosen, percent)) for percent in PERCENTS if len(chosen)),
        "ulp_histogram": tuple(
            Bucket((1 << bits) >> 1, max((1 << bits) - 1, 0), count)
            for bits, count in enumerate(histogram.tolist())
            if count
        ),
        "no_distance": lost,
    }


def _percentile(ordered: NDArray[np.int64], percent: int) -> int:
    """Return the smallest value that at least so many percent of ordered values do not exceed."""
    return int(ordered[max(-(-len(ordered) * percent // 100) - 1, 0)])


def _bit_length(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of bits that each value, >= 0, needs; exact, unlike a logarithm."""
    powers = np.left_shift(np.int64(1), np.arange(63))
    return np.searchsorted(powers, values, side="right")
