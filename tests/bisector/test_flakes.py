"""One trial of a search shows noise: nothing that did not happen is blamed, and both answers are told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bisect_diverge.bisector.search import bisect
from bisect_diverge.bisector.supposed import Effect, World, supposed_units
from bisect_diverge.model.trial import BisectVerdict, Budget, Outcome, Role, SearchOptions, Trial, Unit
from tests.bisector.test_invariants import smallest_sets, worlds

EIGHT = supposed_units(8)
X, Y = EIGHT[2], EIGHT[6]


@dataclass
class Flaking:
    """A world of which one trial, by its number, has bits of its own, or fails."""

    world: World
    flake: Callable[[int, frozenset[Unit], int], bool]
    fails: bool = False
    made: int = 0

    def __call__(self, swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
        """Return the world's trial, or the flake."""
        self.made += 1
        trial = self.world(swapped, repeat=repeat)
        if not self.flake(self.made, swapped, repeat) or trial.outcome is Outcome.SKIP:
            return trial
        if self.fails:
            return replace(trial, outcome=Outcome.SKIP, reason="out of memory")
        return replace(trial, outcome=Outcome.OTHER, signature=f"flake {self.made}")


def world(*effects: tuple[frozenset[Unit], ...]) -> World:
    """Return a world of these effects, each of some alternatives."""
    return World(units=EIGHT, effects=tuple(map(Effect, effects)))


ONE = [world((frozenset({unit}),)) for unit in EIGHT]
PAIRS = [world((frozenset(pair),)) for pair in combinations(EIGHT, 2)]
DOUBLES = [world((frozenset({one}), frozenset({other}))) for one, other in combinations(EIGHT, 2)]
INDEPENDENT = [world((frozenset({one}),), (frozenset({other}),)) for one, other in combinations(EIGHT, 2)]

TRUTHS = [*ONE, *PAIRS, *DOUBLES, *INDEPENDENT]


def smallest(truth: World) -> set[frozenset[Unit]]:
    """Return the smallest sets that make B."""
    found = {frozenset[Unit]()}
    for effect in truth.effects:
        found = {some | alternative for some in found for alternative in effect.alternatives}
    return found


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(TRUTHS) - 1), st.integers(1, 18))
def test_a_flake_anywhere_blames_nothing_that_is_innocent(index: int, number: int) -> None:
    """Whichever trial it is: what is told as a cause makes B, and nothing that has part is called innocent."""
    truth = TRUTHS[index]
    result = bisect(EIGHT, Flaking(truth, lambda made, _swapped, _repeat: made == number))
    if result.verdict is BisectVerdict.CAUSE:
        blamed = {
            frozenset(cause.units) for cause in result.causes if cause.sufficient and cause.role is not Role.STARTS
        }
        assert blamed <= smallest(truth)
        assert not set(result.innocent) & {unit for units in smallest(truth) for unit in units}
    else:
        assert result.notes


@settings(max_examples=200, deadline=None)
@given(worlds(cancelling=False), st.data(), st.integers(1, 24), st.booleans(), st.sampled_from(["chain", "matrix"]))
def test_one_flake_or_failure_in_any_world(
    truth: World, data: st.DataObject, number: int, fails: bool, mode: str
) -> None:
    """With mixes that do not run, too: a cause makes B and holds no bystander, and nobody is innocent untested."""
    two = st.tuples(st.sampled_from(truth.units), st.sampled_from(truth.units))
    truth = replace(truth, needs=tuple(data.draw(st.lists(two, max_size=2))))
    oracle = Flaking(truth, lambda made, _swapped, _repeat: made == number, fails)
    result = bisect(truth.units, oracle, SearchOptions(mode=mode))
    everywhere, whole = truth.bits(frozenset(truth.units)), frozenset(truth.units)
    for cause in result.causes:
        chosen = frozenset(cause.units)
        assert not cause.sufficient or truth.bits(chosen) == everywhere
        assert not cause.necessary or not truth.bits(whole - chosen)
        if result.verdict is BisectVerdict.CAUSE and cause.sufficient:
            smaller = [chosen - {unit} for unit in chosen]
            assert not any(truth.bits(some) == everywhere and runs(truth, some) for some in smaller)
    tested = {unit for trial in result.trials if trial.outcome is not Outcome.SKIP for unit in trial.swapped}
    assert set(result.innocent) <= tested
    if not truth.needs:
        assert not set(result.innocent) & {unit for units in smallest_sets(truth) for unit in units}


def runs(truth: World, swapped: frozenset[Unit]) -> bool:
    """Whether a configuration runs."""
    return not any(unit in swapped and other not in swapped for unit, other in truth.needs)


def test_a_failure_of_b_that_passes_gives_up_nothing() -> None:
    """B's control fails once, for want of memory: it is run again before a unit is said not to run here."""
    result = bisect(EIGHT, Flaking(ONE[7], lambda made, _swapped, _repeat: made == 2, fails=True))
    assert (result.verdict, result.untestable) == (BisectVerdict.CAUSE, ())
    assert [trial.outcome for trial in result.trials[1:3]] == [Outcome.SKIP, Outcome.B]


def test_a_stand_in_is_not_innocent_for_a_flake() -> None:
    """Beside two others X makes B, or Z does: B without X was other bits once, so that is looked at twice."""
    others, z = frozenset({Y, EIGHT[0]}), EIGHT[3]
    truth = world(*((frozenset({unit}),) for unit in others), (frozenset({X}), others | {z}))
    without_x = frozenset(EIGHT) - {X}
    result = bisect(EIGHT, Flaking(truth, lambda _made, swapped, repeat: swapped == without_x and repeat == 0))
    notes = "\n".join(result.notes)
    assert z not in result.innocent
    assert f"B with {X} put back does not repeat itself: other" in notes
    assert f"whether anything else does the same as {X} cannot be told" in notes


def test_the_matrix_sees_that_something_does_the_same() -> None:
    """X, or Y with Z, where Y changes A by itself too: B without X is B, so that nobody is innocent."""
    z = EIGHT[4]
    truth = world((frozenset({X}), frozenset({Y, z})), (frozenset({X}), frozenset({Y})))
    result = bisect(EIGHT, truth, SearchOptions(mode="matrix"))
    assert (result.verdict, result.innocent) == (BisectVerdict.CAUSE, ())
    assert any("some units together do the same" in note for note in result.notes)


@pytest.mark.parametrize("most", range(12, 40))
def test_a_search_that_ends_among_parts_calls_none_of_them_innocent(most: int) -> None:
    """X is made of four parts, of which one or another does it: until that was looked for, none is innocent."""
    parts = tuple(Unit(layer=X.layer, knob=f"{X.knob}.{n}", a="0", b="1") for n in range(4))
    guilty = (frozenset({parts[0]}), frozenset({parts[3]}), frozenset({X}))
    truth = World(units=EIGHT, effects=(Effect(guilty),))
    options = SearchOptions(budget=Budget(trials=most, repeats=2))
    result = bisect(EIGHT, truth, options, drill=lambda unit: parts if unit == X else ())
    assert parts[0] not in result.innocent
    assert parts[3] not in result.innocent


def test_a_flake_where_the_role_is_told_leaves_two_answers() -> None:
    """X alone did not make B, its repeat did: no partner is looked for among the others, and both answers are told."""
    result = bisect(
        EIGHT, Flaking(world((frozenset({X}),)), lambda _made, swapped, repeat: swapped == {X} and repeat == 0)
    )
    notes = "\n".join(result.notes)
    assert (result.verdict, result.causes, result.innocent) == (BisectVerdict.INCONCLUSIVE, (), ())
    assert f"A with {X} swapped does not repeat itself: other (trial 6), then =B (trial 7)" in notes
    assert f"either {X} without anything else makes B, or it takes a partner to do so" in notes
    assert result.remedies == ("--confidence 95",)


def test_a_flake_that_made_a_partner_of_a_bystander() -> None:
    """X and Y together did not make B, and with a third one they did: the repeat of the two tells, both are told."""
    result = bisect(
        EIGHT, Flaking(world((frozenset({X, Y}),)), lambda _made, swapped, repeat: swapped == {X, Y} and repeat == 0)
    )
    notes = "\n".join(result.notes)
    assert (result.verdict, result.innocent) == (BisectVerdict.INCONCLUSIVE, ())
    assert f"A with {', '.join(sorted(map(str, (X, Y))))} swapped does not repeat itself: other" in notes
    assert "makes B, or" in notes
    assert frozenset({X, Y}) in {frozenset(cause.units) for cause in result.causes}
    assert all(frozenset({X, Y}) <= frozenset(cause.units) for cause in result.causes if cause.role is not Role.MASKED)


@pytest.mark.parametrize("asked", [None, 0.95])
def test_a_flake_goes_on_by_samples_if_they_were_asked_for(asked: float | None) -> None:
    """With a confidence the search by repeats begins where a trial did not repeat itself."""

    def measured(swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
        trial = flaking(swapped, repeat=repeat)
        return replace(trial, nearness=0.9 * bool(flaking.world.bits(swapped)) + 0.001 * repeat % 0.01)

    flaking = Flaking(world((frozenset({X}),)), lambda _made, swapped, repeat: swapped == {X} and repeat == 0)
    result = bisect(EIGHT, measured, SearchOptions(confidence=asked))
    assert result.verdict is (BisectVerdict.INCONCLUSIVE if asked is None else BisectVerdict.LIKELY)
    assert [cause.units for cause in result.causes] == ([] if asked is None else [(X,)])
