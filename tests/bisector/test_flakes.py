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
from bisect_diverge.model.trial import BisectVerdict, Outcome, Role, SearchOptions, Trial, Unit

EIGHT = supposed_units(8)
X, Y = EIGHT[2], EIGHT[6]


@dataclass
class Flaking:
    """A world of which one trial, by its number, has bits of its own."""

    world: World
    flake: Callable[[int, frozenset[Unit], int], bool]
    made: int = 0

    def __call__(self, swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
        """Return the world's trial, or the flake."""
        self.made += 1
        trial = self.world(swapped, repeat=repeat)
        flake = self.flake(self.made, swapped, repeat)
        return replace(trial, outcome=Outcome.OTHER, signature=f"flake {self.made}") if flake else trial


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
