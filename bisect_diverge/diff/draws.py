"""What the recorded states of a generator tell of draws: whether a state differed before, whether one run drew more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.model.address import NO_PASS, PHASE_CODE, Phase

if TYPE_CHECKING:
    from bisect_diverge.diff.trace import Trace

_FORWARD, _RNG = PHASE_CODE[Phase.FORWARD], PHASE_CODE[Phase.RNG]


def latest_states(trace: Trace, index: int, slot: int) -> tuple[int, int] | None:
    """Return the places of the latest state of a generator before a row, in A and in B; None where a run has none.

    Args:
        trace: The trace.
        index: The row.
        slot: Number of the generator's slot.
    """
    before = np.flatnonzero((trace.rows.phase[:index] == _RNG) & (trace.rows.slot[:index] == slot))
    of_a, of_b = before[trace.row_a[before] >= 0], before[trace.row_b[before] >= 0]
    return (int(of_a[-1]), int(of_b[-1])) if len(of_a) and len(of_b) else None


def same_states(trace: Trace, places: tuple[int, int]) -> bool:
    """Return whether the state of A at one place of the trace is that of B at another."""
    event_a = trace.a.events[trace.row_a[places[0]]]
    event_b = trace.b.events[trace.row_b[places[1]]]
    return bool(event_a["digest0"] == event_b["digest0"] and event_a["digest1"] == event_b["digest1"])


def is_extra_draw(trace: Trace, index: int) -> bool:
    """Return whether a row shows that one run draws from a generator inside a call that both runs make."""
    rows = trace.rows
    if trace.paired[index] or rows.phase[index] != _RNG or rows.micro_batch[index] == NO_PASS:
        return False
    step = np.flatnonzero(rows.step == rows.step[index])
    call: NDArray[np.bool_] = trace.paired[step] & (rows.phase[step] == _FORWARD)
    for part in (rows.micro_batch, rows.place, rows.call):
        call &= part[step] == part[index]
    return bool(call.any())
