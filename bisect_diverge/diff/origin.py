"""Whether a difference begins at a row: everything that went into it is equal in both runs.

What went into a row is known from edges (`diff.edges`) and from the call around it. Where neither tells, the
answer is None - undetermined - and the reason says what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.diff.draws import is_extra_draw, latest_states, same_states
from bisect_diverge.diff.edges import (
    Indices,
    Role,
    StepView,
    call_inputs,
    forward_output,
    gradient_of_parameter,
    gradients_of_module,
    inputs_of_module,
    unhashable,
    users,
)
from bisect_diverge.diff.first import is_fed_in
from bisect_diverge.diff.keys import PARAMETER_SLOTS, parameter_names
from bisect_diverge.diff.lone import called_parents
from bisect_diverge.diff.places import address_at, starts_late
from bisect_diverge.diff.starts import is_window
from bisect_diverge.diff.trace import RowState, Trace
from bisect_diverge.diff.unshown import (
    cut_off,
    forgotten_state,
    lone_draws,
    none_beside_zeros,
    other_group,
    same_memory,
    shared_weight,
)
from bisect_diverge.model.address import PHASE_CODE, PHASES, Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from bisect_diverge.model.address import Address

JUDGED_LIMIT = 2000
"""Differing rows of the first step that are looked at for origins."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Whether a difference begins at a row."""

    holds: bool | None
    """None: undetermined."""
    reason: str
    """One sentence, without a full stop."""


@dataclass(frozen=True, slots=True)
class Origins:
    """The origins of one step."""

    addresses: tuple[Address, ...]
    """Where everything that went in is equal, in order."""
    not_judged: int
    """Differing rows beyond `JUDGED_LIMIT`."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """What is known of the other ranks in a step."""

    world: int = 1
    """Number of ranks that took part in the run."""
    compared: int = 1
    """Number of ranks that were compared."""
    differing: Address | None = None
    """A difference on another rank, before its update."""


class Judge:
    """Decides for rows of one step of one rank whether they are origins.

    Args:
        view: The step.
        ranks: What is known of the other ranks.
    """

    def __init__(self, view: StepView, ranks: Ranks) -> None:
        self.view = view
        self._ranks = ranks
        self.trace: Trace = view.trace
        bad = ~view.same & view.paired
        self._bad_before = np.concatenate([[0], np.cumsum(bad)])

    def judge(self, row: int) -> Origin:
        """Return whether a difference begins at a row of the step."""
        if not self.view.paired[row]:
            return self._alone(row)
        found = self._beginning(row)
        if found is not None:
            return found
        decide = _BY_ROLE.get(Role(self.view.role[row]))
        if decide is None:
            return Origin(True, "it is a setting, nothing recorded goes into it")
        found = decide(self, row)
        return (self._unreadable(row) or found) if found.holds else found

    def _unreadable(self, row: int) -> Origin | None:
        """Return why a row is not known to be an origin: of what may have gone into it only the class was compared."""
        view = self.view
        own = view.members(int(view.group[row]))
        into = {*own[own < row].tolist(), *view.producers(row)}
        if view.role[row] in (Role.INPUT, Role.OUTPUT) and len(own):
            into.update(range(int(own[0]), row))  # and what was called inside
        into.update(self._weights_of(row))
        unknown = [at for at in sorted(into) if at < row and self._unread[at]]
        if not unknown:
            return None
        return Origin(None, f"{self._address(unknown[0])} has no readable bytes: that it is equal is not known")

    def _weights_of(self, row: int) -> list[int]:
        """Return the rows of this step that show the weights with which the module of an output was called."""
        if self.view.role[row] != Role.OUTPUT:
            return []
        own = self._parameters.get(self.trace.tables.places[self.view.rows.place[row]], ())
        shown = [[at for at, _ in self._written.get(name, ()) if at < row] for name, _ in own]
        return [rows[-1] for rows in shown if rows]

    @cached_property
    def _unread(self) -> NDArray[np.bool_]:
        """Which rows of the step look equal, but have no bytes that could be compared."""
        view = self.view
        return view.same & unhashable(self.trace.a, self.trace.row_a[view.index])

    def _alone(self, row: int) -> Origin:
        if is_extra_draw(self.trace, int(self.view.index[row])):
            return self._extra_draw(row)
        cut = cut_off(self.view, row) if self.view.role[row] == Role.GRAD_OUTPUT else ""
        return Origin(None, cut or "it has no counterpart in the other run that could be compared")

    def _beginning(self, row: int) -> Origin | None:
        """Judge a row that nothing of this step goes into; None: something may."""
        phase = PHASES[self.view.rows.phase[row]]
        late = starts_late(self.trace, int(self.view.index[row]))
        if late:
            return self._going_on(row, late)
        if phase is Phase.RNG:
            return self._generator(row)
        if phase is Phase.INIT and is_window(self.trace.a):
            return Origin(None, _MID_RUN.format("the"))
        if phase is Phase.DATA and self.trace.tables.places[self.view.rows.place[row]][1]:
            why = "labels that the loss function was given: no recorded tensor is known to have gone in"
            return Origin(None if self._bad_before[row] else True, why)
        return Origin(True, _BEGINNINGS[phase]) if phase in _BEGINNINGS else None

    def origins(self) -> Origins:
        """Return every origin of the step, in order."""
        differing = np.flatnonzero(self.trace.state[self.view.index] == RowState.DIFFERS)
        rows = differing[self._worth_judging(differing)]
        judged = rows[:JUDGED_LIMIT].tolist()
        found = tuple(self._address(row) for row in judged if self.judge(row).holds)
        return Origins(found, max(len(rows) - JUDGED_LIMIT, 0))

    def _worth_judging(self, rows: Indices) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Return which rows are not plainly caused by another row; without a loop, as there may be many."""
        view = self.view
        bad = ~view.same & view.paired
        spoilt = np.zeros(int(view.group.max(initial=-1)) + 1, np.bool_)
        spoilt[view.group[bad & np.isin(view.role, (Role.INPUT, Role.GRAD))]] = True
        by_call = np.isin(view.role, (Role.OUTPUT, Role.UPDATED)) & spoilt[view.group]
        by_edge = (view.edge >= 0) & bad[np.maximum(view.edge, 0)] & np.isin(view.role, (Role.INPUT, Role.VALUE))
        worth: np.ndarray[tuple[int], np.dtype[np.bool_]] = ~(by_call | by_edge)[rows]
        return worth

    # -- what went into a row, by its role
    # ---------------------------------------------------------------------

    def _going_on(self, row: int, late: str) -> Origin:
        """Judge what one run starts from where the other was under way: resumed there, or recorded from there on."""
        if is_window(self.trace.a if late == "A" else self.trace.b):
            return Origin(None, _MID_RUN.format(f"{late}'s"))
        other = "B" if late == "A" else "A"
        address = address_at(self.trace, int(self.view.index[row]))
        left = f"{late} starts from another value than {other}'s step {self._step_left(row, other)} left"
        return Origin(
            True, f"{left}: the checkpoint did not restore that generator" if address.phase is Phase.RNG else left
        )

    def _step_left(self, row: int, side: str) -> int:
        index = int(self.view.index[row])
        if side == "A":
            return int(self.trace.a.events["step"][self.trace.row_a[index]])
        return int(self.trace.b.events["step"][self.trace.row_b[index]])

    def _generator(self, row: int) -> Origin:
        trace, index = self.trace, int(self.view.index[row])
        states = np.flatnonzero(
            (trace.rows.phase[:index] == _RNG_CODE) & (trace.rows.slot[:index] == trace.rows.slot[index])
        )
        before = states[trace.paired[states]]
        lone = states[states > before.max(initial=-1)]
        if len(lone):
            equal_before = len(before) and trace.same[before[-1]]
            alone, why = lone_draws(self.view, row, int(before[-1]), lone) if equal_before else (False, "")
            if why:
                return Origin(alone or None, why)
            return Origin(None, f"only one run has the state before it: {address_at(trace, int(lone[-1]))}")
        if not len(before):
            return Origin(
                True, "no earlier state of that generator is recorded: it was seeded differently, or by nobody"
            )
        if not trace.same[before[-1]]:
            return Origin(False, f"its state differed before: {address_at(trace, int(before[-1]))}")
        return Origin(True, "its state before is equal: it was seeded or drawn from differently since")

    def _extra_draw(self, row: int) -> Origin:
        side = "A" if self.trace.row_a[self.view.index[row]] >= 0 else "B"
        spoilt = self._spoilt_state(row)
        if spoilt is not None:
            return Origin(False, f"the state before differed already: {spoilt}")
        return Origin(True, f"only {side} draws there: the state before is equal")

    def _spoilt_state(self, row: int) -> Address | None:
        """Return where the state of the generator of a row was seen to differ before; None: it did not."""
        index = int(self.view.index[row])
        before = latest_states(self.trace, index, int(self.view.rows.slot[row]))
        if before is None or same_states(self.trace, before):
            return None
        return address_at(self.trace, max(before))

    def _output(self, row: int) -> Origin:
        inputs = call_inputs(self.view, row)
        spoilt = self._first_bad(inputs)
        if spoilt is not None:
            return Origin(False, f"an input of the same call differs: {self._address(spoilt)}")
        start = int(self.view.members(int(self.view.group[row]))[0])
        inner = self._bad_between(start, row, int(self.view.group[row]))
        if inner is not None:
            return Origin(False, f"something inside that call differs first: {self._address(inner)}")
        shown = bool(self.view.paired[start:row].all())
        held = self._held(row, inside=not shown) or self._drawn(row)
        if held:
            return held
        if not self.view.paired[inputs].all():
            return Origin(None, "only one run recorded all inputs of that call")
        if not shown:
            return Origin(
                True, f"{_inputs_text(len(inputs))} and its parameters {_EQUAL}; only one run shows its inside"
            )
        return Origin(True, f"{_inputs_text(len(inputs))} and everything recorded inside that call {_EQUAL}")

    def _input(self, row: int) -> Origin:
        beside = same_memory(self.view, row)
        if beside is not None:
            name = self._address(beside)
            return Origin(True, f"it is fed in from outside, out of the memory that {name} is of, which is equal")
        edge = int(self.view.edge[row])
        if edge >= 0:
            return self._by_edge(edge)
        index = int(self.view.index[row])
        place = int(self.view.rows.place[row])
        parent = int(self._parents[place])
        if parent < 0:
            if is_fed_in(self.trace, index):
                return Origin(True, "it is fed in from outside: no recorded tensor is known to have gone into it")
            return Origin(None, "no recorded tensor is known to have gone into it")
        return self._within(row, parent)

    def _within(self, row: int, parent: int) -> Origin:
        """Judge a tensor that was made in the forward of an enclosing call, between its modules."""
        rows, view = self.view.rows, self.view
        around = (rows.place == parent) & (rows.micro_batch == rows.micro_batch[row])
        around &= (view.role == Role.INPUT) & (rows.phase == rows.phase[row])
        starts = np.flatnonzero(around[:row])
        if not len(starts):
            return Origin(None, "no recorded tensor is known to have gone into it")
        call = int(view.group[starts[-1]])
        inputs = view.members(call, Role.INPUT)
        inputs = inputs[(inputs < row) & (rows.phase[inputs] == rows.phase[row])]
        spoilt = self._first_bad(inputs)
        if spoilt is None:
            spoilt = self._bad_between(int(inputs[0]), row, int(view.group[row]))
        if spoilt is not None:
            return Origin(None, f"it may have been made from {self._address(spoilt)}, which differs")
        alone = np.flatnonzero(~view.paired[inputs[0] : row]) + int(inputs[0])
        alone = alone[self._parents[rows.place[alone]] == parent]
        if len(alone):
            return Origin(None, f"it may have been made from {self._address(int(alone[0]))}, which only one run has")
        held = self._held(int(inputs[0]))
        if held:
            return held
        name = self._name(int(inputs[0]))
        return Origin(True, f"it is made in {name}, whose inputs and modules called before it {_EQUAL}")

    def _value(self, row: int) -> Origin:
        edge = int(self.view.edge[row])
        if edge >= 0:
            return self._by_edge(edge)
        unknown = "no recorded tensor is known to have gone into the loss"
        if (self.trace.state[self.view.index[:row]] == RowState.DIFFERS).any():  # idle generators do not count
            return Origin(None, unknown)
        return Origin(
            None,
            f"{unknown}, and none before it in that step differs: labels, weights and options of a loss function enter "
            "no module",
        )

    def _grad_output(self, row: int) -> Origin:
        view = self.view
        output = forward_output(view, row)
        used = users(view, output) if output is not None else np.zeros(0, np.int64)
        losses = np.flatnonzero((view.role == Role.VALUE) & (view.tensor == view.tensor[max(output or 0, 0)]))
        if output is None or not len(used) + len(losses):
            return Origin(None, "no recorded call is known to have used that output")
        rows = [view.members(int(call)) for call in np.unique(view.group[used])]
        return self._backward_of(np.concatenate([*rows, losses]), row)

    def _grad(self, row: int) -> Origin:
        gradients = gradients_of_module(self.view, row)
        lacking = none_beside_zeros(self.view, row)
        if lacking:
            return Origin(None if len(gradients) or "zeros" not in lacking else True, lacking)
        if not len(gradients):
            return Origin(None, "no gradient of an output of its module was recorded")
        calls = np.unique(self.view.group[gradients])
        found = self._backward_of(np.concatenate([self.view.members(int(call)) for call in calls]), row)
        return self._among_ranks() if found.holds and self._ranks.world > 1 else found

    def _among_ranks(self) -> Origin:
        """Judge a gradient whose own backward pass is equal, where gradients are summed over ranks."""
        if self._ranks.differing is not None:
            return Origin(False, f"another rank differs in that step: {self._ranks.differing}")
        if self._ranks.compared < self._ranks.world:
            return Origin(None, "it may hold what ranks computed of which there is no recording")
        return Origin(True, f"the calls whose backward pass made it {_EQUAL}, on all ranks")

    def _backward_of(self, rows: Indices, row: int) -> Origin:
        """Judge a gradient made by the backward pass of the calls that `rows` belong to."""
        rows = np.sort(rows)
        spoilt = self._first_bad(rows[rows < row])
        if spoilt is not None:
            return Origin(False, f"what its backward pass uses differs: {self._address(spoilt)}")
        if not self.view.paired[rows].all():
            return Origin(None, "only one run shows the calls whose backward pass made it")
        return Origin(True, f"the calls whose backward pass made it {_EQUAL}, inputs and gradients alike")

    def _updated(self, row: int) -> Origin:
        view = self.view
        gradients = gradient_of_parameter(view, row)
        if not len(gradients):
            return Origin(None, "the gradient that the update used was not recorded")
        settings = np.flatnonzero((view.rows.phase[:row] == _OPTIMIZER_CODE) & (view.role[:row] == Role.OTHER))
        spoilt = self._first_bad(np.concatenate([settings, gradients]))
        if spoilt is not None:
            return Origin(False, f"what the update used differs: {self._address(spoilt)}")
        if not self._equal_before(row):
            return Origin(False, "that parameter or its state differed already before the update")
        unknown = other_group(view, row) or forgotten_state(view, row)
        if unknown:
            return Origin(None, unknown)
        return Origin(True, f"the gradient and the settings of that update {_EQUAL}, and so was the state before")

    def _changed(self, row: int) -> Origin:
        name = self.trace.tables.places[self.view.rows.place[row]]
        if self._parameter_before(name, row, self._equal.get(name, True)) is False:
            return Origin(False, "it differed already before it was changed outside of an update")
        return Origin(None, "it was changed between two updates, by code that is not recorded")

    def _equal_before(self, row: int) -> bool:
        """Return whether parameter and state at an optimizer's place were equal before the update."""
        place, trace = int(self.view.rows.place[row]), self.trace
        begin = int(self.view.index[0])
        rows = np.flatnonzero((trace.rows.place[:begin] == place) & trace.paired[:begin])
        rows = rows[trace.rows.step[rows] == trace.rows.step[rows].max(initial=-1)]
        heads = [slot.partition(".")[0] for slot in trace.tables.slots]
        names = [name for name in parameter_names(trace.tables.places[place], self._known) if name in self._equal]
        of_update = ("state",) if names else ("param", "state")  # the parameter may have been changed since
        updated = np.array([head in of_update for head in heads])
        if not trace.same[rows][updated[trace.rows.slot[rows]]].all():
            return False
        return all(self._parameter_before(name, row, self._equal[name]) for name in names)

    def _buffer(self, row: int) -> Origin:
        inputs = inputs_of_module(self.view, row)
        if not len(inputs):
            return Origin(None, "no input of its module was recorded in that step")
        spoilt = self._first_bad(inputs)
        if spoilt is not None:
            return Origin(False, f"an input of its module differs: {self._address(spoilt)}")
        name = self.trace.tables.places[self.view.rows.place[row]]
        if self._parameter_before(name, row, self._equal.get(name, True)) is False:
            return Origin(False, "it differed already before that step's passes")
        if not self.view.paired[inputs].all():
            return Origin(None, "only one run has all calls of its module in that step")
        return Origin(True, f"all inputs of its module in that step {_EQUAL}")

    # -- helpers
    # -----------------------------------------------------------------------------------------------

    def _by_edge(self, edge: int) -> Origin:
        name = self._address(edge)
        if not self.view.paired[edge]:
            return Origin(None, f"it comes from {name}, which only one run has")
        if not self.view.same[edge]:
            return Origin(False, f"it comes from {name}, which differs")
        return Origin(True, f"it comes from {name}, which is equal: the code between the two differs")

    def _held(self, row: int, *, inside: bool = False) -> Origin | None:
        """Return why a call is no origin, where a parameter or buffer of its module differs.

        Args:
            row: A row of the call.
            inside: Look at the modules below it too, because their calls cannot be compared.
        """
        root, fqn = self.trace.tables.places[self.view.rows.place[row]]
        modules = [(root, fqn)]
        if inside:
            modules += [name for name in self._parameters if name[0] == root and _is_below(name[1], fqn)]
        held = [entry for module in modules for entry in self._parameters.get(module, ())]
        for name, same in held:
            before = self._parameter_before(name, row, same)
            if before is None and (shared := shared_weight(self.view, name)):
                return Origin(False, shared)
            if before is None:
                return Origin(None, f"only one run changed its parameter or buffer {name[1]} outside of an update")
            if not before:
                return Origin(False, f"its parameter or buffer {name[1]} differs")
        return None

    def _parameter_before(self, name: tuple[str, str], row: int, same: bool) -> bool | None:
        """Return whether a parameter was equal before a row of the step; None: only one run changed it.

        Args:
            name: Its root and FQN.
            row: The row.
            same: Whether it was equal before the step.
        """
        inside = self._written.get(name, [])
        return next((equal for at, equal in reversed(inside) if at < row), same)

    def _drawn(self, row: int) -> Origin | None:
        """Return why a call is no origin, where it draws from a generator whose state differed before it."""
        view = self.view
        members = view.members(int(view.group[row]))
        # The state on entry to a root says nothing of draws; one that is seen later in the call does.
        drawn = members[1:][view.rows.phase[members[1:]] == _RNG_CODE]
        slots, first = np.unique(view.rows.slot[drawn], return_index=True)
        for slot, draw in zip(slots.tolist(), drawn[first].tolist(), strict=True):
            spoilt = self._spoilt_state(draw)
            if spoilt is not None:
                name = self.trace.tables.slots[slot]
                return Origin(False, f"it draws from {name}, whose state differed before: {spoilt}")
        return None

    @cached_property
    def _parents(self) -> Indices:
        return called_parents(self.trace)

    @cached_property
    def _known(self) -> set[tuple[str, str]]:
        """Root and FQN of every parameter and buffer that an initial row, or one of a change, names."""
        trace = self.trace
        end = int(self.view.index[-1]) + 1
        rows = np.flatnonzero(_of_slots(trace, PARAMETER_SLOTS)[trace.rows.slot[:end]])
        named = rows[trace.rows.phase[rows] != _OPTIMIZER_CODE]
        return {trace.tables.places[place] for place in np.unique(trace.rows.place[named]).tolist()}

    @cached_property
    def _equal(self) -> dict[tuple[str, str], bool]:
        """Root and FQN of each parameter and buffer to whether it was equal before this step."""
        trace = self.trace
        begin = int(self.view.index[0])
        chosen = _of_slots(trace, PARAMETER_SLOTS)[trace.rows.slot[:begin]] & trace.paired[:begin]
        rows = np.flatnonzero(chosen)[::-1]
        places, latest = np.unique(trace.rows.place[rows], return_index=True)
        equal: dict[tuple[str, str], bool] = {}
        order = np.argsort(-latest)  # oldest first, so that the newest state of a parameter wins
        for place, row in zip(places[order].tolist(), rows[latest[order]].tolist(), strict=True):
            for name in parameter_names(trace.tables.places[place], self._known):
                equal[name] = bool(trace.same[row])
        return equal

    @cached_property
    def _written(self) -> dict[tuple[str, str], list[tuple[int, bool | None]]]:
        """Root and FQN of each parameter to the rows of this step that show it anew before an update.

        Each row comes with whether it is equal; None: only one run has it.
        """
        view = self.view
        slots = _of_slots(self.trace, PARAMETER_SLOTS)[view.rows.slot]
        compared = self.trace.state[view.index] != RowState.IGNORED
        rows = np.flatnonzero(slots & (view.rows.phase != _OPTIMIZER_CODE) & (compared | view.paired))
        out: dict[tuple[str, str], list[tuple[int, bool | None]]] = {}
        for row in rows.tolist():
            name = self.trace.tables.places[view.rows.place[row]]
            out.setdefault(name, []).append((row, bool(view.same[row]) if view.paired[row] else None))
        return out

    @cached_property
    def _parameters(self) -> dict[tuple[str, str], list[tuple[tuple[str, str], bool]]]:
        """Root and FQN of a module to its parameters and buffers, each with: equal before this step."""
        out: dict[tuple[str, str], list[tuple[tuple[str, str], bool]]] = {}
        for name in sorted(self._equal.keys() | self._written.keys()):
            root, fqn = name
            out.setdefault((root, fqn.rpartition(".")[0]), []).append((name, self._equal.get(name, True)))
        return out

    def _first_bad(self, rows: Indices) -> int | None:
        bad = rows[~self.view.same[rows] & self.view.paired[rows]]
        return int(bad[0]) if len(bad) else None

    def _bad_between(self, start: int, stop: int, but: int) -> int | None:
        """Return the first differing row between two rows that does not belong to call `but`."""
        if self._bad_before[stop] == self._bad_before[start]:
            return None
        rows = np.arange(start, stop)
        return self._first_bad(rows[self.view.group[start:stop] != but])

    def _address(self, row: int) -> Address:
        return address_at(self.trace, int(self.view.index[row]))

    def _name(self, row: int) -> str:
        root, fqn = self.trace.tables.places[self.view.rows.place[row]]
        return f"{root}:{fqn}#{self.view.rows.call[row]}"


_MID_RUN = "{} recording begins in mid-run (--steps): what came before is not in it"

_BEGINNINGS = {
    Phase.INIT: "nothing is recorded before the initial values",
    Phase.DATA: "it is handed out by a loader: no recorded tensor goes into it",
}
"""Phases whose rows nothing recorded goes into."""

_BY_ROLE: dict[Role, Callable[[Judge, int], Origin]] = {
    Role.INPUT: Judge._input,
    Role.OUTPUT: Judge._output,
    Role.VALUE: Judge._value,
    Role.GRAD_OUTPUT: Judge._grad_output,
    Role.GRAD: Judge._grad,
    Role.UPDATED: Judge._updated,
    Role.BUFFER: Judge._buffer,
    Role.CHANGED: Judge._changed,
}

_EQUAL = "are equal"
_RNG_CODE = PHASE_CODE[Phase.RNG]
_OPTIMIZER_CODE = PHASE_CODE[Phase.OPTIMIZER]


def _inputs_text(count: int) -> str:
    return {0: "it has no inputs, its parameters", 1: "its 1 input"}.get(count, f"its {count} inputs")


def _is_below(fqn: str, above: str) -> bool:
    return fqn.startswith(f"{above}." if above else "") and fqn != above


def _of_slots(trace: Trace, wanted: tuple[str, ...]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return for each slot number whether it is one of some slots."""
    return np.array([slot in wanted for slot in trace.tables.slots], np.bool_)
