"""Searches until what was found explains everything, and says what became of what was met on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.bisector.bench import A
from bisect_diverge.bisector.partners import sufficient_set
from bisect_diverge.bisector.roles import prove
from bisect_diverge.bisector.stand_ins import find_stand_ins

if TYPE_CHECKING:
    from bisect_diverge.bisector.state import State
    from bisect_diverge.model.trial import Unit


def explain(state: State) -> None:
    """Find sets until A remains when all of them are put back.

    Each round looks among the units that are in no set yet. A set that makes the target is a cause: the first
    one, or one that does the same as it. One that makes anything else was covered by those found before it.

    Raises:
        Stopped: if the budget is spent.
    """
    met: dict[Unit, None] = {}
    state.complete = False  # until this round of it has come to its end
    while True:
        rest = state.rest(*state.explained)
        value = state.bench.value(rest)
        if value is None or value == A:
            break
        if value != state.target:
            state.bench.sure(rest)
        chosen, passed = _next_set(state, rest, value)
        met.update(dict.fromkeys(passed))
        (state.found if value == state.target else state.covered).append(chosen)
        prove(state, chosen)
        state.explained.update(chosen)
    _count_in(state, met)
    decided = find_stand_ins(state, met)
    state.complete = value == A and decided
    if value is None:
        state.notes.append("B with all of these put back does not run: whether anything else has part is not known")
    _sort_out(state, met)


def _next_set(state: State, rest: tuple[Unit, ...], value: str) -> tuple[tuple[Unit, ...], tuple[Unit, ...]]:
    """Return a set that makes the value, one known from earlier trials if there is such a unit."""
    for unit in rest:
        if state.bench.known((unit,)) == value:
            return (unit,), ()
    return sufficient_set(state.bench, rest, value)


def _count_in(state: State, met: dict[Unit, None]) -> None:
    """Count a change point that makes the target alone among the sets, though the rounds did not come to it.

    That happens only where units undo one another.
    """
    for unit in met:
        if (unit,) not in state.found and state.bench.known((unit,)) == state.target:
            state.found.append((unit,))
            prove(state, (unit,))


def _sort_out(state: State, met: dict[Unit, None]) -> None:
    """Say what became of change points that are in no set: covered if they change A alone, else set aside."""
    blamed = state.blamed()
    for unit in met:
        if unit in blamed:
            continue
        if state.bench.known((unit,)) in {A, None}:
            state.aside.append(unit)
        else:
            state.covered.append((unit,))
