"""What may have gone into a row though no record shows it: what only one run has, or what neither has.

Each function answers for one row, with a sentence without a full stop; empty where it has nothing to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bisect_diverge.diff.draws import same_states
from bisect_diverge.diff.edges import Role, forward_output
from bisect_diverge.diff.first import is_fed_in
from bisect_diverge.diff.places import address_at
from bisect_diverge.model.address import PHASE_CODE, Phase
from bisect_diverge.model.elements import NONE
from bisect_diverge.model.record import Flag

if TYPE_CHECKING:
    from bisect_diverge.diff.edges import Indices, StepView

_OPTIMIZER, _INIT = PHASE_CODE[Phase.OPTIMIZER], PHASE_CODE[Phase.INIT]


def same_memory(view: StepView, row: int) -> int | None:
    """Return the equal input from outside in whose memory another one lies; None where there is none.

    Two slices of one table share its memory, but neither is made from the other.
    """
    trace, end = view.trace, int(view.tensor[row])
    if end == row or view.role[row] != Role.INPUT or view.role[end] != Role.INPUT or not view.same[end]:
        return None
    index, of_end = int(view.index[row]), int(view.index[end])
    if not trace.paired[index] or not is_fed_in(trace, index) or not is_fed_in(trace, of_end):
        return None
    for file, rows in ((trace.a, trace.row_a), (trace.b, trace.row_b)):
        own, other = file.events[rows[index]], file.events[rows[of_end]]
        if own["digest0"] == other["digest0"] and own["digest1"] == other["digest1"]:
            return None  # the very same tensor in one run
    return end


def other_group(view: StepView, row: int) -> str:
    """Return that only one run has some values of a parameter group, where an update may have used them."""
    trace, rows = view.trace, view.rows
    root, _ = trace.tables.places[rows.place[row]]
    settings = np.flatnonzero((rows.phase[:row] == _OPTIMIZER) & (view.role[:row] == Role.OTHER) & ~view.paired[:row])
    mine = [at for at in settings.tolist() if trace.tables.places[rows.place[at]][0] == root]
    if not mine:
        return ""
    index = int(view.index[mine[0]])
    side = "A" if trace.row_a[index] >= 0 else "B"
    return f"only {side} has {address_at(trace, index)}: the parameter may be in another group, with other values"


def forgotten_state(view: StepView, row: int) -> str:
    """Return that one run begins in that step, so that what its optimizer held before the update is not recorded."""
    trace, begin = view.trace, int(view.index[0])
    states = np.array([slot.startswith("state.") for slot in trace.tables.slots], np.bool_)
    own = np.flatnonzero((trace.rows.place[:begin] == view.rows.place[row]) & states[trace.rows.slot[:begin]])
    before = {"A": own[trace.row_a[own] >= 0], "B": own[trace.row_b[own] >= 0]}
    for late, early in (("A", "B"), ("B", "A")):
        if len(before[early]) and not len(before[late]) and _begins_with(view, late, int(view.index[row])):
            step = _step_of(view, early, int(before[early][-1]))
            slots = dict.fromkeys(trace.tables.slots[slot] for slot in trace.rows.slot[before[early]].tolist())
            return (
                f"{late} begins in that step, and what its optimizer held then is not recorded: {early}'s step {step} "
                f"left {', '.join(slots)}, which a checkpoint without the optimizer does not bring back"
            )
    return ""


def _begins_with(view: StepView, side: str, index: int) -> bool:
    """Whether the step of a row is the first that a run has recorded."""
    file = view.trace.a if side == "A" else view.trace.b
    return _step_of(view, side, index) == int(file.events["step"].min())


def _step_of(view: StepView, side: str, index: int) -> int:
    file, rows = (view.trace.a, view.trace.row_a) if side == "A" else (view.trace.b, view.trace.row_b)
    return int(file.events["step"][rows[index]])


def none_beside_zeros(view: StepView, row: int) -> str:
    """Return that a gradient is missing in one run and all zeros in the other, or not."""
    trace, index = view.trace, int(view.index[row])
    file_a, file_b = trace.a, trace.b
    row_a, row_b = int(trace.row_a[index]), int(trace.row_b[index])
    without = [file.events["dtype"][at] == NONE.code for file, at in ((file_a, row_a), (file_b, row_b))]
    if without[0] == without[1]:
        return ""
    lacks, has, tensor = ("A", "B", file_b.tensor(row_b)) if without[0] else ("B", "A", file_a.tensor(row_a))
    if tensor is not None and not tensor.any():
        return (
            f"{lacks} has no gradient there and {has}'s is all zeros: the pass did not use the parameter, and {has} "
            "keeps what zero_grad(set_to_none=False) leaves; momentum and weight decay go on with zeros"
        )
    return f"{lacks} has no gradient there: its pass did not use the parameter, or it is frozen"


def cut_off(view: StepView, row: int) -> str:
    """Return that an output takes part in autograd in one run only, where only that one has its gradient."""
    output = forward_output(view, row)
    if output is None or not view.paired[output]:
        return ""
    trace, index = view.trace, int(view.index[output])
    with_grad = [
        bool(file.events["flags"][rows[index]] & Flag.REQUIRES_GRAD)
        for file, rows in ((trace.a, trace.row_a), (trace.b, trace.row_b))
    ]
    if with_grad[0] == with_grad[1]:
        return ""
    one, other = ("A", "B") if with_grad[0] else ("B", "A")
    return f"only in {one} is that output differentiated: in {other} what it is made from is frozen or detached"


def shared_weight(view: StepView, name: tuple[str, str]) -> str:
    """Return that a parameter is one of its own in one run and shared with another (tied) in the other."""
    trace, (root, fqn) = view.trace, name
    for side, file in (("A", trace.a), ("B", trace.b)):
        for first, others in file.record.aliases.items():
            if fqn in others and first.partition(":")[0] == root:
                return f"its parameter or buffer {fqn} is that of {first.partition(':')[2]} in {side} only (shared)"
    return ""


def lone_draws(view: StepView, row: int, before: int, lone: Indices) -> tuple[bool, str]:
    """Return that one run has passes of its own since the last equal state of a generator, and whether it alone drew.

    Args:
        view: The step.
        row: A row of the generator's state, which differs.
        before: Place in the trace of the last state before it that both runs have.
        lone: Places of the states between the two, of one run or both.
    """
    trace, index = view.trace, int(view.index[row])
    of_a, of_b = bool((trace.row_a[lone] >= 0).any()), bool((trace.row_b[lone] >= 0).any())
    if of_a == of_b:
        return False, ""
    side, first = "A" if of_a else "B", address_at(trace, int(lone[0]))
    # Whether the other run's state has not moved meanwhile; the state before is equal in both.
    unmoved = same_states(trace, (before, index)) if of_a else same_states(trace, (index, before))
    if unmoved:
        return True, (
            f"its state before is equal, and only {side} has drawn from it since, in or between passes that only "
            f"{side} has: the first is {first}"
        )
    return False, (
        f"it was equal before, and since then only {side} has passes in or between which it may have drawn: the first "
        f"is {first}"
    )
