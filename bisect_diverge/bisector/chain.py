"""Bisects a chain of prefixes: from a configuration to a larger one, unit by unit in the order of the plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bisect_diverge.bisector.plan import middles

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.bisector.bench import Bench, Value
    from bisect_diverge.model.trial import Unit


@dataclass(frozen=True, slots=True)
class Chain:
    """Prefixes of a sequence of units, each together with units that are swapped throughout."""

    bench: Bench
    units: tuple[Unit, ...]
    pinned: frozenset[Unit] = frozenset()
    one_way: bool = False
    """The units are steps, of which the last that is swapped counts: they cannot be moved in another order."""

    def value(self, cut: int) -> Value:
        """Return the value of the first ``cut`` units at B's."""
        return self.bench.value(self.pinned.union(self.units[:cut]))

    def inner(self, low: int, high: int) -> int | None:
        """Return a cut inside ``low .. high`` that runs, as near the middle as can be; None if none does."""
        return next(
            (cut for cut in middles(self.units, low, high, self.bench.weight) if self.value(cut) is not None), None
        )

    def backwards(self, low: int, high: int) -> Chain:
        """Return the chain from one cut to another that moves the units between them in opposite order.

        Where an early unit does not run without a late one, no cut between them runs; this way round they do.
        """
        return Chain(self.bench, self.units[low:high][::-1], self.pinned.union(self.units[:low]))


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """Neighbouring cuts of a chain between which the value changes."""

    before: tuple[Unit, ...]
    """What is moved before the change, beside what is pinned."""
    units: tuple[Unit, ...]
    """What is moved in it; more than one where no cut between them runs."""


def change_points(chain: Chain) -> list[ChangePoint]:
    """Return where the value changes, in the order of the chain, except where it changes and changes back unseen.

    Equal ends are taken for an unchanged stretch: what cancels itself there has no part in the difference of the
    ends. Both ends of the chain must run. One trial for each cut that is looked at.
    """
    return list(_between(chain, 0, len(chain.units)))


def _between(chain: Chain, low: int, high: int, before: tuple[Unit, ...] | None = None) -> Iterator[ChangePoint]:
    if chain.value(low) == chain.value(high):
        return
    cut = chain.inner(low, high) if high - low > 1 else None
    if cut is not None:
        yield from _between(chain, low, cut, before)
        yield from _between(chain, cut, high, before)
    elif high - low > 1 and before is None and not chain.one_way:
        back = chain.backwards(low, high)
        yield from _between(back, 0, high - low, chain.units[:low])
    else:
        yield ChangePoint((before or ()) + chain.units[:low], chain.units[low:high])


def boundary(chain: Chain, target: Value) -> ChangePoint:
    """Return a place where the value becomes `target`: not so before it, so after it.

    The whole chain has that value and its beginning has not. ``ceil(log2 n)`` trials for n units.
    """
    low, high = _narrowed(chain, target)
    if high - low == 1:
        return ChangePoint(chain.units[:low], chain.units[low:high])
    before = chain.units[:low]
    back = chain.backwards(low, high)
    low, high = _narrowed(back, target)
    return ChangePoint(before + back.units[:low], back.units[low:high])


def _narrowed(chain: Chain, target: Value) -> tuple[int, int]:
    low, high = 0, len(chain.units)
    while high - low > 1:
        cut = chain.inner(low, high)
        if cut is None:
            break
        low, high = (low, cut) if chain.value(cut) == target else (cut, high)
    return low, high


def without(units: Sequence[Unit], taken: frozenset[Unit] | set[Unit] | Sequence[Unit]) -> tuple[Unit, ...]:
    """Return the units that are not taken, in order."""
    return tuple(unit for unit in units if unit not in taken)
