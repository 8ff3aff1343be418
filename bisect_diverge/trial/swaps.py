"""Every way of swapping with what does it: one row each, applied in this order to the draft of a trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bisect_diverge.environment.apply import Way
from bisect_diverge.model.trial import Unit
from bisect_diverge.trial import (
    swap_affinity,
    swap_command,
    swap_file,
    swap_held,
    swap_image,
    swap_interpreter,
    swap_limit,
    swap_package,
    swap_seed,
    swap_source,
    swap_variable,
)
from bisect_diverge.trial.draft import Draft, Sides

Swap = Callable[[Sides, Sequence[Unit], Draft], Draft]
"""Changes a draft so that some units are at B's values. Called with no units too: what A itself needs belongs there."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table."""

    ways: tuple[Way, ...]
    """Units that are swapped so are handed over together."""
    swap: Swap
    """What swaps them."""


SWAPS: tuple[Row, ...] = (
    Row((Way.ARGUMENT, Way.LAUNCHER), swap_command.swap),
    Row((Way.SOURCE,), swap_source.swap),
    Row((Way.IMAGE,), swap_image.swap),
    Row((Way.INTERPRETER,), swap_interpreter.swap),
    Row((Way.PACKAGE,), swap_package.swap),
    Row((Way.VARIABLE,), swap_variable.swap),
    Row((Way.HELD,), swap_held.swap),
    Row((Way.AFFINITY,), swap_affinity.swap),
    Row((Way.LIMIT,), swap_limit.swap),
    Row((Way.FILE,), swap_file.swap),
    Row((Way.SEED,), swap_seed.swap),
)
"""The command first, then what it is run with: a later row sees what the earlier ones made of the draft."""
