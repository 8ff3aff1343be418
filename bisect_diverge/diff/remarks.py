"""What may explain a divergence and is no difference between paired rows: a sentence each, for a report's notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bisect_diverge.diff.places import address_at
from bisect_diverge.model.address import PHASE_CODE, Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bisect_diverge.diff.trace import Trace
    from bisect_diverge.store.reader import RunFile

_FORWARD, _RECOMPUTE, _OPTIMIZER = (PHASE_CODE[phase] for phase in (Phase.FORWARD, Phase.RECOMPUTE, Phase.OPTIMIZER))
_PLACE = ["micro_batch", "name", "call", "slot"]


def remade_note(trace: Trace) -> Iterator[str]:
    """Return a sentence where, in one run alone, activation checkpointing makes other values than the forward did."""
    found = [_remade_otherwise(file) for file in (trace.a, trace.b)]
    for side, file, row in (("A", trace.a, found[0]), ("B", trace.b, found[1])):
        if row is not None and None in found:
            yield (
                f"in {side} activation checkpointing makes other values than the forward pass did, first at "
                f"{file.address(row)}: gradients are of other values than the loss (preserve_rng_state=False with "
                "dropout, or what the module reads was changed since)"
            )


def order_note(trace: Trace, step: int) -> Iterator[str]:
    """Return a sentence where an optimizer goes through its parameters in another order, in the step of A's number."""
    grads = [number for number, slot in enumerate(trace.tables.slots) if slot == "grad"]
    rows = trace.rows
    at = np.flatnonzero((rows.step == step) & (rows.phase == _OPTIMIZER) & np.isin(rows.slot, grads) & trace.paired)
    at = at[np.argsort(trace.row_a[at], kind="stable")]
    for call in np.unique(rows.call[at]):
        own = at[rows.call[at] == call]
        in_b = own[np.argsort(trace.row_b[own], kind="stable")]
        moved = np.flatnonzero(own != in_b)
        if len(moved):
            first, other = (address_at(trace, int(order[moved[0]])) for order in (own, in_b))
            yield (
                f"the optimizer goes through its parameters in another order: where A has {first.root}:{first.fqn}, B "
                f"has {other.root}:{other.fqn}; a sum over them (a norm to clip by) is rounded otherwise, and state "
                "loaded by number is another parameter's; sets of names are ordered by PYTHONHASHSEED"
            )
            return


def _remade_otherwise(file: RunFile) -> int | None:
    """Return the first row made again whose first making has other bits, in the first step that has such rows."""
    events = file.events
    again = np.flatnonzero(events["phase"] == _RECOMPUTE)
    if not len(again):
        return None
    step = events["step"] == events["step"][again[0]]
    first = {_key(row): _digest(row) for row in events[step & (events["phase"] == _FORWARD)]}
    for number in again[step[again]]:
        row = events[number]
        known = first.get(_key(row))
        if known is not None and known != _digest(row):
            return int(number)
    return None


def _digest(row: np.void) -> tuple[int, int]:
    return int(row["digest0"]), int(row["digest1"])


def _key(row: np.void) -> tuple[int, ...]:
    return tuple(int(row[part]) for part in _PLACE)
