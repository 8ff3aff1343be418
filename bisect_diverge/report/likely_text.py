"""A likely cause in words: how sure it is, and what the samples that it rests on are like."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bisect_diverge.model.sampling import Decision, Sampling
    from bisect_diverge.model.trial import Bisection, Cause

NOT_APART = "A and B cannot be told apart from the noise of A alone"


def how_sure(sampling: Sampling) -> str:
    """Return confidence and cost in a few words: ``confidence 95.0 %, from 31 runs``."""
    return f"confidence {sampling.confidence:.1%}, from {sampling.runs} runs"


def likely_proof(cause: Cause, bisection: Bisection) -> Iterator[str]:
    """Yield what shows a likely cause: what A is like with it, what B is like without it, and how A and B differ."""
    sampling = bisection.sampling
    if sampling is None:
        return
    found = {decision.trials[0]: decision for decision in sampling.decisions if decision.trials}
    swapped = {trial.n: set(trial.swapped) for trial in bisection.trials}
    for number in cause.proof:
        if number in found:
            forward = swapped[number] == set(cause.units)
            yield f"{'A with only this changed' if forward else 'B with only this put back'}: {_like(found[number])}"
    yield f"A and B: {sampling.replays} replays each; chance if they were alike {_chance(sampling.chance)}"


def _like(decision: Decision) -> str:
    trials = f"{len(decision.trials)} runs, {_numbers(decision.trials)}"
    match decision.like:
        case "A":
            return f"like A ({trials}; chance if it were like B {_chance(decision.chance_b)})"
        case "B":
            return f"like B ({trials}; chance if it were like A {_chance(decision.chance_a)})"
    return f"{decision.like} ({trials})"


def _numbers(trials: tuple[int, ...]) -> str:
    return f"trials {trials[0]}-{trials[-1]}" if len(trials) > 1 else f"trial {trials[0]}"


def _chance(value: float) -> str:
    return f"{value:.2%}" if value >= 0.0001 else "below 0.01%"
