"""Two compared runs: the answer, the merged trace, and everything that a reader may ask of a row of it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.diff.edges import StepView
from bisect_diverge.diff.growth import growth
from bisect_diverge.diff.heat import COLUMNS, LINES, heat
from bisect_diverge.diff.places import records_at
from bisect_diverge.diff.statistics import numbers_at, statistics_at, tensors_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.diff.trace import Trace
    from bisect_diverge.model.divergence import Divergence, ElementStatistics
    from bisect_diverge.model.findings import Growth, Heat, Numbers
    from bisect_diverge.model.record import TensorRecord
    from bisect_diverge.store.reader import Run

STEPS_KEPT = 4
"""Steps whose edges are remembered."""
STATISTICS_KEPT = 256
"""Rows whose element statistics are remembered."""


class Comparison:
    """Two runs in one trace of n rows: A's order, B's own rows after their predecessor, rank after rank.

    Args:
        a: The baseline, open.
        b: The candidate, open.
        traces: The trace of each common rank.
        divergence: The answer.
        first: Number of the trace of the first divergence, and its place there; None when nothing differs.
    """

    def __init__(
        self, a: Run, b: Run, traces: Sequence[Trace], divergence: Divergence, first: tuple[int, int] | None
    ) -> None:
        self.label_a = str(a.path)
        self.label_b = str(b.path)
        self.divergence = divergence
        self.row_a: NDArray[np.int64] = _joined([trace.row_a for trace in traces], np.int64)
        """int64[n]: row in A's file of that rank; -1: only B has it."""
        self.row_b: NDArray[np.int64] = _joined([trace.row_b for trace in traces], np.int64)
        """int64[n]: row in B's file of that rank; -1: only A has it."""
        self.state: NDArray[np.uint8] = _joined([trace.state for trace in traces], np.uint8)
        """uint8[n]: `diff.trace.RowState`."""
        self.step: NDArray[np.int32] = _joined([trace.rows.step for trace in traces], np.int32)
        """int32[n]: step in A's numbering."""
        ranks = [np.full(len(trace), trace.rank) for trace in traces]
        self.rank: NDArray[np.int32] = _joined(ranks, np.int32)
        """int32[n]: rank."""
        self._runs = (a, b)
        self._traces = traces
        self._starts = np.cumsum([0, *(len(trace) for trace in traces)])
        self.first = -1 if first is None else int(self._starts[first[0]]) + first[1]
        """Index of the first divergence in the trace; -1 when nothing differs."""
        self._view = lru_cache(STEPS_KEPT)(lambda number, step: StepView(traces[number], step))
        self._statistics = lru_cache(STATISTICS_KEPT)(lambda number, at: statistics_at(traces[number], at))

    def pair(self, i: int) -> tuple[TensorRecord | None, TensorRecord | None]:
        """Return the records of a row in A and in B, None where a run has none, with their own addresses."""
        return records_at(*self._locate(i))

    def tensors(self, i: int) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        """Return the tensors of a row in their storage types; None for a side that has, or kept, none."""
        return tensors_at(*self._locate(i))

    def statistics(self, i: int) -> ElementStatistics | None:
        """Return how the tensors of a row differ; None unless both are kept, of one type and one shape."""
        return self._statistics(self._number(i), i - int(self._starts[self._number(i)]))

    def numbers(self, i: int) -> Numbers | None:
        """Return more on how the tensors of a row differ; None unless both are kept, of one type and one shape."""
        return numbers_at(*self._locate(i))

    def growth(self) -> Growth | None:
        """Return how the difference grows from step to step, which reads tensors; None when nothing differs."""
        return None if self.first < 0 else growth(self._traces, int(self.step[self.first]))

    def heat(self, columns: int = COLUMNS, lines: int = LINES) -> Heat:
        """Return how much of which module differs in which step, in at most so many columns and lines."""
        return heat(self._traces, columns, lines)

    def producers(self, i: int) -> list[int]:
        """Return the rows of the same step that a row was made from, in order."""
        view, at, start = self._step_view(i)
        return [start + int(view.index[row]) for row in view.producers(view.local(at))]

    def consumers(self, i: int) -> list[int]:
        """Return the rows of the same step that were made from a row, in order."""
        view, at, start = self._step_view(i)
        return [start + int(view.index[row]) for row in view.consumers(view.local(at))]

    def close(self) -> None:
        """Close both runs; tensors can no longer be read."""
        for run in self._runs:
            run.close()

    def __enter__(self) -> Comparison:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _number(self, i: int) -> int:
        return int(np.searchsorted(self._starts, i, side="right")) - 1

    def _locate(self, i: int) -> tuple[Trace, int]:
        number = self._number(i)
        return self._traces[number], i - int(self._starts[number])

    def _step_view(self, i: int) -> tuple[StepView, int, int]:
        number = self._number(i)
        start = int(self._starts[number])
        return self._view(number, int(self.step[i])), i - start, start


def _joined(parts: Sequence[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    if len(parts) == 1:
        return parts[0].astype(dtype, copy=False)
    return np.concatenate([part.astype(dtype, copy=False) for part in parts]) if parts else np.zeros(0, dtype)
