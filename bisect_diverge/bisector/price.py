"""What a search will cost, before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from statistics import median_high
from typing import TYPE_CHECKING

from bisect_diverge.bisector.plan import ordered
from bisect_diverge.bisector.search import bisect
from bisect_diverge.bisector.supposed import Effect, World
from bisect_diverge.model.trial import Budget, SearchOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.model.address import Address
    from bisect_diverge.model.trial import Unit

PLACES = 64
"""So many places of one cause are tried at most."""
PAIRS = 60
"""So many pairs of partners are tried for the dearest ordinary search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Numbers of trials, the controls and their repeats included."""

    least: int
    """The cheapest place for one cause."""
    typical: int
    """One cause, at a place like most."""
    most: int
    """Two partners, or one cause; more than two units that act together cost more still."""

    def to_json(self) -> dict[str, int]:
        """Return the numbers as plain JSON values."""
        return {"least": self.least, "typical": self.typical, "most": self.most}


def price(units: Sequence[Unit], options: SearchOptions | None = None, first: Address | None = None) -> Price:
    """Return what a search among these units costs, by making it for many places of one cause and of two.

    Args:
        units: What is moved.
        options: Mode and repeats; a budget is not looked at.
        first: Where the runs differ, which says where the chain is cut first.
    """
    chain = ordered(units)
    repeats = options.budget.repeats if options else 1
    mode = SearchOptions(mode=options.mode if options else "chain", budget=Budget(repeats=repeats))
    if not chain:
        return Price(least=repeats, typical=repeats, most=repeats)
    single = [_cost(chain, mode, frozenset({unit}), first) for unit in chain[:: -(-len(chain) // PLACES)]]
    pairs = list(combinations(chain, 2))
    chosen = pairs[:: max(len(pairs) // PAIRS, 1)]
    together = [_cost(chain, mode, frozenset(pair), first) for pair in chosen]
    return Price(least=min(single), typical=median_high(single), most=max(*single, *together, 0))


def _cost(units: tuple[Unit, ...], options: SearchOptions, cause: frozenset[Unit], first: Address | None) -> int:
    world = World(units=units, effects=(Effect((cause,)),))
    return len(bisect(units, world, options, first=first).trials)
