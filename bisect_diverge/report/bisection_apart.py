"""Units that were taken apart: their parts in their place, and what B is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from bisect_diverge.model.trial import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.model.trial import Bisection, Unit

Apart = Mapping["Unit", tuple["Unit", ...]]
"""Units to the parts they were taken apart into, the outermost first; steps are no such parts: one stands for all."""


def apart_of(bisection: Bisection) -> Apart:
    """Return what was taken apart into things that can be moved one by one."""
    return {unit: parts for unit, parts in bisection.taken_apart if not _are_steps(unit, parts)}


def with_parts(bisection: Bisection, apart: Apart) -> Bisection:
    """Return a bisection whose trials name the parts of what was taken apart."""
    return replace(bisection, trials=tuple(replace(t, swapped=_expanded(t.swapped, apart)) for t in bisection.trials))


def _are_steps(unit: Unit, parts: Sequence[Unit]) -> bool:
    """Whether the parts are steps of one way (commits, releases), of which the last that is swapped counts."""
    return all((part.layer, part.knob) == (unit.layer, unit.knob) for part in parts)


def _expanded(units: Sequence[Unit], apart: Apart) -> tuple[Unit, ...]:
    """Return units with the parts of each that was taken apart in its place."""
    found = tuple(units)
    for unit, parts in apart.items():
        found = tuple(each for old in found for each in (parts if old == unit else (old,)))
    return found


def collapsed(units: Sequence[Unit], apart: Apart) -> tuple[Unit, ...]:
    """Return units with each unit in the place of its parts where all of them are there."""
    found = tuple(units)
    for unit, parts in reversed(list(apart.items())):
        if set(parts) <= set(found):
            found = tuple(unit if old == parts[0] else old for old in found if old not in parts[1:])
    return found


def whole_of(bisection: Bisection) -> tuple[Unit, ...]:
    """Return what is swapped in B as it was replayed: the largest configuration that ran twice; empty if none did."""
    ran = [t for t in bisection.trials if t.swapped and t.outcome in {Outcome.B, Outcome.OTHER}]
    count = Counter(frozenset(t.swapped) for t in ran)
    twice = [t for t in ran if count[frozenset(t.swapped)] > 1]
    best = max(twice, key=lambda t: (t.outcome is Outcome.B, len(t.swapped)), default=None)
    return () if best is None else best.swapped
