"""A recorded run in the words of a witness, so that the two can be compared."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bisect_diverge.errors import NotComparableError
from bisect_diverge.model.address import PHASE_CODE, Phase
from bisect_diverge.model.witness import Witness
from bisect_diverge.store.schema import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bisect_diverge.store.reader import RunFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Witnessed:
    """What a recording says at the end of a step."""

    witness: Witness
    """The same as a witness would have told after `witness.updates` updates."""
    names: dict[str, str]
    """Place of a parameter to its optimizer and name: ``opt:blocks.0.weight``."""


def witnessed(file: RunFile, step: int) -> Witnessed:
    """Return parameters and optimizer state of one rank at the end of a step.

    Args:
        file: A recording of all modules from step 0 on.
        step: Step, counted from 0.

    Raises:
        NotComparableError: if the recording left out modules or the first steps, so that places cannot be counted.
    """
    options = file.record.options
    if options.modules:
        raise NotComparableError(f"{file.path} was recorded with --modules: it does not hold every parameter")
    if options.steps is not None and options.steps[0] > 0:
        raise NotComparableError(
            f"{file.path} was recorded from step {options.steps[0]} on: its updates cannot be counted"
        )
    places = _Places()
    for update in _updates(file, step):
        places.add(update)
    return Witnessed(
        witness=Witness(
            rank=file.record.rank, updates=places.updates, parameters=places.parameters, state=places.state
        ),
        names=places.names,
    )


@dataclass(frozen=True, slots=True)
class _Update:
    optimizer: str
    rows: list[tuple[str, str, str]]
    """Name of the parameter, slot and digest, in order."""


class _Places:
    """Parameters by their place, each as the last update left it."""

    def __init__(self) -> None:
        self.updates = 0
        self.names: dict[str, str] = {}
        self.parameters: dict[str, str] = {}
        self.state: dict[str, str] = {}
        self._optimizers: dict[str, int] = {}

    def add(self, update: _Update) -> None:
        self.updates += 1
        number = self._optimizers.setdefault(update.optimizer, len(self._optimizers))
        place_of: dict[str, str] = {}
        for fqn, slot, digest in update.rows:
            if slot == "param":
                place = place_of[fqn] = f"opt{number}:{len(place_of)}"
                self.parameters[place] = digest
                self.names[place] = f"{update.optimizer}:{fqn}"
            elif slot.startswith("state."):
                self.state[f"{place_of[fqn]}.{slot}"] = digest


def _updates(file: RunFile, last: int) -> Iterator[_Update]:
    """Yield the updates up to a step, in the order in which they were made."""
    events = file.events
    wanted = (events["phase"] == PHASE_CODE[Phase.OPTIMIZER]) & (events["step"] <= last)
    slots = np.array([slot == "buffer" for slot in file.slots], bool)
    found: dict[tuple[int, str, int], list[tuple[str, str, str]]] = defaultdict(list)
    for row in np.flatnonzero(wanted & ~slots[events["slot"]]).tolist():
        event = events[row]
        optimizer, fqn, _ = file.names[event["name"]]
        digest = digest_of(event).hex()
        found[int(event["step"]), optimizer, int(event["call"])].append((fqn, file.slots[event["slot"]], digest))
    for (_, optimizer, _), rows in found.items():
        yield _Update(optimizer, rows)
