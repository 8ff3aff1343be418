"""Puts the answer together from what is known, whether the search came to its end or not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bisect_diverge.bisector.bench import B
from bisect_diverge.bisector.chain import without
from bisect_diverge.bisector.confirm import about_replays, is_confirmed
from bisect_diverge.bisector.roles import causes, starts
from bisect_diverge.model.trial import Bisection, BisectVerdict, Outcome, Role, Untested

if TYPE_CHECKING:
    from bisect_diverge.bisector.state import State
    from bisect_diverge.model.trial import Cause, Unit


def answer(state: State) -> Bisection:
    """Return the result of a search in this state; no trial is run."""
    found = (*state.settled, *causes(state))
    verdict = _verdict(state)
    if verdict is BisectVerdict.NOT_REPEATABLE:
        found = ()
    if verdict is BisectVerdict.CAUSE:
        found = tuple(cause for cause in found if not _may_be_smaller(state, cause))
    if state.sampling is not None:  # where noise first differs says nothing
        found = tuple(replace(cause, same_divergence=False) for cause in found)
    blamed = {unit for cause in found for unit in cause.units}
    blamed.update(state.aside)
    inert = _inert(state, blamed)
    rest = [unit for unit in state.units if unit not in blamed and unit not in {row.unit for row in inert}]
    named = {row.unit for row in state.untestable}
    untestable = tuple(state.untestable)
    return Bisection(
        verdict=verdict,
        causes=found,
        innocent=tuple(unit for unit in rest if unit not in named) if _is_told(state) else (),
        inert=inert,
        untestable=untestable,
        trials=tuple(state.bench.trials),
        first=state.first,
        notes=tuple(dict.fromkeys((*about_replays(state, verdict), *state.notes, *_about_units(state, rest, found)))),
        finished=state.finished,
        observer=state.observer,
        taken_apart=tuple(state.taken_apart.items()),
        sampling=state.sampling,
        remedies=tuple(dict.fromkeys(state.remedies)),
        reason=_reason(state, verdict),
    )


def _reason(state: State, verdict: BisectVerdict) -> str:
    """Return why nothing is proved; empty where that is not so."""
    if verdict is not BisectVerdict.INCONCLUSIVE:
        return ""
    if state.why:
        return state.why
    if state.target != B and state.untestable:
        return "what cannot be swapped here, or was left out, has part in B"
    return "no trial shows a set of settings that makes B"


def _is_told(state: State) -> bool:
    """Whether the trials show that the rest has no part; samples show at most that no effect of it was seen."""
    return state.complete and not _alone(state) and state.sampling is None


def _alone(state: State) -> bool:
    """Whether B was not reached for want of something: what has no effect without that may have one beside it."""
    return state.target != B and bool(state.untestable)


def _verdict(state: State) -> BisectVerdict:
    if state.verdict is not None:
        return state.verdict
    if state.sampling is not None:
        return BisectVerdict.LIKELY if is_proved(state) else BisectVerdict.INCONCLUSIVE
    return BisectVerdict.CAUSE if is_proved(state) and is_confirmed(state) else BisectVerdict.INCONCLUSIVE


def is_proved(state: State) -> bool:
    """Return whether the trials name a cause, if A and B repeat themselves."""
    return state.verdict is None and any(_is_proved(state, cause) for cause in causes(state))


def _is_proved(state: State, cause: Cause) -> bool:
    """Return whether a cause answers the question: it makes B, or, where B is out of reach, its first divergence."""
    if _may_be_smaller(state, cause):
        return False
    if state.finished and cause.sufficient and not state.doubtful:
        return True
    started = state.target != B and starts(state.bench.found(cause.units), state.first)
    return (cause.sufficient or started) and cause.necessary


def _may_be_smaller(state: State, cause: Cause) -> bool:
    """Whether one of several units may be a bystander: without it the trial was another one when it was run again."""
    return len(cause.units) > 1 and any(state.bench.is_doubted(without(cause.units, (unit,))) for unit in cause.units)


def _inert(state: State, blamed: set[Unit]) -> tuple[Untested, ...]:
    """Return the units whose resolved values stayed where they were in every trial that swapped them."""
    moved: set[Unit] = set()
    still: set[Unit] = set()
    for trial in state.bench.trials:
        if trial.outcome is not Outcome.SKIP:
            still.update(trial.inert)
            moved.update(set(trial.swapped) - set(trial.inert))
    reason = "swapping it did not move its resolved value"
    return tuple(
        Untested(unit=unit, reason=reason)
        for unit in state.units
        if unit in still and unit not in moved and unit not in blamed
    )


def _about_units(state: State, rest: list[Unit], found: tuple[Cause, ...]) -> list[str]:
    notes = []
    if is_proved(state) and state.sampling is None and not is_confirmed(state):
        notes.append("A and B were not replayed again, which a proof takes")
    if state.aside:
        names = ", ".join(str(unit) for unit in dict.fromkeys(state.aside))
        notes.append(f"these matter only beside others, and have no part in this divergence: {names}")
    if rest and state.complete and state.sampling is not None:
        notes.append(f"no effect was seen of: {', '.join(str(unit) for unit in rest)}")
    if rest and not state.complete:
        notes.append(f"not decided: {', '.join(str(unit) for unit in rest)}")
    elif rest and _alone(state):
        seen = ", ".join(str(unit) for unit in rest)
        unseen = ", ".join(str(row.unit) for row in state.untestable)
        notes.append(f"not decided: {seen}: no effect was seen, but they may act together with {unseen}")
    apart = [cause for cause in found if cause.role is not Role.MASKED and not cause.same_divergence]
    if apart and state.sampling is None:
        notes.append("a proving trial first differs at another address than B does: it may be another divergence")
    for cause in found:
        if cause.role is Role.CAUSE and len(cause.units) > 1 and state.verdict is None:
            names = ", ".join(str(unit) for unit in cause.units)
            notes.append(f"{names}: the mix of these does not run or repeat itself, so they were moved together")
    return notes
