"""Replays A and B before anything is swapped: is there something to search, and can it be searched?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.bisector.abilities import CompletingOracle
from bisect_diverge.bisector.bench import A, B, Stopped, value_of
from bisect_diverge.bisector.chain import Chain
from bisect_diverge.bisector.memory import look_for_unwritten
from bisect_diverge.bisector.noise import NOT_HELD, NOT_RECORDED, about_noise, keep_replays
from bisect_diverge.bisector.plan import ordered
from bisect_diverge.model.trial import BisectVerdict, Cause, Outcome, Role, Untested

if TYPE_CHECKING:
    from bisect_diverge.bisector.state import State
    from bisect_diverge.model.trial import Unit

REPEATS_OF_MOVED = 3
"""A is replayed so often before its record is said not to hold any more, or what differs not to be recorded.

Two coins agree too often.
"""
UNRUNNABLE = 3
"""So many units are given up, one after another, when B does not run with them."""


def control(state: State, repeats: int) -> None:
    """Replay A and B, and settle the verdict where they leave nothing to search.

    Afterwards `state.target` is the value of all units at B's, unless `state.verdict` is set.

    Raises:
        Stopped: if the budget is spent.
    """
    if _repeats_itself(state, (), A, repeats):
        _control_of_b(state, repeats)
    if state.verdict is None and not state.units:
        _nothing_to_move(state)


def _repeats_itself(state: State, swapped: tuple[Unit, ...], record: str, repeats: int) -> bool:
    """Replay one side; True if it gives its record again each time. Otherwise the verdict is set or B left open."""
    trials = [state.bench.trial(swapped)]
    trials += [state.bench.repeat(swapped, number) for number in range(1, repeats)]
    values = {value_of(trial) for trial in trials}
    if values == {record}:
        keep_replays(state, record, trials)
        return True
    if any(trial.outcome is Outcome.SKIP for trial in trials):
        if record == A:
            _give_up(state, BisectVerdict.INCONCLUSIVE, f"A does not run here: {trials[0].reason or 'no reason known'}")
        return False
    least = REPEATS_OF_MOVED if record == A else 2
    while len(trials) < least and len(values) == 1 and None not in values:
        trials.append(state.bench.repeat(swapped, len(trials)))
        values.add(value_of(trials[-1]))
    if len(values) > 1 or None in values:
        return about_noise(state, swapped, record, trials)
    if record == A:
        what = "B's bits" if values == {B} else "other bits"
        _give_up(
            state,
            BisectVerdict.INCONCLUSIVE,
            f"A replayed {len(trials)} times: its repeats agree with one another and not with the record ({what}): "
            f"{NOT_HELD}",
        )
        look_for_unwritten(state, swapped, value_of(trials[0]))
    else:
        keep_replays(state, record, trials)
    return False


def _control_of_b(state: State, repeats: int) -> None:
    if not _runs_with_b(state):
        return
    _complete(state)
    if not state.units:
        return
    reached = _repeats_itself(state, state.units, B, repeats)
    if not reached and state.verdict is not None:
        return
    state.target = state.bench.value(state.units)
    if state.first is None:
        state.first = state.bench.trial(state.units).first_against_a
    if reached:
        if state.untestable:
            state.notes.append(
                f"B was reached without what {_out_of_reach(state)}: it is not needed for B; whether it would do the "
                "same as what was found is not tested"
            )
        return
    if state.target == A:
        _nothing_to_move(state)
    elif state.untestable:
        state.notes.append(
            f"with everything else swapped, the run is neither A nor B: what {_out_of_reach(state)} has part "
            "in B, and the search goes from A to that run"
        )
    else:
        state.notes.append(
            "B replayed: other bits than its record, though they repeat themselves: something that was not recorded "
            "has moved since; the search goes from A to the replay"
        )


def _complete(state: State) -> None:
    """Where B's requested inputs do not make B, move too what it has beside them."""
    oracle = state.bench.oracle
    if not isinstance(oracle, CompletingOracle) or (state.units and state.bench.value(state.units) == B):
        return
    more, cannot = oracle.left_over(frozenset(state.units))
    if more:
        state.units = ordered((*state.units, *more))
        if state.bench.value(state.units) == B:
            return  # what cannot be swapped has moved with them
    state.untestable += cannot


def _out_of_reach(state: State) -> str:
    left_out = len(state.left_out())
    if not left_out:
        return "cannot be swapped here"
    return "was left out" if left_out == len(state.untestable) else "cannot be swapped here or was left out"


def _nothing_to_move(state: State) -> None:
    """Settle it where all that can be swapped leaves A as it is."""
    if not state.untestable:
        why = "B's environment, as far as it was recorded, gives A" if state.units else "no unit differs"
        _give_up(state, BisectVerdict.INCONCLUSIVE, f"{why}: {NOT_RECORDED}")
        if _is_a_again(state):
            look_for_unwritten(state, (), A)
        return
    left_out = state.left_out()
    if left_out:
        state.complete = bool(state.units)
        names = ", ".join(str(row.unit) for row in state.untestable)
        text = "everything else swapped leaves A as it is" if state.units else "nothing was left to swap"
        _give_up(state, BisectVerdict.INCONCLUSIVE, f"{text}; not tested: {names}")
        return
    control = state.bench.trial(state.units)
    state.settled = (
        Cause(
            units=tuple(row.unit for row in state.untestable),
            role=Role.CAUSE,
            sufficient=False,
            necessary=bool(state.units),
            same_divergence=control.first_against_b in {None, state.first},
            proof=(control.n,),
        ),
    )
    state.complete = True
    text = "everything that can be swapped leaves A as it is" if state.units else "nothing that differs can be swapped"
    _give_up(state, BisectVerdict.BY_ELIMINATION, f"{text}: what cannot be swapped here remains")


def _is_a_again(state: State) -> bool:
    """Replay A as often as such a verdict takes; False if a replay is not A. A spent budget only ends that.

    All units at B's values are A too, so that those trials count.
    """
    try:
        while len(state.bench.trials) < REPEATS_OF_MOVED:
            trial = state.bench.repeat((), len(state.replays_of_a))
            state.replays_of_a.append(trial)
            if value_of(trial) != A:
                return False
    except Stopped:
        return True
    return True


def _runs_with_b(state: State) -> bool:
    """Give up units with which B does not run twice: they cannot be tested here. False if that does not help."""
    if state.units:
        state.bench.retried(state.units)
    for _ in range(UNRUNNABLE):
        if not state.units or state.bench.trial(state.units).outcome is not Outcome.SKIP:
            return True
        unit, reason = _unrunnable(state)
        state.untestable.append(Untested(unit=unit, reason=f"the run fails with it: {reason}"))
        state.units = state.rest(unit)
    if not state.units or state.bench.trial(state.units).outcome is not Outcome.SKIP:
        return True
    _give_up(state, BisectVerdict.INCONCLUSIVE, "B does not run here, nor does most of it")
    return False


def _unrunnable(state: State) -> tuple[Unit, str]:
    """Return the unit that ends the longest prefix that runs, and why the run fails with it."""
    chain = Chain(state.bench, state.units)
    low, high = 0, len(state.units)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if chain.value(middle) is None else (middle, high)
    reason = state.bench.trial(state.units[:high]).reason
    return state.units[low], reason or "no reason known"


def _give_up(state: State, verdict: BisectVerdict, note: str) -> None:
    state.verdict = verdict
    state.why = note
    state.notes.append(note)
