"""Finds a smallest set of units that makes a value by itself: change points, their partners, nothing else."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from bisect_diverge.bisector.bench import A
from bisect_diverge.bisector.chain import Chain, boundary, change_points, without

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.bisector.bench import Bench
    from bisect_diverge.model.trial import Unit


def sufficient_set(
    bench: Bench, units: tuple[Unit, ...], target: str, pinned: frozenset[Unit] = frozenset()
) -> tuple[tuple[Unit, ...], tuple[Unit, ...]]:
    """Return a set of units that makes `target`, and the change points that were met but have no part in it.

    The set is 1-minimal (Zeller and Hildebrandt 2002): without any one of its units the value is another one, or
    does not run.

    Args:
        bench: Runs trials.
        units: Where to look; all of them together make `target`, none of them does not.
        target: The value to reach.
        pinned: Units that are swapped in every trial and are no part of the answer.
    """
    points = change_points(Chain(bench, units, pinned))
    met = tuple(unit for point in points for unit in point.units)
    chosen = _single(bench, [point.units for point in points], target, pinned)
    if chosen is None:
        for point in points:
            bench.sure(pinned.union(point.units))
        chosen = _completed(bench, met, without(points[-1].before, met), target, pinned)
    smallest = minimal(bench, chosen, target, pinned)
    single = tuple(point.units[0] for point in points if len(point.units) == 1)
    return tuple(unit for unit in units if unit in smallest), without(single, smallest)


def _single(
    bench: Bench, points: Sequence[tuple[Unit, ...]], target: str, pinned: frozenset[Unit]
) -> tuple[Unit, ...] | None:
    """Return the first change point that makes the target alone."""
    values = bench.values(pinned.union(point) for point in points)
    return next((point for point, value in zip(points, values, strict=True) if value == target), None)


def _completed(
    bench: Bench, chosen: tuple[Unit, ...], earlier: tuple[Unit, ...], target: str, pinned: frozenset[Unit]
) -> tuple[Unit, ...]:
    """Return the change points with the partners that they need from among the units before the last of them.

    The last unit of the shortest prefix that makes the others matter is a partner; it is pinned and the search
    repeated, as Go's bisect does: one binary search for each partner.
    """
    while bench.value(pinned.union(chosen)) != target:
        point = boundary(Chain(bench, earlier, pinned.union(chosen)), target)
        chosen += point.units
        earlier = point.before
    return chosen


def minimal(
    bench: Bench, chosen: tuple[Unit, ...], target: str, pinned: frozenset[Unit] = frozenset()
) -> tuple[Unit, ...]:
    """Return what is left of a set that makes `target` when whatever can be left out is left out.

    Tried one by one until nothing more can go, then two by two among units that change A alone: two that cancel
    each other cannot be left out one at a time.
    """
    before: tuple[Unit, ...] = ()
    while chosen != before:
        before = chosen
        for unit in before:
            chosen = _left_out(bench, chosen, (unit,), target, pinned)
    if len(chosen) > 2:  # of three, the change points among them were run alone, which is enough
        alone = bench.value if len(chosen) > 3 else bench.known
        active = [unit for unit in chosen if alone(pinned.union((unit,))) not in {A, None}]
        for pair in combinations(active, 2):
            smaller = _left_out(bench, chosen, pair, target, pinned)
            if smaller != chosen:
                return minimal(bench, smaller, target, pinned)
    alone_enough = ((unit,) for unit in chosen if bench.known(pinned.union((unit,))) == target)
    return next(alone_enough, chosen)


def _left_out(
    bench: Bench, chosen: tuple[Unit, ...], some: tuple[Unit, ...], target: str, pinned: frozenset[Unit]
) -> tuple[Unit, ...]:
    """Return the set without some units if it makes the target without them, else as it is."""
    rest = without(chosen, some)
    return rest if rest and bench.value(pinned.union(rest)) == target else chosen
