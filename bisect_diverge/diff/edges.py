"""What a recorded tensor was made from and what it went into, within one step of one rank.

Two facts decide it. A *tensor edge* leads from a row to an earlier row that recorded the same tensor, a
tensor it is a view of (the ``source`` column), or a tensor of the same digest. And a call leads from its
inputs to its outputs; in the backward pass from the gradients of the calls that used a tensor to the gradient
of that tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.diff.keys import codes, is_call, is_changed
from bisect_diverge.model.address import PHASE_CODE, Phase
from bisect_diverge.model.elements import ELEMENT_TYPES
from bisect_diverge.model.record import Flag

if TYPE_CHECKING:
    from bisect_diverge.diff.trace import Trace
    from bisect_diverge.store.reader import RunFile

Indices = NDArray[np.int64]


class Role(IntEnum):
    """What a slot is to its call."""

    OTHER = 0
    INPUT = 1
    OUTPUT = 2
    GRAD_OUTPUT = 3
    VALUE = 4
    """The loss."""
    GRAD = 5
    UPDATED = 6
    """A parameter or optimizer state after the update."""
    BUFFER = 7
    CHANGED = 8
    """A parameter or buffer that was changed outside of an update."""


_ROLE_OF_HEAD = {
    "input": Role.INPUT,
    "kwarg": Role.INPUT,
    "output": Role.OUTPUT,
    "grad_output": Role.GRAD_OUTPUT,
    "value": Role.VALUE,
    "grad": Role.GRAD,
    "param": Role.UPDATED,
    "state": Role.UPDATED,
    "buffer": Role.BUFFER,
}

_FORWARD, _RNG, _INIT, _DATA = (PHASE_CODE[phase] for phase in (Phase.FORWARD, Phase.RNG, Phase.INIT, Phase.DATA))


def unhashable(file: RunFile, row: Indices) -> NDArray[np.bool_]:
    """Return which rows of a file (-1: none) hold a tensor without readable bytes."""
    flags = np.where(row >= 0, file.events["flags"][np.maximum(row, 0)], 0) if len(file.events) else np.zeros(len(row))
    return np.asarray(flags.astype(np.int64) & Flag.UNHASHABLE != 0)


class StepView:
    """The rows of one step of a trace, and the edges between them.

    Rows are numbered from 0 in the order of the trace; `index` has their places in the trace.

    Args:
        trace: The trace.
        step: The step, in A's numbering.
    """

    def __init__(self, trace: Trace, step: int) -> None:
        self.trace = trace
        self.index: Indices = np.flatnonzero(trace.rows.step == step)
        self.rows = trace.rows.take(self.index)
        self.same = trace.same[self.index]
        self.paired = trace.paired[self.index]
        """Both runs have the row."""
        self.role = self._roles()
        parts = (self.rows.micro_batch, self.rows.place, self.rows.call)
        _, self.group = np.unique(codes(parts, tuple(part[:0] for part in parts))[0], return_inverse=True)
        """Number of the call that each row belongs to: rows of one micro-batch, place and call."""
        self._by_group = np.argsort(self.group, kind="stable")
        self._group_ends = np.searchsorted(self.group[self._by_group], np.arange(self.group.max(initial=-1) + 2))

    def __len__(self) -> int:
        return len(self.index)

    def local(self, i: int) -> int:
        """Return the number here of a place in the trace."""
        return int(np.searchsorted(self.index, i))

    def members(self, group: int, *roles: Role) -> Indices:
        """Return the rows of a call that have one of some roles, in order."""
        rows = self._by_group[self._group_ends[group] : self._group_ends[group + 1]]
        return rows[np.isin(self.role[rows], roles)] if roles else rows

    @cached_property
    def edge(self) -> Indices:
        """For each row an earlier row of its tensor or its base, else the latest of its digest; -1: none."""
        trace = self.trace
        of_a = self._edges(trace.a, trace.row_a[self.index])
        of_b = self._edges(trace.b, trace.row_b[self.index])
        return np.where(of_a >= 0, of_a, of_b)

    @cached_property
    def tensor(self) -> Indices:
        """For each row the row at the end of its edges: rows of one number are one tensor and its views."""
        return _follow(self.edge, self.edge >= 0)

    @cached_property
    def maker(self) -> Indices:
        """For each row the row that made its tensor: edges through rows that only pass it on; -1: none."""
        passes_on = (self.role == Role.INPUT) & (self.edge >= 0)
        edge = np.maximum(self.edge, 0)
        own_input = (self.role == Role.OUTPUT) & (self.role[edge] == Role.INPUT)
        return np.where((self.edge >= 0) & ~own_input, _follow(self.edge, passes_on)[edge], -1)

    def producers(self, row: int) -> list[int]:
        """Return the rows that a row was made from, in order."""
        found = set(_MADE_FROM.get(Role(self.role[row]), _nothing)(self, row).tolist())
        return sorted((found | {int(self.maker[row])}) - {-1, row})

    def consumers(self, row: int) -> list[int]:
        """Return the rows that were made from a row, in order."""
        found = set(_MADE_INTO.get(Role(self.role[row]), _nothing)(self, row).tolist())
        return sorted(found | set(np.flatnonzero(self.maker == row).tolist()))

    @cached_property
    def modules(self) -> dict[str, list[int]]:
        """FQN to the places of that name that are called in this step; also ``root.fqn``."""
        out: dict[str, list[int]] = {}
        for place in np.unique(self.rows.place[is_call(self.rows, self.trace.tables)]).tolist():
            root, fqn = self.trace.tables.places[place]
            out.setdefault(fqn, []).append(place)
            out.setdefault(f"{root}.{fqn}" if fqn else root, []).append(place)
        return out

    def owners(self, row: int) -> list[int]:
        """Return the places of the modules that may own the parameter or buffer of a row."""
        root, fqn = self.trace.tables.places[self.rows.place[row]]
        found = self.modules.get(fqn.rpartition(".")[0], [])
        own = [place for place in found if self.trace.tables.places[place][0] == root]
        return own or found

    def _roles(self) -> NDArray[np.uint8]:
        heads = [text.partition(".")[0] for text in self.trace.tables.slots]
        table = np.array([_ROLE_OF_HEAD.get(head, Role.OTHER) for head in heads], np.uint8)
        roles = table[self.rows.slot] if len(table) else np.zeros(0, np.uint8)
        roles = np.where(is_changed(self.rows, self.trace.tables), np.uint8(Role.CHANGED), roles)
        return np.where(np.isin(self.rows.phase, (_RNG, _INIT)), np.uint8(Role.OTHER), roles)

    def _edges(self, file: RunFile, row: Indices) -> Indices:
        """Return the edges that one run shows; row: its row for each row here, -1: it has none."""
        have = np.flatnonzero(row >= 0)
        out = np.full(len(row), -1, np.int64)
        events = file.events[row[have]]
        out[have] = self._digest_edges(events, have)
        # Rows of a file may stand in another order here, so the source is looked up, not computed.
        order = have[np.argsort(row[have], kind="stable")]
        source = events["source"]
        if len(order):
            at = order[np.minimum(np.searchsorted(row[order], source), len(order) - 1)]
            found = (row[at] == source) & (at < have)
            out[have[found]] = at[found]
        return out

    def _digest_edges(self, events: NDArray[Any], have: Indices) -> Indices:
        """Return for each row of `have` the latest earlier row of the same digest; -1: none."""
        role, phase = self.role[have], self.rows.phase[have]
        flow = np.isin(role, (Role.INPUT, Role.OUTPUT, Role.VALUE)).astype(np.uint8)
        flow[role == Role.GRAD_OUTPUT] = 2
        supplies = (flow > 0) | (phase == _DATA)
        stored = np.array([bool(element.storage) for element in ELEMENT_TYPES])[events["dtype"]]
        supplies &= stored & (events["flags"] & (Flag.SCALAR | Flag.UNHASHABLE) == 0)
        chosen = np.flatnonzero(supplies)
        keys = np.where(flow == 2, 2, 1)[chosen], events["digest0"][chosen], events["digest1"][chosen]
        order = np.lexsort(keys)
        alike = np.ones(max(len(order) - 1, 0), np.bool_)
        for key in keys:
            alike &= key[order[1:]] == key[order[:-1]]
        later, earlier = chosen[order[1:][alike]], chosen[order[:-1][alike]]
        out = np.full(len(have), -1, np.int64)
        out[later] = have[earlier]
        return np.where(flow > 0, out, -1)


def users(view: StepView, row: int) -> Indices:
    """Return the inputs of calls that were given the tensor of a row, or a view of it, after it was made."""
    given = (view.role == Role.INPUT) & (view.tensor == view.tensor[row]) & (view.rows.phase == _FORWARD)
    found = np.flatnonzero(given)
    return found[found > row]


def forward_output(view: StepView, row: int) -> int | None:
    """Return the output whose gradient a row is; None where it was not recorded."""
    wanted = "output" + view.trace.tables.slots[view.rows.slot[row]].removeprefix("grad_output")
    outputs = view.members(int(view.group[row]), Role.OUTPUT)
    return next((int(o) for o in outputs if view.trace.tables.slots[view.rows.slot[o]] == wanted), None)


def gradients_of_module(view: StepView, row: int) -> Indices:
    """Return the gradients of the outputs of the module that owns the parameter of a row."""
    owned = np.isin(view.rows.place, view.owners(row)) & (view.role == Role.GRAD_OUTPUT)
    return np.flatnonzero(owned)


def inputs_of_module(view: StepView, row: int) -> Indices:
    """Return the forward inputs of the module that owns the buffer of a row."""
    owned = np.isin(view.rows.place, view.owners(row)) & (view.role == Role.INPUT) & (view.rows.phase == _FORWARD)
    return np.flatnonzero(owned)


def gradient_of_parameter(view: StepView, row: int) -> Indices:
    """Return the gradient that an optimizer update of a row's parameter used."""
    return view.members(int(view.group[row]), Role.GRAD)


def call_inputs(view: StepView, row: int) -> Indices:
    """Return the inputs of the call whose output a row is."""
    found = view.members(int(view.group[row]), Role.INPUT)
    return np.asarray(found[(found < row) & (view.rows.phase[found] == view.rows.phase[row])])


def call_outputs(view: StepView, row: int) -> Indices:
    """Return the outputs of the call whose input a row is."""
    found = view.members(int(view.group[row]), Role.OUTPUT)
    return np.asarray(found[(found > row) & (view.rows.phase[found] == view.rows.phase[row])])


def gradients_of_users(view: StepView, row: int) -> Indices:
    """Return the gradients from which autograd made the gradient of a call's output."""
    output = forward_output(view, row)
    if output is None:
        return _NONE
    calls = np.unique(view.group[users(view, output)])
    return _joined([view.members(int(call), Role.GRAD_OUTPUT) for call in calls])


def _gradients_made(view: StepView, row: int) -> Indices:
    """Return the gradients that the backward pass of a call made: of its inputs and its parameters."""
    inputs = view.members(int(view.group[row]), Role.INPUT)
    outputs = np.flatnonzero(view.role == Role.OUTPUT)
    used = [
        outputs[(view.tensor[outputs] == view.tensor[given]) & (outputs < given)]
        for given in inputs[view.rows.phase[inputs] == _FORWARD]
    ]
    found = [_gradient_of(view, int(output)) for output in _joined(used)]
    place = int(view.rows.place[row])
    gradients = np.flatnonzero(view.role == Role.GRAD)
    own = [gradient for gradient in gradients.tolist() if place in view.owners(gradient)]
    return _joined([*found, np.array(own, np.int64)])


def _gradient_of(view: StepView, output: int) -> Indices:
    gradients = view.members(int(view.group[output]), Role.GRAD_OUTPUT)
    return np.array([row for row in gradients.tolist() if forward_output(view, row) == output], np.int64)


def _updated(view: StepView, row: int) -> Indices:
    return view.members(int(view.group[row]), Role.UPDATED)


def _nothing(_view: StepView, _row: int) -> Indices:
    return _NONE


_NONE: Indices = np.zeros(0, np.int64)

_MADE_FROM: dict[Role, Callable[[StepView, int], Indices]] = {
    Role.OUTPUT: call_inputs,
    Role.GRAD_OUTPUT: gradients_of_users,
    Role.GRAD: gradients_of_module,
    Role.UPDATED: gradient_of_parameter,
    Role.BUFFER: inputs_of_module,
}

_MADE_INTO: dict[Role, Callable[[StepView, int], Indices]] = {
    Role.INPUT: call_outputs,
    Role.GRAD_OUTPUT: _gradients_made,
    Role.GRAD: _updated,
}


def _joined(parts: list[Indices]) -> Indices:
    return np.unique(np.concatenate(parts)) if parts else _NONE


def _follow(edge: Indices, through: NDArray[np.bool_]) -> Indices:
    """Return where one arrives from each row along edges, going on from rows of which `through` is true."""
    target = np.where(through, edge, np.arange(len(edge)))
    while True:  # edges lead to earlier rows only, so doubling the distance ends after log2(n) rounds
        further = target[target]
        if np.array_equal(further, target):
            return target
        target = further
