"""Which units are likelier than others, told from the phase in which two runs first differ.

Only the place of the cuts depends on it, within what costs no further halving (`plan.middles`): never an answer. What
a trial costs plays no part: the control of B has built everything that any of them needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.model.address import Phase
from bisect_diverge.model.environment import Layer

if TYPE_CHECKING:
    from collections.abc import Callable

    from bisect_diverge.model.address import Address
    from bisect_diverge.model.trial import Unit

LIKELIER = 4.0
"""So many times likelier than the others."""

_COMPUTED = frozenset({Layer.KERNELS, Layer.HARDWARE, Layer.DEPENDENCIES})
LIKELY: dict[Phase, frozenset[Layer]] = {
    Phase.INIT: frozenset({Layer.SEEDS, Layer.KERNELS}),
    Phase.DATA: frozenset({Layer.DATASET, Layer.SEEDS}),
    Phase.RNG: frozenset({Layer.SEEDS}),
    Phase.FORWARD: _COMPUTED,
    Phase.BACKWARD: _COMPUTED,
    Phase.RECOMPUTE: _COMPUTED,
    Phase.OPTIMIZER: frozenset({Layer.CONFIGURATION, Layer.KERNELS}),
}
"""Phase of the first divergence to the layers that are likely to have made it."""
WORKERS = "worker"
"""In the name of a knob: likely where the data differ."""


def weight_for(first: Address | None) -> Callable[[Unit], float]:
    """Return how likely each unit is, 1 for an ordinary one.

    Args:
        first: Where the runs first differ; None: all are equally likely.
    """
    phase = None if first is None else first.phase
    likely = frozenset() if phase is None else LIKELY[phase]

    def weight(unit: Unit) -> float:
        loads = phase is Phase.DATA and WORKERS in unit.knob.lower()
        return LIKELIER if loads or unit.layer in likely else 1.0

    return weight
