"""The records behind the lines: read once, kept for a while, and never an exception out of here."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bisect_diverge.model.divergence import ElementStatistics
from bisect_diverge.model.record import TensorRecord
from bisect_diverge.tui import states
from bisect_diverge.tui.comparison import Comparison

_KEPT = 4096
"""Records that stay in memory; a screen shows at most some hundred."""


@dataclass(frozen=True, slots=True)
class Row:
    """One record of the trace with its partner."""

    index: int
    """Number in the trace."""
    state: int
    """Code of `tui.states`; UNREADABLE where reading failed."""
    a: TensorRecord | None
    """Record in A."""
    b: TensorRecord | None
    """Record in B."""
    problem: str = ""
    """Why it could not be read; empty when it could."""

    @property
    def record(self) -> TensorRecord | None:
        """The record in A, else in B."""
        return self.a or self.b

    @property
    def comparable(self) -> bool:
        """Whether both tensors were kept and have one dtype and shape."""
        a, b = self.a, self.b
        return a is not None and b is not None and a.kept and b.kept and not self.reshaped

    @property
    def readable(self) -> bool:
        """Whether a tensor was kept in at least one run, and reading has not failed."""
        return not self.problem and any(record.kept for record in (self.a, self.b) if record is not None)

    @property
    def elements(self) -> int:
        """Number of elements; 0 without a record."""
        return 0 if self.record is None else math.prod(self.record.shape)

    @property
    def reshaped(self) -> bool:
        """Whether there are two records and they differ in dtype or shape."""
        a, b = self.a, self.b
        return a is not None and b is not None and (a.dtype, a.shape) != (b.dtype, b.shape)


def reason(error: BaseException) -> str:
    """Return the first line of an error's message, or its name where it has none."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


class Records:
    """Rows by their index, and what has been found out about their elements so far.

    Args:
        comparison: The two runs.
    """

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison
        self._rows: dict[int, Row] = {}
        self._statistics: dict[int, ElementStatistics | None] = {}
        self._problems: dict[int, str] = {}

    def at(self, index: int) -> Row:
        """Return a row; a read that fails is a row in the state `unreadable` with the reason."""
        row = self._rows.get(index)
        if row is None:
            row = self._read(index)
            if len(self._rows) >= _KEPT:
                del self._rows[next(iter(self._rows))]
            self._rows[index] = row
        return row

    def statistics(self, index: int) -> ElementStatistics | None:
        """Return the element statistics if they are known already; reads nothing."""
        return self._statistics.get(index)

    def asked(self, index: int) -> bool:
        """Whether the element statistics were read, or tried to."""
        return index in self._statistics or index in self._problems

    def learn(self, index: int, found: ElementStatistics | None) -> None:
        """Keep element statistics."""
        self._statistics[index] = found

    def fail(self, index: int, why: str) -> None:
        """Make a row unreadable."""
        self._problems[index] = why
        self._rows.pop(index, None)

    def _read(self, index: int) -> Row:
        problem = self._problems.get(index, "")
        try:
            a, b = self._comparison.pair(index)
        except Exception as error:  # a damaged file must not take the screen with it
            return Row(index, states.UNREADABLE, None, None, reason(error))
        state = states.UNREADABLE if problem else int(self._comparison.state[index])
        return Row(index, state, a, b, problem)
