"""Takes guilty units apart: a configuration file into its keys, a range of commits into commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.bisector.chain import without
from bisect_diverge.bisector.partners import sufficient_set
from bisect_diverge.bisector.roles import prove
from bisect_diverge.bisector.rounds import explain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bisect_diverge.bisector.state import State
    from bisect_diverge.model.trial import Unit


def drill_down(state: State, drill: Callable[[Unit], Sequence[Unit]]) -> None:
    """Replace every guilty unit by those of its parts that make the same, as deep as there are parts.

    All parts together are the unit, so that nothing is run twice. The parts are searched with the unit's partners
    swapped, by the routine that found the unit.

    Raises:
        Stopped: if the budget is spent.
    """
    taken_apart = False
    for index in range(len(state.found)):
        todo = list(state.found[index])
        while todo:
            unit = todo.pop()
            parts = tuple(drill(unit))
            if len(parts) > 1 and unit in state.units:
                todo += _taken_apart(state, index, unit, parts)
                taken_apart = True
    if taken_apart:
        explain(state)  # another part may do the same as the one that was found


def _taken_apart(state: State, index: int, unit: Unit, parts: tuple[Unit, ...]) -> tuple[Unit, ...]:
    group = state.found[index]
    partners = frozenset(without(group, (unit,)))
    target = str(state.bench.value(group))
    state.bench.finer[unit] = frozenset(parts)
    chosen, passed = sufficient_set(state.bench, parts, target, partners)
    state.units = tuple(each for old in state.units for each in (parts if old == unit else (old,)))
    for position, other in enumerate(state.found):
        if unit in other:
            state.found[position] = tuple(each for old in other for each in (chosen if old == unit else (old,)))
    state.aside += passed
    state.explained.discard(unit)
    state.explained.update(chosen)
    prove(state, state.found[index])
    return chosen
