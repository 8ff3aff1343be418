"""How the difference grows: the largest ULP distance of some records of each step.

All records of all steps would mean reading both runs whole. A few small ones of each step show the growth;
the step bar says how many they are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.model.divergence import ElementStatistics
from bisect_diverge.tui import states
from bisect_diverge.tui.comparison import Comparison
from bisect_diverge.tui.reader import Reader, Stopped
from bisect_diverge.tui.records import Records

RECORDS = 3
"""Records that are looked at in a step."""

_STEPS = 120
"""Steps that are looked at, evenly spread: more columns no screen has."""

_CANDIDATES = 12
"""Records of a step among which those are chosen."""

_ELEMENTS = 1 << 16
"""Largest tensor that is looked at."""


async def distances(comparison: Comparison, records: Records, reader: Reader) -> AsyncIterator[tuple[int, int]]:
    """Yield (step, ULP distance) for some records of each step that differs, the earliest steps first."""
    differing = np.flatnonzero(comparison.state == states.DIFFERS)
    if not len(differing):
        return
    order = differing[np.argsort(comparison.step[differing], kind="stable")]
    starts = np.flatnonzero(np.diff(comparison.step[order], prepend=-1))
    ends = np.append(starts[1:], len(order))
    for number in _spread(len(starts), _STEPS):
        rows = order[starts[number] : ends[number]]
        for index in _chosen(rows, records):
            try:
                found = await reader.run(_statistics(comparison, index))
            except Exception:  # the row itself says so when it is looked at
                continue
            records.learn(index, found)
            if found is not None and found.max_ulp is not None:
                yield int(comparison.step[index]), found.max_ulp


def _statistics(comparison: Comparison, index: int) -> Callable[[Stopped], ElementStatistics | None]:
    return lambda _: comparison.statistics(index)


def _chosen(rows: NDArray[np.intp], records: Records) -> list[int]:
    """Return some small records that can be compared by element."""
    out: list[int] = []
    for place in _spread(len(rows), _CANDIDATES):
        row = records.at(int(rows[place]))
        if row.comparable and row.elements <= _ELEMENTS:
            out.append(row.index)
        if len(out) == RECORDS:
            break
    return out


def _spread(size: int, most: int) -> NDArray[np.intp]:
    """Return at most that many numbers below `size`, evenly spread, from 0 on."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).astype(np.intp))
