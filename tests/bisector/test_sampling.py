"""Searches by repeats where no run has the same bits twice: how often they are right, and what they admit."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bisect_diverge.bisector.sampling import runs_expected
from bisect_diverge.bisector.search import bisect
from bisect_diverge.bisector.supposed import Effect, World, supposed_units
from bisect_diverge.model.sampling import SAMPLED
from bisect_diverge.model.trial import (
    Bisection,
    BisectVerdict,
    Budget,
    Outcome,
    Role,
    SearchOptions,
    Trial,
    Unit,
)

EIGHT = supposed_units(8)
CAUSE = EIGHT[3]
ASKED = SearchOptions(confidence=0.95)


@dataclass
class Noisy:
    """A world of which every run lies a little beside where its configuration is between A (0) and B (1)."""

    world: World
    seed: int = 0
    noise_a: float = 0.2
    """Width of the noise of a configuration without effect; 0: it has A's bits each time."""
    noise_b: float = 0.2
    """The same with an effect."""
    flakes: float = 1.0
    """How often there is noise."""
    apart: float = 1.0
    """How far the effects move it towards B."""
    asked: Counter[tuple[frozenset[Unit], int]] = field(default_factory=Counter)

    def __call__(self, swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
        """Return a trial with its own bits, unless there is no noise in it."""
        self.asked[swapped, repeat] += 1
        there, everywhere = len(self.world.bits(swapped)), len(self.world.bits(frozenset(self.world.units)))
        share = self.apart * there / everywhere if everywhere else 0.0
        rng = random.Random(f"{self.seed} {sorted(map(str, swapped))} {repeat}")
        width = self.noise_b if there else self.noise_a
        flake = width > 0 and rng.random() < self.flakes
        known = self.world(swapped)
        if not flake:
            return replace(known, nearness=share)
        nearness = min(1.0, max(0.0, share + width * (rng.random() - 0.5) + 1e-6))
        return replace(
            known, outcome=Outcome.OTHER, signature=f"{sorted(map(str, swapped))} {repeat}", nearness=nearness
        )


def one(*cause: Unit) -> World:
    """Return a world with one effect of some units together."""
    return World(units=EIGHT, effects=(Effect((frozenset(cause),)),))


def named(result: Bisection) -> set[frozenset[Unit]]:
    """Return the sets that are blamed."""
    return {frozenset(cause.units) for cause in result.causes if cause.role is not Role.MASKED}


@pytest.mark.parametrize(("noise_a", "noise_b"), [(0.2, 0.2), (0.0, 0.8), (0.8, 0.0)])
def test_a_likely_cause_is_named_and_no_more_is_claimed(noise_a: float, noise_b: float) -> None:
    """Noise on both sides, or only one that the cause brings or takes away: confidence and runs are told."""
    result = bisect(EIGHT, Noisy(one(CAUSE), noise_a=noise_a, noise_b=noise_b), ASKED)

    assert result.verdict is BisectVerdict.LIKELY
    assert named(result) == {frozenset({CAUSE})}
    assert not result.innocent
    sampling = result.sampling
    assert sampling is not None
    assert sampling.confidence >= 0.95
    assert sampling.runs <= 31
    assert all(d.like in "AB" and min(d.chance_a, d.chance_b) < 0.01 for d in sampling.decisions)
    samples = [trial.n for trial in result.trials if trial.nearness is not None]
    assert {n for d in sampling.decisions for n in d.trials} <= set(samples)
    assert set(result.causes[0].proof) <= {d.trials[0] for d in sampling.decisions}
    assert any(note.startswith("no effect was seen of") for note in result.notes)
    assert any("told apart by how far they are on the way" in note for note in result.notes)


@pytest.mark.parametrize(("units", "mode", "runs"), [(1, "chain", 12), (8, "chain", 31), (3, "matrix", 36)])
def test_the_price_is_what_is_paid_where_each_first_sample_is_enough(units: int, mode: str, runs: int) -> None:
    """For one cause."""
    assert runs_expected(units, 0.95, replays=1, mode=mode) == runs


def test_it_costs_nothing_where_it_is_not_needed_or_not_asked_for() -> None:
    """A run that repeats itself is searched as ever; without the option a noisy one ends as ever, and names it."""
    calm = bisect(EIGHT, Noisy(one(CAUSE), noise_a=0, noise_b=0), ASKED)
    assert (calm.verdict, len(calm.trials), calm.sampling) == (BisectVerdict.CAUSE, 9, None)
    noisy = bisect(EIGHT, Noisy(one(CAUSE)))
    assert (noisy.verdict, len(noisy.trials)) == (BisectVerdict.NOT_REPEATABLE, 2)
    assert noisy.remedies == ("--confidence 95",)


def test_a_single_unit_is_told_from_the_two_sides_alone() -> None:
    """With nothing between A and B, all that is asked is whether they differ by more than noise."""
    unit = EIGHT[:1]
    world = World(units=unit, effects=(Effect((frozenset(unit),)),))
    result = bisect(unit, Noisy(world), ASKED)
    assert (result.verdict, named(result)) == (BisectVerdict.LIKELY, {frozenset(unit)})
    assert result.causes[0].necessary


def test_what_is_no_larger_than_the_noise_is_not_explained() -> None:
    """A and B that differ in nothing but luck are not told apart, and nothing is blamed."""
    result = bisect(EIGHT, Noisy(World(units=EIGHT, effects=())), ASKED)
    assert (result.verdict, result.causes) == (BisectVerdict.INCONCLUSIVE, ())
    assert result.sampling is not None
    assert not result.sampling.apart
    assert any("cannot be told apart from what repeats of A alone show" in note for note in result.notes)


def test_a_flake_that_only_some_replays_show() -> None:
    """More replays see it, and a rare flake does not keep the search from its answer."""
    options = SearchOptions(confidence=0.95, budget=Budget(repeats=12))
    result = bisect(EIGHT, Noisy(one(CAUSE), seed=3, noise_b=0.4, noise_a=0.4, flakes=0.2), options)
    assert (result.verdict, named(result)) == (BisectVerdict.LIKELY, {frozenset({CAUSE})})
    assert result.sampling is not None
    assert result.sampling.replays >= 12


def test_the_budget_holds_and_samples_are_asked_for_by_number() -> None:
    """A spent budget ends it with what is known; no sample is made twice, so that a journal can answer it."""
    for most in (3, 10, 20, 25, 30):
        oracle = Noisy(one(CAUSE))
        result = bisect(EIGHT, oracle, replace(ASKED, budget=Budget(trials=most)))
        assert len(result.trials) <= most
        assert result.verdict is BisectVerdict.INCONCLUSIVE
        assert not result.finished
        assert max(oracle.asked.values()) == 1
    assert {repeat >= SAMPLED for _, repeat in oracle.asked} == {True, False}


def test_a_configuration_that_does_not_run_is_no_sample() -> None:
    """It is stepped over like anywhere else."""
    world = replace(one(CAUSE), needs=((EIGHT[2], EIGHT[5]),))
    result = bisect(EIGHT, Noisy(world), ASKED)
    assert result.verdict is BisectVerdict.LIKELY
    assert any(CAUSE in units for units in named(result))


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.sampled_from(EIGHT), st.floats(0.05, 0.9))
def test_the_cause_is_found_wherever_it_is(seed: int, cause: Unit, width: float) -> None:
    """Whatever the noise, as long as A and B are further apart than it is wide."""
    result = bisect(EIGHT, Noisy(one(cause), seed=seed, noise_a=width, noise_b=width), ASKED)
    assert result.verdict is BisectVerdict.LIKELY
    assert named(result) == {frozenset({cause})}


def wrong(world: World, truth: set[frozenset[Unit]], runs: int, **noise: float) -> tuple[int, int]:
    """Return how often something else is told as likely, and how often an answer is given at all."""
    results = [bisect(world.units, Noisy(world, seed=seed, **noise), ASKED) for seed in range(runs)]
    likely = [named(result) for result in results if result.verdict is BisectVerdict.LIKELY]
    return sum(not found <= truth for found in likely), len(likely)


@pytest.mark.parametrize(("width", "least"), [(0.9, 60), (1.6, 20), (3.0, 0)])
def test_no_more_answers_are_wrong_than_it_says(width: float, least: int) -> None:
    """At any width of the noise, of sixty searches at most three blame another unit; wide noise costs answers."""
    false, likely = wrong(one(CAUSE), {frozenset({CAUSE})}, 60, noise_a=width, noise_b=width)
    assert false <= 3
    assert likely >= least


def test_partners_are_told_with_what_confidence_is_left() -> None:
    """Two units that act only together take more decisions than were counted on: the confidence falls, and is told."""
    pair = frozenset({EIGHT[1], EIGHT[6]})
    result = bisect(EIGHT, Noisy(one(*pair)), ASKED)
    assert (result.verdict, named(result)) == (BisectVerdict.LIKELY, {pair})
    assert result.sampling is not None
    assert 0.8 < result.sampling.confidence < 0.95


@dataclass
class Completing(Noisy):
    """B has something beside its requested inputs."""

    beside: Unit = EIGHT[7]

    def left_over(self, swapped: frozenset[Unit]) -> tuple[tuple[Unit, ...], tuple[()]]:
        """Return it, once all requested inputs are swapped."""
        assert swapped == frozenset(EIGHT[:7])
        return (self.beside,), ()


def test_what_b_has_beside_its_requested_inputs_is_moved_too() -> None:
    """Where these alone are like A, the rest of B is looked at: one decision more."""
    result = bisect(EIGHT[:7], Completing(one(EIGHT[7])), ASKED)
    assert (result.verdict, named(result)) == (BisectVerdict.LIKELY, {frozenset({EIGHT[7]})})
    assert result.sampling is not None
    assert result.sampling.confidence < 0.95


def test_the_matrix_by_samples() -> None:
    """Each unit alone and each put back: more decisions, which are counted on."""
    few = EIGHT[:3]
    world = World(units=few, effects=(Effect((frozenset({few[1]}),)),))
    result = bisect(few, Noisy(world), SearchOptions(mode="matrix", jobs=2, confidence=0.95))
    assert (result.verdict, named(result)) == (BisectVerdict.LIKELY, {frozenset({few[1]})})
    assert result.sampling is not None
    assert result.sampling.confidence >= 0.95


def test_a_side_that_does_not_run_cannot_be_compared() -> None:
    """A replay of A fails among its samples: said, nothing concluded."""

    def broken(swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
        if not swapped and repeat > SAMPLED:
            return Trial(n=0, base="a", swapped=(), outcome=Outcome.SKIP, reason="out of memory")
        return noisy(swapped, repeat=repeat)

    noisy = Noisy(one(CAUSE))
    result = bisect(EIGHT, broken, ASKED)
    assert (result.verdict, result.causes) == (BisectVerdict.INCONCLUSIVE, ())
    assert "a replay of A or of B does not run: nothing can be compared" in result.notes


@dataclass
class Numbered(Noisy):
    """A world of which nothing but one of the recorded numbers, which falls, shows the effect behind the noise."""

    shows: bool = True

    def __call__(self, swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
        """Return a trial with numbers of its own."""
        rng = random.Random(f"{self.seed} numbers {sorted(map(str, swapped))} {repeat}")
        numbers = [rng.random() for _ in range(15)]
        numbers[9] -= 1.5 * self.shows * len(self.world.bits(swapped))
        return replace(super().__call__(swapped, repeat=repeat), nearness=rng.random(), numbers=tuple(numbers))


def test_one_of_many_numbers_tells_a_from_b() -> None:
    """Which one is found in the replays of A and B; that many were looked at counts against the chance."""
    results = [bisect(EIGHT, Numbered(one(CAUSE), seed=seed), ASKED) for seed in range(30)]
    likely = [named(result) for result in results if result.verdict is BisectVerdict.LIKELY]
    assert len(likely) > 25
    assert sum(sets != {frozenset({CAUSE})} for sets in likely) <= 2
    chances = [result.sampling.chance for result in results if result.sampling is not None]
    assert min(chances) == pytest.approx(31 / comb(16, 8))
    assert any("told apart by number 10 of each: 0." in note for note in results[0].notes)


def test_many_numbers_of_noise_tell_nothing() -> None:
    """Where none shows anything, A and B are told apart no more often than the confidence allows."""
    results = [bisect(EIGHT, Numbered(one(CAUSE), seed=seed, shows=False), ASKED) for seed in range(60)]
    assert sum(result.verdict is BisectVerdict.LIKELY for result in results) <= 3
