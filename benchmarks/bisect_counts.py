"""Counts the trials of a bisection over random truths: how many on average and at most, and how often it is right.

An oracle whose causes are known answers; nothing is run. Right means: exactly the units that make B's bits are
named, the others are not, and for two that do the same either is.

    python benchmarks/bisect_counts.py
    python benchmarks/bisect_counts.py --truths 1000 --units 8
"""

from __future__ import annotations

import argparse
import random
import time

from bisect_diverge.bisector.price import price
from bisect_diverge.bisector.search import bisect
from bisect_diverge.bisector.supposed import Effect, World, supposed_units
from bisect_diverge.model.trial import Role, SearchOptions, Unit

SHAPES = {
    "one cause": ("a",),
    "two independent": ("a", "b"),
    "A and B": ("ab",),
    "A or B": ("a|b",),
    "cancelling, one cause": ("a", "b^c"),
    "cancelling, pair": ("ab", "c^d"),
    "pair and single": ("ab", "c"),
    "A and (B or C)": ("ab|ac",),
    "A and (B or C or D)": ("ab|ac|ad",),
    "(A and B) or (C and D)": ("ab|cd",),
    "three independent": ("a", "b", "c"),
    "three together": ("abc",),
}
"""Effects of a truth: letters are units, ``|`` alternatives, ``^`` alternatives that undo each other."""


def world_of(shape: tuple[str, ...], units: tuple[Unit, ...], rng: random.Random) -> World:
    """Return a world of this shape with random units in its places."""
    letters = sorted({letter for effect in shape for letter in effect if letter.isalpha()})
    place = dict(zip(letters, rng.sample(units, len(letters)), strict=True))
    effects = []
    for effect in shape:
        parts = effect.replace("^", "|").split("|")
        alternatives = tuple(frozenset(place[letter] for letter in part) for part in parts)
        effects.append(Effect(alternatives, cancels="^" in effect))
    return World(units=units, effects=tuple(effects))


def acting(world: World) -> set[Unit]:
    """Return the units that have part in the difference of A and B."""
    everywhere = world.bits(frozenset(world.units))
    return {
        unit
        for tag, effect in enumerate(world.effects)
        if tag in everywhere
        for alternative in effect.alternatives
        for unit in alternative
    }


def right(world: World, mode: str = "chain") -> tuple[bool, int]:
    """Return whether a bisection of this world is right, and how many trials it took."""
    result = bisect(world.units, world, SearchOptions(mode=mode))
    blamed = {unit for cause in result.causes if cause.role is not Role.MASKED for unit in cause.units}
    return blamed == acting(world), len(result.trials)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--truths", type=int, default=400)
    parser.add_argument("--units", type=int, nargs="*", default=[8, 64])
    parser.add_argument("--mode", default="chain", choices=["chain", "matrix"])
    given = parser.parse_args()
    for number in given.units:
        units = supposed_units(number)
        cost = price(units, SearchOptions(mode=given.mode)).to_json()
        begin = time.perf_counter()
        print(f"n={number}, {given.mode}, {given.truths} random truths each; price {cost}")
        print(f"  {'truth':<24} {'trials':>7} {'most':>5} {'right':>6}")
        for name, shape in SHAPES.items():
            rng = random.Random(f"{name} {number}")
            runs = [right(world_of(shape, units, rng), given.mode) for _ in range(given.truths)]
            counts = [count for _, count in runs]
            share = 100 * sum(good for good, _ in runs) / len(runs)
            print(f"  {name:<24} {sum(counts) / len(counts):>7.1f} {max(counts):>5} {share:>5.0f}%")
        print(f"  {time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main()
