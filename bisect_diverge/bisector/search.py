"""Endpoint-chain bisection of two environments: which units make B's bits out of A's."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bisect_diverge.bisector.bench import Bench, Noisy, Stopped
from bisect_diverge.bisector.confirm import confirm, doubt, is_confirmed
from bisect_diverge.bisector.controls import control
from bisect_diverge.bisector.drill import drill_down
from bisect_diverge.bisector.matrix import fill
from bisect_diverge.bisector.noise import heed_repeats
from bisect_diverge.bisector.observer import check_recording
from bisect_diverge.bisector.plan import ordered
from bisect_diverge.bisector.prior import weight_for
from bisect_diverge.bisector.rounds import explain
from bisect_diverge.bisector.sampling import search_by_samples
from bisect_diverge.bisector.state import State
from bisect_diverge.bisector.verdict import answer, is_proved
from bisect_diverge.model.trial import Bisection, BisectVerdict, SearchOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bisect_diverge.model.address import Address
    from bisect_diverge.model.trial import Oracle, Trial, Unit, Untested


def bisect(
    units: Sequence[Unit],
    oracle: Oracle,
    options: SearchOptions | None = None,
    *,
    untestable: Sequence[Untested] = (),
    on_trial: Callable[[Trial], None] = lambda _trial: None,
    should_stop: Callable[[], bool] = lambda: False,
    first: Address | None = None,
    drill: Callable[[Unit], Sequence[Unit]] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Bisection:
    """Return which units make B out of A, with the trials that prove it.

    One cause among n units costs at most ``4 + ceil(log2 n)`` trials, the two controls included, and two more that
    replay A and B again before a cause is named; the check of the recording (`observer`) is two runs of its own, and
    taking a guilty unit apart is a search of its own. The chain cuts between layers where that costs nothing, and
    inside a layer only where the guilty one is.

    Args:
        units: Requested inputs that differ and can be swapped here, in any order.
        oracle: Runs trials. What else it may be able to do is in `abilities`.
        options: Mode, budget, trials at a time (the matrix, repeats of roles; a chain is one by one by nature).
        untestable: Requested inputs that differ and cannot be swapped here, with the reason.
        on_trial: Called after each trial.
        should_stop: Asked before each trial; True ends the search with what is known.
        first: Where A and B first differ; None: taken from the control of B.
        drill: Returns the parts of a guilty unit, to be searched in the same way; all parts together are the unit.
        clock: Seconds, for the budget.
    """
    options = options or SearchOptions()
    if not units and not untestable and first is None:
        return Bisection(verdict=BisectVerdict.NO_DIFFERENCE)
    bench = Bench(
        oracle,
        options.budget,
        jobs=options.jobs,
        on_trial=on_trial,
        should_stop=should_stop,
        clock=clock,
        weight=weight_for(first),
    )
    state = State(
        bench=bench,
        units=ordered(units),
        first=first,
        untestable=list(untestable),
        confidence=options.confidence,
    )
    try:
        try:
            control(state, options.budget.repeats)
            state.all_of_b = state.units
            if state.verdict is None and options.observe:
                check_recording(state)
            if state.verdict is None:
                (fill if options.mode == "matrix" else explain)(state)
                if drill is not None:
                    drill_down(state, drill)
        except Noisy as noise:
            doubt(state, noise)
        if is_proved(state):
            confirm(state)
        heed_repeats(state)
        unproved = state.doubtful and not is_proved(state)
        if options.confidence is not None and (unproved or state.verdict is BisectVerdict.NOT_REPEATABLE):
            replays = options.budget.repeats
            search_by_samples(state, options.confidence, replays=replays, mode=options.mode)
    except Stopped as stop:
        state.why = f"the search stopped early: {stop}"
        state.notes.append(state.why)
        state.finished = False
        state.complete = state.complete and is_confirmed(state)
    return answer(state)
