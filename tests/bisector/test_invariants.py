"""What holds of every bisection, whatever the truth: checked over worlds that hypothesis makes up."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from bisect_diverge.bisector.search import bisect
from bisect_diverge.bisector.stand_ins import minimal_hitting_sets
from bisect_diverge.bisector.supposed import Effect, World, supposed_units
from bisect_diverge.model.trial import BisectVerdict, Budget, Outcome, Role, SearchOptions, Unit


@st.composite
def worlds(draw: Callable, *, cancelling: bool) -> World:
    """Return a world of up to four effects of up to three alternatives of up to three units each."""
    units = supposed_units(draw(st.integers(1, 10)))
    some = st.frozensets(st.sampled_from(units), min_size=1, max_size=3)
    alternatives = st.lists(some, min_size=1, max_size=3, unique=True).map(tuple)
    effect = st.builds(Effect, alternatives, st.booleans() if cancelling else st.just(False))
    return World(units=units, effects=tuple(draw(st.lists(effect, max_size=4))))


def smallest_sets(world: World) -> set[frozenset[Unit]]:
    """Return all smallest sets that make B in a world in which nothing cancels, from its effects."""
    found = {frozenset[Unit]()}
    for effect in world.effects:
        found = {one | alternative for one in found for alternative in effect.alternatives}
    return {one for one in found if not any(other < one for other in found)}


@settings(max_examples=300, deadline=None)
@given(worlds(cancelling=True))
def test_causes_make_b(world: World) -> None:
    """A cause makes B, none of its units can be left out, and units without any effect are never blamed."""
    everywhere = world.bits(frozenset(world.units))
    result = bisect(world.units, world)

    for cause in result.causes:
        chosen = frozenset(cause.units)
        sufficient = world.bits(chosen) == everywhere
        necessary = not world.bits(frozenset(world.units) - chosen)
        if cause.role in {Role.MASKED, Role.STARTS}:  # shown by the way, or not at all
            assert not cause.sufficient
            assert not sufficient
            assert necessary or not cause.necessary
        else:
            assert (cause.sufficient, cause.necessary) == (sufficient, necessary)
        if cause.sufficient:
            assert not any(world.bits(chosen - {unit}) == everywhere for unit in chosen)
    acting = {unit for effect in world.effects for one in effect.alternatives for unit in one}
    assert {unit for cause in result.causes for unit in cause.units} <= acting
    assert (result.verdict is BisectVerdict.CAUSE) == bool(everywhere)


@settings(max_examples=300, deadline=None)
@given(worlds(cancelling=False))
def test_every_smallest_set_is_found(world: World) -> None:
    """Where nothing cancels, all smallest sets are found, and exactly the units in none of them are innocent."""
    truth = smallest_sets(world)
    result = bisect(world.units, world)
    found = {frozenset(cause.units) for cause in result.causes if cause.sufficient}

    assert found <= truth
    if any(truth) and "more ways" not in "".join(result.notes):
        assert found == truth
    assert not set(result.innocent) & {unit for one in found for unit in one}
    if result.innocent and any(truth):
        assert not set(result.innocent) & {unit for one in truth for unit in one}


@settings(max_examples=200, deadline=None)
@given(worlds(cancelling=True), st.integers(0, 30))
def test_a_stopped_search_is_honest(world: World, most: int) -> None:
    """A search that is cut off keeps to its budget, and says nothing that the whole one would take back."""
    everywhere = world.bits(frozenset(world.units))
    result = bisect(world.units, world, SearchOptions(budget=Budget(trials=most)))

    assert len(result.trials) <= most
    for cause in result.causes:
        assert not cause.sufficient or world.bits(frozenset(cause.units)) == everywhere
        assert not cause.necessary or not world.bits(frozenset(world.units) - frozenset(cause.units))
    if not result.finished and result.verdict is BisectVerdict.CAUSE:
        assert any(cause.sufficient and cause.necessary for cause in result.causes)


@settings(max_examples=100, deadline=None)
@given(worlds(cancelling=True), st.sampled_from([1, 3]))
def test_the_matrix_is_honest(world: World, jobs: int) -> None:
    """The matrix may leave things open, and what it claims holds."""
    everywhere = world.bits(frozenset(world.units))
    result = bisect(world.units, world, SearchOptions(mode="matrix", jobs=jobs))

    assert all(trial.outcome is not Outcome.SKIP for trial in result.trials)
    for cause in result.causes:
        if cause.role not in {Role.MASKED, Role.STARTS}:
            assert cause.sufficient == (world.bits(frozenset(cause.units)) == everywhere)


def test_hitting_sets() -> None:
    """Minimal hitting sets share a unit with every set, and none contains another."""
    a, b, c, d = supposed_units(4)

    assert set(minimal_hitting_sets([(a, b), (a, c)])) == {frozenset({a}), frozenset({b, c})}
    assert set(minimal_hitting_sets([(a, b), (c, d)])) == {frozenset(h) for h in ((a, c), (a, d), (b, c), (b, d))}
    assert minimal_hitting_sets([(a,), (b,)]) == [frozenset({a, b})]
