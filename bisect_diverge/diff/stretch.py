"""Where in a module's ``forward`` something begins that no module call shows: between two calls of its modules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bisect_diverge.diff.edges import Indices, Role, StepView
from bisect_diverge.diff.keys import is_call, place_text
from bisect_diverge.diff.lone import called_parents
from bisect_diverge.diff.places import records_at
from bisect_diverge.model.address import NO_PASS, PHASE_CODE, Phase
from bisect_diverge.model.findings import Stretch

if TYPE_CHECKING:
    from collections.abc import Callable

    from bisect_diverge.model.record import TensorRecord

_FORWARD, _RNG = PHASE_CODE[Phase.FORWARD], PHASE_CODE[Phase.RNG]


@dataclass(frozen=True, slots=True)
class _Span:
    """The calls of a module's modules around a moment in one of its calls."""

    place: int
    """Place of the module."""
    row: int
    """A row of its call."""
    after: int | None
    """Last row of a call of one of its modules before the moment."""
    before: int | None
    """First row of one from the moment on."""


def stretch_at(view: StepView, row: int) -> Stretch | None:
    """Return between which modules the tensor, or the draw, of a row was made; None where a module call shows it.

    A draw is made exactly there. A tensor that goes into a module is made there at the latest: code that ran
    before an earlier module may have made it.

    Args:
        view: The step.
        row: A row of it: an input of a module, an output of one that calls others, or a generator's state.
    """
    made = view.paired[row] and view.rows.phase[row] == _FORWARD
    find = _FINDERS.get(Role(view.role[row])) if made else None
    if view.rows.phase[row] == _RNG and view.rows.micro_batch[row] != NO_PASS:
        find = _around_draw
    span = find(view, row) if find else None
    return None if span is None else _stretch(view, span, exact=find is not _around_input)


def _around_input(view: StepView, row: int) -> _Span | None:
    parent = int(called_parents(view.trace)[view.rows.place[row]])
    calls = _calls(view, row, parent)
    edge = int(view.edge[row])
    if not len(calls) or (edge >= 0 and not view.paired[edge]):
        return None
    inputs = calls[(view.role[calls] == Role.INPUT) & (calls < row)]
    if not len(inputs):
        return None
    start = int(view.members(int(view.group[inputs[-1]]))[0])
    inside = _children(view, row, parent)
    earlier = inside[(inside > start) & (inside < row) & (view.group[inside] != view.group[row])]
    return _Span(parent, int(inputs[-1]), int(earlier[-1]) if len(earlier) else None, row)


def _around_output(view: StepView, row: int) -> _Span | None:
    place = int(view.rows.place[row])
    members = view.members(int(view.group[row]))
    inside = _children(view, row, place)
    earlier = inside[(inside > members[0]) & (inside < row)]
    return _Span(place, row, int(earlier[-1]), None) if len(earlier) else None


def _around_draw(view: StepView, row: int) -> _Span | None:
    place = int(view.rows.place[row])
    inside = _children(view, row, place)
    members = view.members(int(view.group[row]))
    forward = members[view.rows.phase[members] == _FORWARD]
    if not len(inside) or not len(forward) or row < forward[0]:
        return None
    outputs = forward[(view.role[forward] == Role.OUTPUT) & (forward > row)]
    end = int(outputs[0]) if len(outputs) else len(view)
    earlier = inside[(inside > forward[0]) & (inside < row)]
    later = inside[(inside > row) & (inside < end)]
    return _Span(
        place, int(forward[0]), int(earlier[-1]) if len(earlier) else None, int(later[0]) if len(later) else None
    )


_FINDERS: dict[Role, Callable[[StepView, int], _Span | None]] = {
    Role.INPUT: _around_input,
    Role.OUTPUT: _around_output,
}


def _stretch(view: StepView, span: _Span, *, exact: bool) -> Stretch:
    tables = view.trace.tables
    root, fqn = tables.places[span.place]
    near = span.before if span.before is not None else span.after
    return Stretch(
        inside=place_text(root, fqn),
        module_type=_record(view, span.row).module_type,
        after=_below(view, span.after, fqn),
        before=_below(view, span.before, fqn),
        site="" if near is None else _record(view, near).site,
        exact=exact,
    )


def _calls(view: StepView, row: int, place: int) -> Indices:
    """Return the forward rows of a place in the pass of a row."""
    if place < 0:
        return np.zeros(0, np.int64)
    rows = view.rows
    return np.flatnonzero(
        (rows.place == place) & (rows.micro_batch == rows.micro_batch[row]) & (rows.phase == _FORWARD)
    )


def _children(view: StepView, row: int, place: int) -> Indices:
    """Return the forward rows of the modules right below a place, in the pass of a row."""
    rows = view.rows
    below = called_parents(view.trace) == place
    chosen = below[rows.place] & (rows.micro_batch == rows.micro_batch[row])
    return np.flatnonzero(chosen & is_call(rows, view.trace.tables))


def _below(view: StepView, row: int | None, above: str) -> str:
    """Return the name of the module of a row below another one, with its call where it is not the first."""
    if row is None:
        return ""
    _, fqn = view.trace.tables.places[view.rows.place[row]]
    name = fqn.removeprefix(f"{above}.") if above else fqn
    call = int(view.rows.call[row])
    return f"{name}#{call}" if call else name


def _record(view: StepView, row: int) -> TensorRecord:
    """Return a row as A has it, or as B has it where only B does."""
    of_a, of_b = records_at(view.trace, int(view.index[row]))
    record = of_a or of_b
    assert record is not None
    return record
