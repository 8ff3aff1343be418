"""What a process told of its end without being recorded: digests of its parameters, optimizer state and generators.

A parameter's key is its place and not its name, since nobody looked at the modules: ``opt1:3`` is the fourth parameter
of the optimizer that made its first update second, counted through all its groups; its state is
``opt1:3.state.exp_avg``. A recorded run has the same places (`trial.witnessed`), and names for them.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = 1
"""Version of the JSON."""

_FILE = re.compile(r"witness\.rank-(\d+)(?:\.(\d+))?\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """The end of one process; every digest is that of the recorder, in hexadecimal."""

    rank: int = 0
    """Rank of the process."""
    updates: int = 0
    """Attempted updates of all optimizers, those that GradScaler skipped included."""
    parameters: dict[str, str] = field(default_factory=dict)
    """Place to digest."""
    state: dict[str, str] = field(default_factory=dict)
    """Place and slot to digest."""
    buffers: dict[str, str] = field(default_factory=dict)
    """Class and FQN of a buffer beside a parameter that was updated, to digest."""
    generators: dict[str, str] = field(default_factory=dict)
    """Slot of a generator, as in a recording, to digest."""
    untouched: tuple[str, ...] = ()
    """Slots of the generators that are as they were when torch was imported: nobody seeded them or drew from them."""
    losses: tuple[str, ...] | None = None
    """Digest of what each ``backward()`` started from, in order; None: nobody looked."""
    graph_breaks: dict[str, int] | None = None
    """Reason of a graph break to count; None: ``torch.compile`` was not used."""
    process: dict[str, str] = field(default_factory=dict)
    """State of the interpreter and of torch that is the script's to choose: threads, default dtype, ..."""
    notes: tuple[str, ...] = ()
    """What could not be told."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Witness:
        """Return what `to_json` made; keys it does not know are ignored."""
        known = {name: row[name] for name in cls.__dataclass_fields__ if name in row}
        values: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in known.items()}
        return cls(**values)


def witness_path(folder: Path, rank: int, occurrence: int = 0) -> Path:
    """Return the file of a rank; a second process of the same rank has occurrence 1, and so on."""
    suffix = f".{occurrence}" if occurrence else ""
    return folder / f"witness.rank-{rank:05d}{suffix}.json"


def read_witnesses(folder: Path) -> dict[int, Witness]:
    """Return the witness of each rank: of several processes of one rank, the one with the most updates.

    A file that was cut off is passed over.

    Args:
        folder: What `record.settings.WitnessSettings.folder` was.
    """
    found: dict[int, Witness] = {}
    for path in sorted(folder.glob("witness.rank-*.json"), key=_order):
        try:
            witness = Witness.from_json(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            continue
        if witness.rank not in found or witness.updates > found[witness.rank].updates:
            found[witness.rank] = witness
    return found


def _order(path: Path) -> tuple[int, int]:
    match = _FILE.fullmatch(path.name)
    return (int(match[1]), int(match[2] or 0)) if match else (0, 0)
