"""What to do about a run that does not repeat itself: judge what precedes the noise, or say what would remove it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.bisector.abilities import AdvisingOracle, ClampingOracle, LimitedOracle
from bisect_diverge.bisector.bench import A, Stopped, value_of
from bisect_diverge.model.address import PHASE_CODE
from bisect_diverge.model.trial import BisectVerdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.bisector.state import State
    from bisect_diverge.model.address import Address
    from bisect_diverge.model.trial import Trial, Unit

HINT = "look for unseeded generators, PYTHONHASHSEED and seeds taken from the time"
CLAMP = "bd bisect A B --clamp searches with all of these held in every trial, if A and B differ then too"
REPEATS = 2
"""Trials with a clamp; so many that agree say little, and that is said."""


def about_noise(state: State, swapped: tuple[Unit, ...], record: str, trials: list[Trial]) -> bool:
    """Search before the horizon if the oracle can judge that much; otherwise blame nothing.

    Args:
        state: The search.
        swapped: The configuration that does not repeat itself.
        record: Value that it should have.
        trials: Its repeats.

    Returns:
        Whether it has that value again and again as far as the horizon.

    Raises:
        Stopped: if the budget is spent.
    """
    name = "A" if record == A else "B"
    first = [trial.first_against_a if record == A else trial.first_against_b for trial in trials]
    differing = [address for address in first if address is not None]
    bench = state.bench
    if differing and isinstance(bench.oracle, LimitedOracle):
        limited = bench.oracle.limit(differing)
        if limited is not None:
            bench.judge_by(limited)
            state.notes.append(f"{name} does not repeat itself{horizon_of(differing)}; only that is judged")
            if value_of(bench.trial(())) == A and value_of(bench.trial(swapped)) == record:
                state.replays_of_a = [bench.trial(())]
                state.replays_of_b = []
                keep_replays(state, record, [bench.trial(swapped)])
                return True
    state.verdict = BisectVerdict.NOT_REPEATABLE
    state.notes.append(f"{name} does not repeat itself: nothing can be blamed{horizon_of(differing)}")
    advise(state, swapped, trials)
    return False


def keep_replays(state: State, record: str, trials: list[Trial]) -> None:
    """Keep the replays of a side."""
    if record == A:
        state.replays_of_a = trials
    else:
        state.replays_of_b = trials


def horizon_of(differing: Sequence[Address]) -> str:
    """Return the words on the earliest of some addresses at which repeats differ; none if there is none."""
    horizon = min(differing, key=lambda a: (a.step, PHASE_CODE[a.phase]), default=None)
    return "" if horizon is None else f"; the horizon is {horizon}: what lies before it repeats itself"


def advise(state: State, swapped: tuple[Unit, ...], trials: Sequence[Trial]) -> None:
    """Note what may make a configuration noisy, and which clamps take that away: four more trials at most."""
    oracle = state.bench.oracle
    said = oracle.advise(trials) if isinstance(oracle, AdvisingOracle) else ()
    if said:
        state.notes += said
        return
    if not isinstance(oracle, ClampingOracle):
        state.notes.append(HINT)
        return
    try:
        state.notes += _tried(state, oracle, swapped)
    except Stopped as stop:
        state.notes += [HINT, f"not tried which clamp removes the noise: {stop}"]


def _tried(state: State, oracle: ClampingOracle, swapped: tuple[Unit, ...]) -> list[str]:
    """Return what clamps do: all of them together, and if that helps the first of them alone."""
    every = tuple(oracle.clamps())
    names = ", ".join(every)
    numbers, agree = _agree(state, oracle, swapped, every)
    if not agree:
        return [
            f"with every clamp it does not repeat itself either ({names}; trials {numbers}): no race of threads",
            HINT,
        ]
    bound = f"{REPEATS} identical repeats bound the rate of flakes below {bound_of(REPEATS):.0%}"
    found = [f"with every clamp it repeats itself ({names}; trials {numbers}; {bound})"]
    numbers, alone = _agree(state, oracle, swapped, every[:1])
    found.append(f"with {every[0]} alone it {'repeats itself too' if alone else 'does not'} (trials {numbers})")
    return [*found, CLAMP]


def _agree(
    state: State, oracle: ClampingOracle, swapped: tuple[Unit, ...], clamps: tuple[str, ...]
) -> tuple[str, bool]:
    clamped = oracle.clamped(clamps)
    trials = [state.bench.aside(clamped, swapped, number) for number in range(REPEATS)]
    values = {value_of(trial) for trial in trials}
    return " and ".join(str(trial.n) for trial in trials), len(values) == 1 and None not in values


def bound_of(repeats: int) -> float:
    """Return the rate of flakes that so many identical repeats exclude with 95 % confidence: the rule of three."""
    return float(1 - 0.05 ** (1 / repeats))
