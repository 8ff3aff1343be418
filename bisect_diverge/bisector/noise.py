"""What to do about a run that does not repeat itself: judge what precedes the noise, or say what would remove it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.bisector.abilities import AdvisingOracle, ClampingOracle, FillingOracle, LimitedOracle
from bisect_diverge.bisector.bench import A, B, Stopped, value_of
from bisect_diverge.bisector.memory import unwritten
from bisect_diverge.model.address import PHASE_CODE
from bisect_diverge.model.trial import BisectVerdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.bisector.state import State
    from bisect_diverge.model.address import Address
    from bisect_diverge.model.trial import Trial, Unit

_ELSEWHERE = "seeds taken from the time, clocks, files that others write, and what comes from the network"
HINT = f"look for unseeded generators, PYTHONHASHSEED, {_ELSEWHERE}"
BESIDE_CLAMPS = f"look for unseeded generators, {_ELSEWHERE}"
CLAMP, SAMPLE = "--clamp", "--confidence 95"
HOW = {
    CLAMP: "--clamp searches with all of these held in every trial, if A and B differ then too",
    SAMPLE: "--confidence 95 searches by repeats: it tells a likely cause with that confidence, and proves none",
}
"""Options of the command, and what they do."""
ONLY_JUDGED = "only that is judged"
"""So ends the note on a horizon before which the search judges."""
NOT_RECORDED = "what differs was not recorded"
NOT_HELD = "something that was not recorded has moved since"
"""What is supposed of a run that repeats itself; of one that does not, they mean nothing."""
REPEATS = 2
"""Trials with a clamp; so many that agree say little, and that is said."""
MORE_REPEATS = 4
"""The same where repeats without a clamp agree now and then: two that agree say nothing then."""


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
            state.notes.append(f"{name} does not repeat itself to the end{horizon_of(differing)}; {ONLY_JUDGED}")
            if value_of(bench.trial(())) == A and value_of(bench.trial(swapped)) == record:
                state.replays_of_a = [bench.trial(())]
                state.replays_of_b = []
                keep_replays(state, record, [bench.trial(swapped)])
                return True
    state.verdict = BisectVerdict.NOT_REPEATABLE
    state.notes.append(f"{name} does not repeat itself: {what_follows(state)}{horizon_of(differing)}")
    advise(state, swapped, trials)
    return False


def heed_repeats(state: State) -> None:
    """Blame nothing if two trials of A, or two of B, have other bits, whatever they were made for.

    A run whose repeats agree by luck may show its noise only where something else is tried, memory that is filled.
    """
    if state.verdict is BisectVerdict.NOT_REPEATABLE:
        return
    for name, swapped in (("A", ()), ("B", state.all_of_b or state.units)):
        pair = state.bench.apart(swapped)
        if pair is None:
            continue
        state.verdict = BisectVerdict.NOT_REPEATABLE
        state.complete = False
        state.notes = [note for note in state.notes if not note.endswith((NOT_RECORDED, NOT_HELD))]
        first = [trial.first_against_a if name == "A" else trial.first_against_b for trial in pair]
        clamps = f", with {', '.join(pair[0].clamps)} in both" if pair[0].clamps else ""
        state.notes.append(
            f"{name} does not repeat itself (trials {pair[0].n} and {pair[1].n}{clamps}): {what_follows(state)}"
            f"{horizon_of([address for address in first if address is not None])}"
        )
        advise(state, swapped, [*(state.replays_of_b if swapped else state.replays_of_a), *pair])
        return


def what_follows(state: State) -> str:
    """Return what noise means for the search."""
    return "nothing can be blamed" if state.confidence is None else "searched by repeats"


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
    """Note what may make a configuration noisy, and what takes that away: some more trials, none if repeats are asked.

    At most two for each set of clamps that is tried (four where repeats agree now and then), four with memory filled,
    and two runs to see where that shows.
    """
    oracle = state.bench.oracle
    said = oracle.advise(trials) if isinstance(oracle, AdvisingOracle) else ()
    if said:
        state.notes += said
        return
    if state.confidence is not None:
        return
    if not isinstance(oracle, ClampingOracle):
        state.notes.append(HINT)
    else:
        try:
            _diagnose(state, oracle, swapped, MORE_REPEATS if _agree_by_chance(trials) else REPEATS)
        except Stopped as stop:
            state.notes += [HINT, f"not tried which clamp removes the noise, or not to the end: {stop}"]
            state.remedies += [] if CLAMP in state.remedies else [CLAMP]
    state.remedies.append(SAMPLE)
    state.notes += [HOW[option] for option in state.remedies]


def _agree_by_chance(trials: Sequence[Trial]) -> bool:
    """Whether some of what does not repeat itself has the same bits all the same: the two records, and its repeats."""
    values = [A, B, *(value for trial in trials if (value := value_of(trial)) is not None)]
    return len(set(values)) < len(values)


def _diagnose(state: State, oracle: ClampingOracle, swapped: tuple[Unit, ...], repeats: int) -> None:
    """Try all clamps together, then one after another until one is enough; then whether unwritten memory is read."""
    every = tuple(oracle.clamps())
    numbers, agree = _agree(state, oracle, swapped, every, repeats)
    names = ", ".join(every)
    if not agree:
        state.notes.append(f"with every clamp it does not repeat itself either ({names}; trials {numbers})")
        state.notes += [*unwritten(state, swapped), BESIDE_CLAMPS]
        return
    bound = f"{repeats} identical repeats bound the rate of flakes below {bound_of(repeats):.0%}"
    state.notes.append(f"with every clamp it repeats itself ({names}; trials {numbers}; {bound})")
    state.remedies.append(CLAMP)
    enough = _alone(state, oracle, swapped, every, repeats)
    if not enough or not isinstance(oracle, FillingOracle) or oracle.fills_too(enough):
        state.notes += unwritten(state, swapped)


def _alone(state: State, oracle: ClampingOracle, swapped: tuple[Unit, ...], every: Sequence[str], repeats: int) -> str:
    """Note what each clamp does alone, up to the first that is enough; return that one, empty if none is.

    Where repeats agree by chance too all are tried: the first may have been lucky.
    """
    tried, enough = 0, ""
    try:
        for clamp in every:
            numbers, agree = _agree(state, oracle, swapped, (clamp,), repeats)
            tried += 1
            does = "repeats itself too" if agree else "does not"
            state.notes.append(f"with {clamp} alone it {does} (trials {numbers})")
            enough = enough or (clamp if agree else "")
            if enough and repeats == REPEATS:
                return enough
    finally:
        if tried < len(every):
            state.notes.append(f"not tried alone: {', '.join(every[tried:])}")
    if not enough:
        state.notes.append("no clamp is enough alone: there is more than one source of noise")
    return enough


def _agree(
    state: State, oracle: ClampingOracle, swapped: tuple[Unit, ...], clamps: tuple[str, ...], repeats: int
) -> tuple[str, bool]:
    """Return the numbers of some trials and whether they all agree; none is made after two that do not."""
    clamped = oracle.clamped(clamps)
    trials: list[Trial] = []
    values: set[str | None] = set()
    while len(trials) < repeats and (len(trials) < REPEATS or len(values) == 1):
        trials.append(state.bench.aside(clamped, swapped, len(trials)))
        values.add(value_of(trials[-1]))
    numbers = [str(trial.n) for trial in trials]
    return f"{', '.join(numbers[:-1])} and {numbers[-1]}", len(values) == 1 and None not in values


def bound_of(repeats: int) -> float:
    """Return the rate of flakes that so many identical repeats exclude with 95 % confidence: the rule of three."""
    return float(1 - 0.05 ** (1 / repeats))
