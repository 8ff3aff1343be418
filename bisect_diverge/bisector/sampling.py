"""Searches where no run has the same bits twice: samples of each configuration against samples of A and of B.

What it finds is likely and no proof; how sure a decision is says `sampler`.
"""

from __future__ import annotations

from math import ceil, log2
from typing import TYPE_CHECKING

from bisect_diverge.bisector.abilities import CompletingOracle
from bisect_diverge.bisector.matrix import fill
from bisect_diverge.bisector.plan import ordered
from bisect_diverge.bisector.rounds import explain
from bisect_diverge.bisector.sampler import CannotRunError, NotDecidedError, Sampler, sample_sizes
from bisect_diverge.model.trial import BisectVerdict

if TYPE_CHECKING:
    from bisect_diverge.bisector.state import State


def runs_expected(units: int, confidence: float, *, replays: int, mode: str) -> int:
    """Return how many runs a search by repeats takes where there is one cause, and each first sample is enough.

    Args:
        units: How many are moved.
        confidence: Of the whole answer, 0 to 1.
        replays: Replays of A and of B, at least.
        mode: As in `SearchOptions`.
    """
    expected = expected_decisions(units, mode)
    of_each, sample = sample_sizes(confidence, expected, replays)
    return 2 * of_each + expected * sample


def expected_decisions(units: int, mode: str) -> int:
    """Return how many configurations one cause takes between A and B: the chain, and the two that prove it."""
    if units < 2:
        return 0
    return 2 * units if mode == "matrix" else ceil(log2(units)) + 2


def search_by_samples(state: State, confidence: float, *, replays: int, mode: str) -> None:
    """Search again, with samples: what it finds is likely, and no proof.

    Args:
        state: The search so far; what it has found is forgotten.
        confidence: Of the whole answer, 0 to 1.
        replays: Replays of A and of B, at least.
        mode: As in `SearchOptions`.

    Raises:
        Stopped: if the budget is spent.
    """
    _start_anew(state)
    expected = expected_decisions(len(state.units), mode)
    sampler = Sampler(state.bench, state.units, confidence, replays=replays, expected=expected)
    try:
        apart = sampler.tell_apart() or _tell_apart_with_more(state, sampler)
        state.sampling = sampler.told()
        if not apart:
            _alike(state)
            return
        state.notes.append(sampler.spread())
        state.bench.decide_by(sampler.decide)
        state.target = state.bench.value(state.units)
        (fill if mode == "matrix" else explain)(state)
    except CannotRunError:
        _leave_open(state, "a replay of A or of B does not run: nothing can be compared")
    except NotDecidedError as reason:
        _leave_open(state, f"the search by repeats stopped: {reason}")
        state.remedies.append(f"--repeat {2 * sampler.replays}")
    finally:
        state.sampling = sampler.told()


def _start_anew(state: State) -> None:
    state.units = state.all_of_b or state.units
    state.verdict, state.target, state.complete, state.doubtful, state.why = None, None, False, False, ""
    for found in (state.found, state.covered, state.aside, state.explained, state.replays_of_a, state.replays_of_b):
        found.clear()
    state.taken_apart.clear()
    state.remedies.clear()
    state.bench.finer.clear()
    state.bench.steps.clear()


def _tell_apart_with_more(state: State, sampler: Sampler) -> bool:
    """Move too what B has beside its requested inputs, where these alone do not tell it from A."""
    oracle = state.bench.oracle
    if not isinstance(oracle, CompletingOracle) or not state.units:
        return False
    more, cannot = oracle.left_over(frozenset(state.units))
    state.untestable += cannot
    if not more:
        return False
    state.units = ordered((*state.units, *more))
    sampler.extend(state.units)
    return sampler.tell_apart()


def _leave_open(state: State, why: str) -> None:
    state.verdict, state.complete, state.why = BisectVerdict.INCONCLUSIVE, False, why
    state.notes.append(why)


def _alike(state: State) -> None:
    sampling = state.sampling
    assert sampling is not None
    _leave_open(
        state,
        f"A and B cannot be told apart from what repeats of A alone show ({sampling.replays} replays of each, chance "
        f"{sampling.chance:.2g}): there may be nothing to explain; more replays see smaller differences",
    )
    state.remedies.append(f"--repeat {2 * sampling.replays}")
