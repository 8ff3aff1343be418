"""The lines of the trace list: which records show, and which equal stretches fold to one line.

Everything here is array work on the whole trace: a million records fold in some ten milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.tui import states


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the list."""

    index: int
    """Record in the trace; of a folded stretch its first one."""
    last: int
    """Last record of a folded stretch; else `index`."""
    count: int
    """Records on this line; more than 1: a folded stretch."""
    ignored: int
    """Of these, ignored ones."""

    @property
    def folded(self) -> bool:
        """Whether the line stands for a stretch."""
        return self.count > 1


class Trace:
    """Which line shows which records.

    Args:
        state: uint8[n], codes of `tui.states`.
    """

    def __init__(self, state: NDArray[np.uint8]) -> None:
        self._size = len(state)
        self._quiet = (state == states.EQUAL) | (state == states.IGNORED)
        self._ignored = state == states.IGNORED
        self._open = np.zeros(self._size, bool)
        self._kept = np.zeros(self._size, bool)
        self._included: NDArray[np.bool_] | None = None
        self.only_differing = True
        """Whether equal stretches are folded unless opened one by one."""
        self.rows: NDArray[np.intp] = np.arange(self._size)
        """intp[m]: the records that pass the filter, in order."""
        self.loud: NDArray[np.intp] = np.empty(0, np.intp)
        """intp: those of `rows` that differ or have no partner."""
        self.starts: NDArray[np.intp] = np.empty(0, np.intp)
        """intp[lines]: first record of each line."""
        self._first: NDArray[np.intp] = np.empty(0, np.intp)
        self._count: NDArray[np.intp] = np.empty(0, np.intp)
        self._refilter()

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self._first)

    def line(self, number: int) -> Line:
        """Return one line."""
        first, count = int(self._first[number]), int(self._count[number])
        members = self.rows[first : first + count]
        ignored = int(self._ignored[members].sum()) if count > 1 else 0
        return Line(int(members[0]), int(members[-1]), count, ignored)

    def line_of(self, index: int) -> int:
        """Return the line that shows a record, or the nearest one after it; -1 when there is no line."""
        if not len(self):
            return -1
        place = min(int(np.searchsorted(self.rows, index)), len(self.rows) - 1)
        return int(np.searchsorted(self._first, place, side="right")) - 1

    def nearest(self, index: int, step: NDArray[np.int32]) -> int:
        """Return the line that shows a record, or the nearest one, of the same step if it has one; -1: no line.

        Args:
            index: The record.
            step: int32[n], step of every record.
        """
        if not len(self):
            return -1
        after = int(np.searchsorted(self.rows, index))
        sides = [int(self.rows[place]) for place in (after, after - 1) if 0 <= place < len(self.rows)]
        return self.line_of(min(sides, key=lambda row: (abs(int(step[row] - step[index])), abs(row - index))))

    def include(self, mask: NDArray[np.bool_] | None) -> None:
        """Show only the records of a mask; None: all."""
        self._included = mask
        self._refilter()

    def keep(self, indices: Iterable[int]) -> None:
        """Never fold these records away: the inputs of the first divergence."""
        for index in indices:
            self._kept[index] = True
        self._refold()

    def show_only_differing(self, only: bool) -> None:
        """Fold all equal stretches, or unfold them all."""
        self.only_differing = only
        self._open[:] = not only
        self._refold()

    def toggle(self, number: int) -> bool:
        """Unfold the stretch on a line, or fold the one around its record; return whether there was one."""
        first, count = int(self._first[number]), int(self._count[number])
        if count > 1:
            self._open[self.rows[first : first + count]] = True
            self._refold()
            return True
        start, end = self._stretch(first)
        if end - start < 2:
            return False
        self._open[self.rows[start:end]] = False
        self._refold()
        return True

    def reveal(self, index: int) -> None:
        """Unfold the stretch that hides a record, if one does."""
        number = self.line_of(index)
        if number >= 0 and self._count[number] > 1:
            self.toggle(number)

    def _stretch(self, place: int) -> tuple[int, int]:
        """Return the bounds in `rows` of the equal stretch around a place; empty if it always shows."""
        quiet = self._quiet[self.rows] & ~self._kept[self.rows]
        if not quiet[place]:
            return place, place
        breaks = np.flatnonzero(~quiet)
        after = int(np.searchsorted(breaks, place))
        start = int(breaks[after - 1]) + 1 if after else 0
        end = int(breaks[after]) if after < len(breaks) else len(quiet)
        return start, end

    def _refilter(self) -> None:
        self.rows = np.arange(self._size) if self._included is None else np.flatnonzero(self._included)
        self.loud = self.rows[~self._quiet[self.rows]]
        self._refold()

    def _refold(self) -> None:
        """Join each run of records that are quiet and not open to one line."""
        hidden = (self._quiet & ~self._open & ~self._kept)[self.rows]
        begins = np.ones(len(hidden), bool)
        begins[1:] = ~(hidden[1:] & hidden[:-1])
        self._first = np.flatnonzero(begins)
        self._count = np.diff(self._first, append=len(hidden))
        self.starts = self.rows[self._first]


def following(places: NDArray[np.intp], index: int) -> int:
    """Return the first of the sorted places after an index; -1 if there is none."""
    at = int(np.searchsorted(places, index, side="right"))
    return int(places[at]) if at < len(places) else -1


def preceding(places: NDArray[np.intp], index: int) -> int:
    """Return the last of the sorted places before an index; -1 if there is none."""
    at = int(np.searchsorted(places, index, side="left")) - 1
    return int(places[at]) if at >= 0 else -1


def changes(*keys: NDArray[np.generic]) -> NDArray[np.intp]:
    """Return where a new group begins: 0, and every place at which a key differs from the place before."""
    if not len(keys[0]):
        return np.empty(0, np.intp)
    new = np.ones(len(keys[0]), bool)
    new[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return np.flatnonzero(new)
