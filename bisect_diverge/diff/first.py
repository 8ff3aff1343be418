"""The first divergence: the rule on which every other answer hangs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bisect_diverge.diff.draws import is_extra_draw
from bisect_diverge.diff.lone import FIRST, LAST_RESORT, Lone, Reason
from bisect_diverge.diff.places import address_at, starts_late
from bisect_diverge.diff.trace import RowState, Trace
from bisect_diverge.model.address import PHASES, Phase
from bisect_diverge.model.divergence import DivergenceKind
from bisect_diverge.model.record import Flag

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_ROW = -1


@dataclass(frozen=True, slots=True)
class First:
    """A row of one rank's trace."""

    trace: int
    """Number of the trace, in order of ranks."""
    index: int
    """Place in that trace."""


def first_divergence(traces: Sequence[Trace], lone: Sequence[Lone]) -> First | None:
    """Return the first divergence of all ranks: of the earliest step, then of the lowest rank.

    Within a rank it is the earliest row that has a partner and differs; a row without partner comes before it
    only if it is a row of a training pass whose enclosing call has paired children. Other rows without
    partner count where nothing else differs on any rank.
    """
    for reasons, with_pairs in ((FIRST, True), (LAST_RESORT, False)):
        found = [
            (int(trace.rows.step[index]), number, index)
            for number, (trace, alone) in enumerate(zip(traces, lone, strict=True))
            if (index := _earliest(trace, alone, reasons, with_pairs=with_pairs)) != NO_ROW
        ]
        if found:
            _, number, index = min(found)
            return First(number, index)
    return None


def first_in_rank(trace: Trace, lone: Lone) -> int:
    """Return the first divergence of one rank by the same rule; -1 where there is none."""
    found = first_divergence([trace], [lone])
    return NO_ROW if found is None else found.index


def kind_of(trace: Trace, index: int, *, has_producer: bool) -> DivergenceKind:
    """Return in what sort of thing the runs differ at a row.

    Args:
        trace: The trace.
        index: Place in it.
        has_producer: An edge says which recorded tensor it came from.
    """
    if trace.row_a[index] < 0 or trace.row_b[index] < 0:
        return DivergenceKind.RNG if is_extra_draw(trace, index) else DivergenceKind.STRUCTURE
    phase = PHASES[trace.rows.phase[index]]
    slot = trace.tables.slots[trace.rows.slot[index]]
    if starts_late(trace, index):  # weights or generators, paired with those that the other run had by then
        return _KINDS[address_at(trace, index).phase]
    if phase is Phase.OPTIMIZER:
        return _optimizer_kind(slot)
    if phase is Phase.FORWARD and not has_producer and is_fed_in(trace, index):
        return DivergenceKind.DATA
    return _KINDS[phase]


def is_fed_in(trace: Trace, index: int) -> bool:
    """Return whether a row is an input of a root that takes no part in autograd."""
    _, fqn = trace.tables.places[trace.rows.place[index]]
    slot = trace.tables.slots[trace.rows.slot[index]]
    row, file = (trace.row_a, trace.a) if trace.row_a[index] >= 0 else (trace.row_b, trace.b)
    with_grad = bool(file.events["flags"][row[index]] & Flag.REQUIRES_GRAD)
    return not fqn and slot.startswith(("input.", "kwarg.")) and not with_grad


_KINDS = {
    Phase.INIT: DivergenceKind.INITIALIZATION,
    Phase.DATA: DivergenceKind.DATA,
    Phase.FORWARD: DivergenceKind.COMPUTATION,
    Phase.RECOMPUTE: DivergenceKind.COMPUTATION,
    Phase.BACKWARD: DivergenceKind.GRADIENT,
    Phase.RNG: DivergenceKind.RNG,
}

_OPTIMIZER_KINDS = {
    "grad": DivergenceKind.GRADIENT,
    "found_inf": DivergenceKind.GRADIENT,
    "param": DivergenceKind.OPTIMIZER,
    "scale": DivergenceKind.OPTIMIZER,
    "buffer": DivergenceKind.COMPUTATION,
}


def _optimizer_kind(slot: str) -> DivergenceKind:
    if slot.startswith("state."):
        return DivergenceKind.OPTIMIZER
    return _OPTIMIZER_KINDS.get(slot, DivergenceKind.HYPERPARAMETER)


def _earliest(trace: Trace, lone: Lone, reasons: tuple[Reason, ...], *, with_pairs: bool) -> int:
    rows = [lone.among(reasons)[:1]]
    if with_pairs:
        differs = trace.state == RowState.DIFFERS
        at = int(differs.argmax()) if len(differs) else 0
        rows.append(np.array([at], np.int64)[: int(differs.any())])
    found = np.concatenate(rows)
    return int(found.min()) if len(found) else NO_ROW
