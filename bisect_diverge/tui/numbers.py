"""The numbers of the pane: the one place here that calls the numerics.

Tensors are looked at in pieces, between which the work can be stopped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.model.divergence import ElementStatistics
from bisect_diverge.numerics.bits import float_format
from bisect_diverge.numerics.summary import ULP_BUCKET_LABELS, Summary, summarize, ulp_histogram
from bisect_diverge.tui.comparison import Comparison
from bisect_diverge.tui.reader import Stopped, StoppedError
from bisect_diverge.tui.records import Row

_PIECE = 1 << 22
"""Elements between two looks at `stopped`: some 50 ms."""


@dataclass(frozen=True, slots=True)
class Values:
    """What reading the two tensors of a record found out."""

    a: Summary | None
    """A's tensor in a few numbers; None if it was not kept."""
    b: Summary | None
    """B's."""
    statistics: ElementStatistics | None
    """How they differ; None when they cannot be compared by element."""
    histogram: tuple[tuple[str, int], ...]
    """ULP distances and their number; empty where the type has none or nothing differs."""


def measure(comparison: Comparison, row: Row, stopped: Stopped) -> Values:
    """Return the numbers of a record.

    Raises:
        StoppedError: as soon as nobody waits any more.
    """
    a, b = comparison.tensors(row.index)
    dtype = "" if row.record is None else row.record.dtype
    of_a = None if a is None or row.a is None else _summary(a, row.a.dtype, stopped)
    of_b = None if b is None or row.b is None else _summary(b, row.b.dtype, stopped)
    if a is None or b is None or row.a is None or row.b is None or row.reshaped:
        return Values(of_a, of_b, None, ())
    _look(stopped)
    statistics = comparison.statistics(row.index)
    if statistics is None or not statistics.differing or float_format(dtype) is None:
        return Values(of_a, of_b, statistics, ())
    return Values(of_a, of_b, statistics, _histogram(a, b, dtype, stopped))


def _summary(tensor: NDArray[Any], dtype: str, stopped: Stopped) -> Summary:
    return _joined([summarize(piece, dtype) for (piece,) in _pieces(stopped, tensor)])


def _joined(parts: list[Summary]) -> Summary:
    """Return the summary of a tensor from those of its pieces."""
    finite = [part.numel - part.nan - part.inf for part in parts]
    total = sum(finite)
    means = [n * part.mean for n, part in zip(finite, parts, strict=True) if part.mean is not None]
    return Summary(
        numel=sum(part.numel for part in parts),
        minimum=min((part.minimum for part in parts if part.minimum is not None), default=None),
        maximum=max((part.maximum for part in parts if part.maximum is not None), default=None),
        mean=math.fsum(means) / total if total else None,
        nan=sum(part.nan for part in parts),
        inf=sum(part.inf for part in parts),
    )


def _histogram(a: NDArray[Any], b: NDArray[Any], dtype: str, stopped: Stopped) -> tuple[tuple[str, int], ...]:
    counts = np.sum([ulp_histogram(x, y, dtype) for x, y in _pieces(stopped, a, b)], axis=0).tolist()
    labels = (*ULP_BUCKET_LABELS, "none")
    named = tuple(zip(labels, map(int, counts), strict=True))
    return named if named[-1][1] else named[:-1]


def _pieces(stopped: Stopped, *tensors: NDArray[Any]) -> Iterator[tuple[NDArray[Any], ...]]:
    """Yield equally long flat pieces of tensors of one shape; at least one, be it empty."""
    flat = [tensor.reshape(-1) for tensor in tensors]
    for start in range(0, max(1, flat[0].size), _PIECE):
        _look(stopped)
        yield tuple(tensor[start : start + _PIECE] for tensor in flat)


def _look(stopped: Stopped) -> None:
    if stopped():
        raise StoppedError
