"""Runs a configuration once without recording it, and sets its parameters beside those of the recording."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bisect_diverge.errors import NotComparableError
from bisect_diverge.model.witness import Witness, read_witnesses
from bisect_diverge.record.settings import WitnessSettings
from bisect_diverge.trial.witnessed import witnessed

if TYPE_CHECKING:
    from pathlib import Path

    from bisect_diverge.store.reader import Run
    from bisect_diverge.trial.runner import Launch

NO_UPDATE = "no optimizer makes an update that far, and only what an update leaves can be read without a recorder"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Parameters and optimizer state of all ranks at the end of a step."""

    updates: int = 0
    """Updates until then."""
    bits: str = ""
    """Names their bits."""
    reason: str = ""
    """Why it cannot be told; empty where it can."""


def end_of(run: Run, step: int) -> End:
    """Return what a recording says at the end of a step."""
    try:
        found = {rank: witnessed(file, step).witness for rank, file in run.ranks.items()}
    except NotComparableError as error:
        return End(reason=error.what)
    updates = {witness.updates for witness in found.values()}
    if len(updates) != 1 or not max(updates):
        return End(reason=NO_UPDATE)
    return End(updates=updates.pop(), bits=_bits(found))


def unrecorded(launch: Launch, folder: Path, updates: int) -> Launch:
    """Return what to start so that nothing is recorded, and the process tells its parameters after some updates.

    Args:
        launch: The trial of the same configuration.
        folder: Gets what is told.
        updates: Number of updates.
    """
    witness = WitnessSettings(folder=str(folder), stop_after=updates)
    return launch.recorded_as(replace(launch.settings, witness=witness))


def told(folder: Path, ranks: int, updates: int) -> End:
    """Return what an unrecorded run has told."""
    found = read_witnesses(folder)
    if len(found) < ranks or any(witness.updates != updates for witness in found.values()):
        return End(reason="the unrecorded run did not tell its parameters")
    return End(updates=updates, bits=_bits(found))


def _bits(found: dict[int, Witness]) -> str:
    rows = [(rank, sorted(w.parameters.items()), sorted(w.state.items())) for rank, w in sorted(found.items())]
    return hashlib.blake2b(json.dumps(rows).encode(), digest_size=12).hexdigest()
