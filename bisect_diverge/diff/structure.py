"""What one run does and the other does not, in a sentence: an update, a micro-batch, a draw, a changed parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.diff.draws import is_extra_draw
from bisect_diverge.diff.keys import PARAMETER_SLOTS, is_call, place_text
from bisect_diverge.diff.places import address_at
from bisect_diverge.model.address import NO_PASS, PHASE_CODE, Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from bisect_diverge.diff.trace import Trace
    from bisect_diverge.model.address import Address

_OPTIMIZER, _FORWARD = PHASE_CODE[Phase.OPTIMIZER], PHASE_CODE[Phase.FORWARD]


@dataclass(frozen=True, slots=True)
class _Lone:
    """A row that one run has, in a step of a trace."""

    trace: Trace
    index: int
    address: Address
    has: str
    """Name of the run that has it."""
    lacks: str
    """Name of the other run."""

    def rows_of_other(self) -> NDArray[np.int64]:
        """Return the rows of the other run in this step."""
        row = self.trace.row_a if self.lacks == "A" else self.trace.row_b
        return np.flatnonzero((self.trace.rows.step == self.trace.rows.step[self.index]) & (row >= 0))

    def in_root(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of some rows whose root is that of this row."""
        same = np.array([root == self.address.root for root, _ in self.trace.tables.places], np.bool_)
        return rows[same[self.trace.rows.place[rows]]]


def structure_sentence(trace: Trace, index: int) -> str:
    """Return what one run does and the other does not, from the first row that shows it.

    Args:
        trace: The trace.
        index: A row of it.

    Returns:
        One sentence without a full stop; empty where both runs have the row, or where it is no more than that row.
    """
    if trace.paired[index]:
        return ""
    has, lacks = ("A", "B") if trace.row_a[index] >= 0 else ("B", "A")
    lone = _Lone(trace, index, address_at(trace, index), has, lacks)
    return next((sentence for rule in _RULES if (sentence := rule(lone))), "")


def _step(lone: _Lone) -> str:
    if len(lone.rows_of_other()):
        return ""
    return f"only {lone.has} has step {lone.address.step}"


def _changed(lone: _Lone) -> str:
    address = lone.address
    if address.phase is not Phase.FORWARD or address.slot not in PARAMETER_SLOTS:
        return ""
    return f"only {lone.has} changed {address.fqn} outside of an update"


def _draw(lone: _Lone) -> str:
    if not is_extra_draw(lone.trace, lone.index):
        return ""
    address = lone.address
    return f"only {lone.has} draws from {address.slot} in {place_text(address.root, address.fqn)}"


def _update(lone: _Lone) -> str:
    if lone.address.phase is not Phase.OPTIMIZER:
        return ""
    rows, trace, address = lone.rows_of_other(), lone.trace, lone.address
    updates = rows[trace.rows.phase[rows] == _OPTIMIZER]
    if not len(updates):
        return f"{lone.lacks} made no update in step {address.step}"
    of_optimizer = lone.in_root(updates)
    if not len(of_optimizer):
        return f"only {lone.has} made an update by {address.root} in step {address.step}"
    if address.call > int(trace.rows.call[of_optimizer].max()):
        return f"{lone.has} made an extra update by {address.root} in step {address.step}"
    return ""


def _micro_batch(lone: _Lone) -> str:
    trace, address = lone.trace, lone.address
    own = int(trace.rows.micro_batch[lone.index])
    if own == NO_PASS or address.phase in (Phase.BACKWARD, Phase.RECOMPUTE):
        return ""
    rows = lone.in_root(lone.rows_of_other())
    passes = trace.rows.micro_batch[rows[is_call(trace.rows, trace.tables)[rows]]]
    if own in passes:
        return ""
    if own < 0:
        return f"only {lone.has} has evaluation pass {address.micro_batch} of {address.root} in step {address.step}"
    if not (passes >= 0).any():
        return f"only {lone.has} has a training pass of {address.root} in step {address.step}"
    return _moved_on(lone) or f"only {lone.has} has micro-batch {own} of {address.root} in step {address.step}"


def _moved_on(lone: _Lone) -> str:
    """Tell a missing or extra update from a micro-batch: the other run takes the same input, but a step later."""
    trace, address, rows = lone.trace, lone.address, lone.trace.rows
    sides = (trace.a, trace.row_a), (trace.b, trace.row_b)
    (file, row), (of_other, row_of_other) = sides if lone.has == "A" else sides[::-1]
    inputs = np.array([slot.startswith("input.") for slot in trace.tables.slots], np.bool_)
    given = inputs[rows.slot] & (rows.phase == _FORWARD)
    step, micro_batch = rows.step[lone.index], rows.micro_batch[lone.index]
    own = given & (rows.step == step) & (rows.micro_batch == micro_batch) & (row >= 0)
    own_inputs = lone.in_root(np.flatnonzero(own))
    if not len(own_inputs):
        return ""
    first = own_inputs[0]
    later = given & (rows.step == step + 1) & (rows.micro_batch == 0) & (row_of_other >= 0)
    later &= (rows.place == rows.place[first]) & (rows.slot == rows.slot[first])
    event = file.events[row[first]]
    for at in np.flatnonzero(later)[:1].tolist():
        found = of_other.events[row_of_other[at]]
        if found["digest0"] == event["digest0"] and found["digest1"] == event["digest1"]:
            return _MOVED[lone.has].format(step=address.step, next=address.step + 1, micro_batch=address.micro_batch)
    return ""


_MOVED = {
    "B": "B made no update in step {step} where A did: its micro-batch {micro_batch} has the input of A's step {next}",
    "A": "B made an extra update in step {step}: its step {next} has the input of A's micro-batch {micro_batch}",
}
"""Run that has the micro-batch to what that says."""

_RULES: tuple[Callable[[_Lone], str], ...] = (_step, _changed, _draw, _update, _micro_batch)
