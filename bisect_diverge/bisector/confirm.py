"""Replays A and B once more before anything is blamed, and says how much that is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.bisector.bench import A, B, Flaky, Noisy, value_of
from bisect_diverge.bisector.chain import without
from bisect_diverge.bisector.noise import ONLY_JUDGED, SAMPLE, advise, bound_of, horizon_of, what_follows
from bisect_diverge.model.trial import IDENTICAL, BisectVerdict, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.bisector.state import State
    from bisect_diverge.model.trial import Trial, Unit

LEAST = 2
"""Replays of A and of B that a proof takes; one more of B where that is not its record."""


def confirm(state: State) -> None:
    """Make the replays that are missing for a proof, and take everything back if one of them differs.

    Of a single unit the proof is the two controls and nothing else: a coin would pass it every fourth time.

    Raises:
        Stopped: if the budget is spent.
    """
    _replayed(state, "A", (), state.replays_of_a, LEAST)
    if state.verdict is None:
        _replayed(state, "B", state.all_of_b or state.units, state.replays_of_b, _least_of_b(state))
    if state.verdict is None:
        _need_one_another(state)


def is_confirmed(state: State) -> bool:
    """Return whether both A and B were replayed often enough for a proof."""
    return len(state.replays_of_a) >= LEAST and len(state.replays_of_b) >= _least_of_b(state)


def _least_of_b(state: State) -> int:
    return LEAST if state.target == B else LEAST + 1


def _need_one_another(state: State) -> None:
    """Make sure of sets of several units: that none of its units can be left out, and that one makes B.

    What did not run without a unit is tried again, too: a failure that passes would make a bystander part of the cause.
    Where a repeat says that a unit can be left out, both answers are candidates. That B without it is A says already
    that a set makes B.
    """
    for chosen in [chosen for chosen in state.found if len(chosen) > 1]:
        smaller = [without(chosen, (unit,)) for unit in chosen]
        for some in smaller if state.bench.known(state.rest(*chosen)) == A else [chosen, *smaller]:
            if state.bench.found(some) is None:
                continue
            try:
                state.bench.sure(some)
            except Flaky as flake:
                state.verdict = BisectVerdict.INCONCLUSIVE
                doubt(state, flake)
                return


def doubt(state: State, noise: Noisy) -> None:
    """Note a trial that did not repeat itself, and the answers that it leaves open; none of them is chosen."""
    state.doubtful, state.complete = True, False
    state.remedies.append(SAMPLE)
    if not isinstance(noise, Flaky):
        state.why = str(noise)
        state.notes.append(state.why)
        return
    state.why = f"{_named(state, noise)} does not repeat itself: {noise}"
    state.notes.append(state.why)
    names = ", ".join(sorted(map(str, noise.swapped)))
    chosen = next((some for some in state.found if _is_all_but_one(noise, some)), ())
    if chosen:
        state.found += [_in_order(state, noise)] if noise.values[1] == state.target else []
        state.notes.append(f"either {_joined(chosen)} makes B, or {names} without the rest of it")
    elif (back := _put_back(state, noise)) and len(back) < len(noise.swapped):
        state.notes.append(f"whether anything else does the same as {_joined(back)} cannot be told")
    elif state.target in noise.values:
        state.notes.append(f"either {names} without anything else makes B, or it takes a partner to do so")
    else:
        state.notes.append(f"whether {names} has part in B cannot be told")


def _named(state: State, flake: Flaky) -> str:
    """Return a configuration in words, from A or from B, whichever is nearer."""
    back = _put_back(state, flake)
    if back and len(back) < len(flake.swapped):
        return f"B with {', '.join(map(str, back))} put back"
    return f"A with {', '.join(sorted(map(str, flake.swapped)))} swapped"


def _put_back(state: State, flake: Flaky) -> tuple[Unit, ...]:
    """Return what a configuration has at A's value; nothing where it has units that were taken apart since."""
    return state.rest(*flake.swapped) if flake.swapped <= set(state.units) else ()


def _is_all_but_one(flake: Flaky, chosen: tuple[Unit, ...]) -> bool:
    return flake.swapped < set(chosen) and len(flake.swapped) == len(chosen) - 1


def _in_order(state: State, flake: Flaky) -> tuple[Unit, ...]:
    return tuple(unit for unit in state.units if unit in flake.swapped)


def _joined(units: tuple[Unit, ...]) -> str:
    return " together with ".join(map(str, units))


def _replayed(state: State, name: str, swapped: tuple[Unit, ...], trials: list[Trial], least: int) -> None:
    while len(trials) < least:
        trial = state.bench.repeat(swapped, len(trials))
        if trial.outcome is Outcome.SKIP:
            state.verdict = BisectVerdict.INCONCLUSIVE
            state.complete = False
            state.why = f"the repeat of {name} does not run (trial {trial.n}): {trial.reason or 'no reason known'}"
            state.notes.append(state.why)
            return
        trials.append(trial)
        if trial.outcome is Outcome.FLAKY or value_of(trial) != value_of(trials[0]):
            _take_back(state, name, swapped, trials)
            return


def _take_back(state: State, name: str, swapped: tuple[Unit, ...], trials: list[Trial]) -> None:
    last = trials[-1]
    first = last.first_against_a if name == "A" else last.first_against_b
    where = horizon_of([] if first is None else [first])
    state.verdict = BisectVerdict.NOT_REPEATABLE
    state.complete = False
    state.aside.clear()
    state.notes.append(
        f"{name} does not repeat itself (trials {trials[0].n} and {last.n}): {what_follows(state)}{where}"
    )
    advise(state, swapped, trials)


def about_replays(state: State, verdict: BisectVerdict) -> Iterator[str]:
    """Yield how often A and B were replayed with their own bits, and what so many replays can say."""
    identical = []
    up_to = " up to the horizon" if any(note.endswith(ONLY_JUDGED) for note in state.notes) else ""
    for name, record, trials in (("A", A, state.replays_of_a), ("B", B, state.replays_of_b)):
        if trials and {value_of(trial) for trial in trials} == {record}:
            yield f"{name} {_how(trials)}{IDENTICAL}{up_to}"
            identical.append(len(trials))
    if identical and verdict is not BisectVerdict.NOT_REPEATABLE:
        m = min(identical)
        replays = "1 identical replay only bounds" if m == 1 else f"{m} identical replays only bound"
        yield f"{replays} the rate of flakes: below {bound_of(m):.0%} (1 - 0.05^(1/{m}), at 95 % confidence)"
    controls = {trial.n for trial in (*state.replays_of_a, *state.replays_of_b)}
    reused = [str(trial.n) for trial in state.bench.trials if trial.reused and trial.n not in controls]
    if reused:
        yield f"taken from the journal, not run again: trial{'s' * (len(reused) > 1)} {', '.join(reused)}"


def _how(trials: Sequence[Trial]) -> str:
    reused = sum(trial.reused for trial in trials)
    journal = f"taken from the journal{_times(reused) if reused > 1 else ''}"
    fresh = len(trials) - reused
    parts = [journal] * bool(reused) + [f"replayed{_times(fresh)}"] * bool(fresh)
    return " and ".join(parts)


def _times(number: int) -> str:
    return " once" if number == 1 else f" {number} times"
