"""Takes guilty units apart: a configuration file into its keys, a range of commits into commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.bisector.abilities import DoubtingOracle
from bisect_diverge.bisector.chain import without
from bisect_diverge.bisector.partners import sufficient_set
from bisect_diverge.bisector.roles import prove
from bisect_diverge.bisector.rounds import explain
from bisect_diverge.bisector.steps import about_steps, are_steps, guilty_steps, merged
from bisect_diverge.errors import BisectDivergeError
from bisect_diverge.model.trial import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bisect_diverge.bisector.state import State
    from bisect_diverge.model.trial import Unit


def drill_down(state: State, drill: Callable[[Unit], Sequence[Unit]]) -> None:
    """Replace every guilty unit by those of its parts that make the same, as deep as there are parts.

    All parts together are the unit, so that nothing is run twice; where that is in doubt a trial tells first. The parts
    are searched with the unit's partners swapped, by the routine that found the unit.

    Raises:
        Stopped: if the budget is spent.
    """
    taken_apart = False
    for index in range(len(state.found)):
        todo = list(state.found[index])
        while todo:
            unit = todo.pop()
            parts = _parts(state, drill, unit)
            doubt = _doubt(state, unit)
            if unit not in state.units or len(parts) < (1 if doubt else 2):
                continue
            if not doubt:
                state.bench.finer[unit] = frozenset(parts)
            elif not _make_the_same(state, state.found[index], unit, parts, doubt):
                continue
            todo += _taken_apart(state, index, unit, parts)
            taken_apart = True
    if taken_apart:
        explain(state)  # another part may do the same as the one that was found


def _parts(state: State, drill: Callable[[Unit], Sequence[Unit]], unit: Unit) -> tuple[Unit, ...]:
    try:
        return tuple(drill(unit))
    except BisectDivergeError as error:
        state.notes.append(f"{unit} could not be taken apart: {error.what}")
        return ()


def _doubt(state: State, unit: Unit) -> str:
    oracle = state.bench.oracle
    return oracle.doubt(unit) if isinstance(oracle, DoubtingOracle) else ""


def _make_the_same(state: State, group: tuple[Unit, ...], unit: Unit, parts: tuple[Unit, ...], doubt: str) -> bool:
    """Whether all parts make in the place of a unit what it makes; a note says why it is not taken apart if not."""
    instead = (*without(group, (unit,)), *parts)
    if state.bench.value(instead) == state.bench.value(group):
        return True
    trial = state.bench.trial(instead)
    if trial.outcome is Outcome.SKIP:
        why = f"with all of its parts in its place it does not run: {trial.reason}"
    elif set(parts) <= set(trial.inert):
        why = "its parts were not seen to be read"
    else:
        why = f"all of its parts do not make in its place what it makes, so that {doubt}"
    state.notes.append(f"{unit} was not taken apart (trial {trial.n}): {why}")
    return False


def _taken_apart(state: State, index: int, unit: Unit, parts: tuple[Unit, ...]) -> tuple[Unit, ...]:
    """Put the guilty parts of a unit in its place; return those that may be taken apart further."""
    group = state.found[index]
    partners = frozenset(without(group, (unit,)))
    target = str(state.bench.value(group))
    if are_steps(unit, parts):
        state.bench.steps[unit] = parts
        groups = guilty_steps(state.bench, parts, target, partners)
        guilty = merged((groups[0][0], groups[-1][-1]))
        state.notes += about_steps(groups)
        if guilty == unit:
            return ()
        state.taken_apart[unit] = _with(parts, guilty)
        # A step after the guilty one brings it along, so that it stands for the whole from now on.
        chosen: tuple[Unit, ...] = (guilty,)
        kept = chosen
        further = chosen if guilty in parts else ()
    else:
        state.taken_apart[unit] = parts
        chosen, passed = sufficient_set(state.bench, parts, target, partners)
        state.aside += passed
        kept, further = parts, chosen
    state.complete = False  # another part may do the same
    state.units = tuple(each for old in state.units for each in (kept if old == unit else (old,)))
    for position, other in enumerate(state.found):
        if unit in other:
            state.found[position] = tuple(each for old in other for each in (chosen if old == unit else (old,)))
    state.explained.discard(unit)
    state.explained.update(chosen)
    prove(state, state.found[index])
    return further


def _with(steps: Sequence[Unit], guilty: Unit) -> tuple[Unit, ...]:
    """Return steps with one that may span several in the place of these."""
    begin = next(n for n, step in enumerate(steps) if step.a == guilty.a)
    end = next(n for n, step in enumerate(steps) if step.b == guilty.b)
    return (*steps[:begin], guilty, *steps[end + 1 :])
