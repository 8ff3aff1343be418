"""Random truths: is the answer right, and what does it cost?"""

from __future__ import annotations

import math
import random
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import pytest

from benchmarks.bisect_counts import SHAPES, acting, world_of
from bisect_diverge.bisector.search import bisect
from bisect_diverge.bisector.supposed import World, supposed_units
from bisect_diverge.model.trial import Bisection, BisectVerdict, Outcome, Role, SearchOptions, Unit

TRUTHS = [100, pytest.param(400, marks=pytest.mark.matrix)]
"""Random truths of a family: some each time, all of the table in the long series."""
EIGHT = supposed_units(8)
MOST = {
    "one cause": 9,
    "two independent": 19,
    "A and B": 18,
    "A or B": 16,
    "pair and single": 31,
    "(A and B) or (C and D)": 36,
}
"""Most trials among eight units, those included that make sure of A, of B and of what several units do not do alone."""


def truths(name: str, units: tuple[Unit, ...], number: int) -> list[World]:
    """Return random worlds of one shape, the same in every test run."""
    rng = random.Random(f"{name} {len(units)}")
    return [world_of(SHAPES[name], units, rng) for _ in range(number)]


def blamed(result: Bisection) -> set[Unit]:
    """Return the units of all causes but the covered ones."""
    return {unit for cause in result.causes if cause.role is not Role.MASKED for unit in cause.units}


def mattering(world: World) -> set[Unit]:
    """Return the units that, in some configuration that runs, make the difference between B and something else.

    ``A and (B or C)`` where A does not run without B: no trial there is could show what C does.
    """
    everywhere = world.bits(frozenset(world.units))
    every = (frozenset(s) for number in range(len(world.units) + 1) for s in combinations(world.units, number))
    runs = {s for s in every if not any(unit in s and other not in s for unit, other in world.needs)}
    b = {s for s in runs if world.bits(s) == everywhere}
    return {unit for s in b for unit in s if s - {unit} in runs - b}


def assert_honest(world: World, result: Bisection) -> None:
    """Check what must hold of every answer, right or not."""
    everywhere = world.bits(frozenset(world.units))
    for cause in result.causes:
        if cause.sufficient:
            assert world.bits(frozenset(cause.units)) == everywhere
        if cause.necessary:
            assert not world.bits(frozenset(world.units) - frozenset(cause.units))
    wronged = acting(world) & set(result.innocent)
    assert not wronged or not wronged & mattering(world)
    made = Counter(frozenset(trial.swapped) for trial in result.trials)
    flaky = sum(trial.outcome is Outcome.FLAKY for trial in result.trials)
    again = made.total() - len(made)
    assert max(made.values()) <= 3 + flaky  # A and B; once more what an answer with several units rests on
    assert again <= made.total() // 3 + 4 + 2 * flaky
    if len(acting(world)) == 1 and not world.needs and not flaky:
        assert again <= 3  # A and B again; the check that other bits are no noise
    assert [trial.n for trial in result.trials] == list(range(1, len(result.trials) + 1))


@pytest.mark.parametrize("number", TRUTHS)
@pytest.mark.parametrize("name", SHAPES)
def test_among_eight(name: str, number: int) -> None:
    """Among eight units exactly the acting ones are blamed, the rest is innocent, within the bounds."""
    for world in truths(name, EIGHT, number):
        result = bisect(EIGHT, world)

        assert_honest(world, result)
        assert blamed(result) == acting(world)
        assert result.verdict is BisectVerdict.CAUSE
        assert result.finished
        assert len(result.trials) <= MOST.get(name, 38)
        others = set(EIGHT) - blamed(result)
        covered = {unit for cause in result.causes if cause.role is Role.MASKED for unit in cause.units}
        assert set(result.innocent) == others - covered


@pytest.mark.parametrize("number", TRUTHS)
@pytest.mark.parametrize("name", SHAPES)
def test_among_64(name: str, number: int) -> None:
    """Among 64 units exactly the acting ones are blamed."""
    units = supposed_units(64)
    often = name in {"one cause", "two independent", "A and B", "A or B"}
    for world in truths(name, units, number if often else number // 8):
        result = bisect(units, world)

        assert_honest(world, result)
        assert blamed(result) == acting(world)
        assert len(result.trials) <= {"one cause": 12, "A and B": 24}.get(name, 66)


@pytest.mark.parametrize("number", range(1, 18))
def test_one_cause_at_every_place(number: int) -> None:
    """One cause among n units costs at most 4 + ceil(log2 n) trials, the controls included, and two repeats."""
    units = supposed_units(number)
    for unit in units:
        world = world_of(("a",), (unit,), random.Random(0))
        result = bisect(units, replace(world, units=units))

        (cause,) = result.causes
        assert cause.units == (unit,)
        assert (cause.role, cause.sufficient, cause.necessary) == (Role.CAUSE, True, True)
        assert len(result.trials) <= 6 + math.ceil(math.log2(number))


@pytest.mark.parametrize("number", TRUTHS)
@pytest.mark.parametrize("name", SHAPES)
def test_with_skips(name: str, number: int) -> None:
    """Where some mixes do not run, every acting unit is blamed, and beside them only what cannot be told apart."""
    rng = random.Random(name)
    counts = []
    for world in truths(name, EIGHT, number):
        pairs = [tuple(rng.sample(EIGHT, 2)) for _ in range(2)]
        coupled_world = replace(world, needs=tuple(pairs))
        result = bisect(EIGHT, coupled_world)

        assert_honest(coupled_world, result)
        coupled = {unit for pair in pairs for unit in pair}
        cancelling = {u for effect in world.effects if effect.cancels for a in effect.alternatives for u in a}
        assert blamed(result) - acting(world) <= coupled | cancelling
        if len(acting(world)) == 1:
            assert result.verdict is BisectVerdict.CAUSE
            assert acting(world) <= blamed(result)
            counts.append(len(result.trials))
    if name == "one cause":
        assert sum(counts) / len(counts) < 15
        assert max(counts) <= 40


@pytest.mark.parametrize("number", TRUTHS)
@pytest.mark.parametrize("name", SHAPES)
def test_with_inert_units(name: str, number: int) -> None:
    """Units that move nothing at all are listed as inert: never blamed, never innocent."""
    for world in truths(name, EIGHT, number):
        dead = frozenset(set(EIGHT) - {u for e in world.effects for a in e.alternatives for u in a})
        result = bisect(EIGHT, replace(world, dead=frozenset(sorted(dead, key=str)[:2])))

        assert blamed(result) == acting(world)
        assert {row.unit for row in result.inert} == set(sorted(dead, key=str)[:2])
        assert not {row.unit for row in result.inert} & set(result.innocent)


def noisy(seed: int, share: float, *, lasting: bool) -> Callable[[frozenset[Unit], int], bool]:
    """Return a rule that makes a share of the mixed configurations flaky, once or always."""

    def flaky(swapped: frozenset[Unit], repeat: int) -> bool:
        if not swapped or swapped == frozenset(EIGHT):
            return False
        chance = zlib.crc32(f"{seed} {sorted(map(str, swapped))}".encode()) / 2**32
        return chance < share and (lasting or repeat == 0)

    return flaky


@pytest.mark.parametrize("number", TRUTHS)
@pytest.mark.parametrize("name", SHAPES)
def test_with_passing_noise(name: str, number: int) -> None:
    """A configuration that is flaky once is run again, and the answer is the same."""
    for seed, world in enumerate(truths(name, EIGHT, number)):
        result = bisect(EIGHT, replace(world, flaky=noisy(seed, 0.3, lasting=False)))

        assert_honest(world, result)
        assert blamed(result) == acting(world)


@pytest.mark.parametrize("number", TRUTHS)
@pytest.mark.parametrize("name", SHAPES)
def test_with_lasting_noise(name: str, number: int) -> None:
    """Configurations that are always flaky widen the answer or leave it open, and never make it false."""
    proved = 0
    for seed, world in enumerate(truths(name, EIGHT, number)):
        result = bisect(EIGHT, replace(world, flaky=noisy(seed, 0.15, lasting=True)))

        assert_honest(world, result)
        proved += result.verdict is BisectVerdict.CAUSE
    assert proved > number // 2


def test_matrix() -> None:
    """One cause takes 2n + 2 trials and two repeats in the matrix, with any number of trials at a time."""
    for jobs in (1, 4):
        for world in truths("one cause", EIGHT, 20):
            result = bisect(EIGHT, world, SearchOptions(mode="matrix", jobs=jobs))

            assert_honest(world, result)
            assert blamed(result) == acting(world)
            assert len(result.trials) == 20
            assert set(result.innocent) == set(EIGHT) - acting(world)


@pytest.mark.parametrize("name", ["two independent", "A and B", "A or B", "pair and single", "three together"])
def test_matrix_of_several(name: str) -> None:
    """The matrix finds several causes and partners, for some trials more."""
    for world in truths(name, EIGHT, 100):
        result = bisect(EIGHT, world, SearchOptions(mode="matrix"))

        assert_honest(world, result)
        assert blamed(result) == acting(world)
        assert result.verdict is BisectVerdict.CAUSE


def test_matrix_does_not_see_doubles_with_partners() -> None:
    """What needs a partner and has a double is left open by the matrix, which says so and blames nobody."""
    for world in truths("(A and B) or (C and D)", EIGHT, 50):
        result = bisect(EIGHT, world, SearchOptions(mode="matrix"))

        assert result.verdict is BisectVerdict.INCONCLUSIVE
        assert not result.causes
        assert any("--mode chain" in note for note in result.notes)
        assert not result.innocent
