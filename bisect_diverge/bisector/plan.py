"""The order in which units are moved, and where a stretch of them is cut in two."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from bisect_diverge.model.environment import Layer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bisect_diverge.model.trial import Unit

ORDER = (
    Layer.RUNTIME,
    Layer.DEPENDENCIES,
    Layer.HARDWARE,
    Layer.KERNELS,
    Layer.SOURCE,
    Layer.FEATURES,
    Layer.CONFIGURATION,
    Layer.DATASET,
    Layer.SEEDS,
)
"""From the outside in, so that every prefix is a consistent environment: B's code comes after B's packages."""

PROBES = 8
"""So many cuts of a stretch are tried at most, when one after another does not run."""

_RANK = {layer: rank for rank, layer in enumerate(ORDER)}


def ordered(units: Sequence[Unit]) -> tuple[Unit, ...]:
    """Return the units, each once, such that moving any prefix of them gives an environment that can run."""
    return tuple(sorted(dict.fromkeys(units), key=lambda unit: _RANK[unit.layer]))


def middles(
    units: Sequence[Unit], low: int, high: int, weight: Callable[[Unit], float] = lambda _unit: 1.0
) -> list[int]:
    """Return the cuts inside ``low .. high`` (both excluded), the best first.

    Only cuts that leave no side with more halvings than a cut in the middle would are eligible for the best one. Of
    these, one between two layers comes first: whole layers are told apart where that is free. Of those, the one that
    parts the weight most evenly. The others are for when the best one does not run: its neighbours, then the ends and
    places spread over the stretch, `PROBES` in all.

    Args:
        units: The whole chain; a cut ``k`` is the prefix of ``k`` units.
        low: Cut at the lower end.
        high: Cut at the upper end, at least ``low + 2``.
        weight: How likely a unit is.
    """
    size = high - low
    longest = 1 << max((size - 1).bit_length() - 1, 0)
    middle = (low + high) // 2
    free = range(max(low + 1, high - longest), min(high - 1, low + longest) + 1)
    between = [cut for cut in free if units[cut - 1].layer is not units[cut].layer]
    sums = list(accumulate((weight(unit) for unit in units[low:high]), initial=0.0))
    best = min(between or free, key=lambda cut: (abs(2 * sums[cut - low] - sums[-1]), abs(cut - middle)))
    spread = [low + size * eighth // 8 for eighth in (2, 6, 1, 7)]
    cuts = [best, best - 1, best + 1, low + 1, high - 1, *spread]
    return [cut for cut in dict.fromkeys(cuts) if low < cut < high][:PROBES]
