"""Steps of one way: commits, releases. Of several that are swapped the last one counts, so that they need care.

A step cannot be swapped without those before it, and where it runs again what was broken before, it brings along what
was changed while it was broken.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bisect_diverge.bisector.bench import A
from bisect_diverge.bisector.chain import Chain, change_points

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.bisector.bench import Bench
    from bisect_diverge.model.trial import Unit


def are_steps(unit: Unit, parts: Sequence[Unit]) -> bool:
    """Whether the parts of a unit are steps of one way: they bear the name of the whole."""
    return all((part.layer, part.knob) == (unit.layer, unit.knob) for part in parts)


def guilty_steps(
    bench: Bench, steps: tuple[Unit, ...], target: str, pinned: frozenset[Unit]
) -> tuple[tuple[Unit, ...], ...]:
    """Return the steps that lead from A's bits to the target, in order.

    Each is a group: of more than one where nothing between its ends runs, so that they cannot be told apart.

    Args:
        bench: Runs trials; knows the steps, so that the last of those that are swapped counts.
        steps: In the order of the way; all of them make `target`, none of them does not.
        target: The value to reach.
        pinned: Units that are swapped in every trial.
    """
    found: list[tuple[Unit, ...]] = []
    for point in change_points(Chain(bench, steps, pinned, one_way=True)):
        found.append(point.units)
        value = bench.value(pinned | {point.units[-1]})
        if value == target:
            break
        if value == A:  # what came before was undone
            found.clear()
    return tuple(found)


def merged(ends: Sequence[Unit]) -> Unit:
    """Return one step that leads from where the first of some begins to where the last ends."""
    return replace(ends[0], b=ends[-1].b)


def about_steps(groups: Sequence[Sequence[Unit]]) -> list[str]:
    """Return what there is to say of guilty steps where they are not a single one."""
    ways = [merged(group) for group in groups]
    notes = [
        f"{way}: {len(group)} steps from {way.a} to {way.b} could not be told apart, none between them runs"
        for way, group in zip(ways, groups, strict=True)
        if len(group) > 1
    ]
    if len(ways) > 1:
        listed = ", then from ".join(f"{way.a} to {way.b}" for way in ways)
        notes.append(f"{ways[0]}: the bits change more than once on the way, from {listed}")
    return notes
