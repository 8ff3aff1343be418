"""A step of a run, replayed in place: which module calls compute otherwise on the very same tensors."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from bisect_diverge.model.address import Address
from bisect_diverge.model.divergence import ElementStatistics
from bisect_diverge.model.environment import Difference
from bisect_diverge.model.trial import Unit, Untested

JSON_SCHEMA = 1
"""Version of the JSON that `Replay.to_json` returns."""


class Part(StrEnum):
    """What computes something of its own; the order of members is that of a report."""

    MODULE = "module call"
    """One call of a module: what its own code makes of its inputs and of what its modules return."""
    OUTSIDE = "code outside of modules"
    """What lies between two roots, or between a root and ``backward()``."""
    GRADIENT = "gradient"
    """What the backward of all that used a tensor makes of the gradients that came to it."""
    BUFFER = "buffer"
    """What the calls of a module in the step make of one of its buffers."""
    UPDATE = "update"
    """What an optimizer makes of gradient, parameter and state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A record that has other bits than in A although all that went into it was A's."""

    address: Address
    """Its address."""
    inside: str = ""
    """Which part of a module's own code made it: ``before attn``, ``between ln1 and attn``; empty: all of it.

    Of a gradient: the modules whose backward made it, ``used by conv2``; code between modules may have taken part.
    """
    statistics: ElementStatistics | None = None
    """How its elements differ; None: not known."""
    note: str = ""
    """Why the elements are not known; empty where they are."""

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON values."""
        return {
            "address": str(self.address),
            "inside": self.inside,
            "tensor": None if self.statistics is None else self.statistics.to_json(),
            "note": self.note,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """Something that computes of its own, and what came of replaying it."""

    part: Part
    """What it is."""
    address: Address
    """Its first record of the step."""
    module_type: str = ""
    """Class of the module; empty where there is none."""
    site: str = ""
    """``file:line`` that called it; empty if not known."""
    moved: tuple[Moved, ...] = ()
    """The records that differ; empty: its own computation is equal."""
    reason: str = ""
    """Why it cannot be replayed in place; empty where it can, and then `moved` says whether it differs."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "part": str(self.part),
            "address": str(self.address),
            "module_type": self.module_type,
            "site": self.site,
            "moved": [record.to_json() for record in self.moved],
            "reason": self.reason,
        }


class ReplayVerdict(StrEnum):
    """What a replay in place found."""

    SAME = "same"
    """Everything that could be replayed computes the same."""
    DIFFERS = "differs"
    """Something computes otherwise."""
    INCONCLUSIVE = "inconclusive"
    """No module call reproduces itself under A's own settings, or none could be replayed under the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What replaying one step in place found."""

    step: int
    """The step."""
    owns: tuple[Own, ...]
    """Everything that computes something in it, in A's order."""
    swapped: tuple[Unit, ...] = ()
    """What was changed."""
    inert: tuple[Unit, ...] = ()
    """Of these, what did not change any resolved value."""
    untestable: tuple[Untested, ...] = ()
    """What differs between the two runs and could not be changed here."""
    consequences: tuple[Difference, ...] = ()
    """Resolved values that moved with it."""
    written: int = 0
    """Tensors that were set to A's bits under the changed settings."""
    notes: tuple[str, ...] = ()
    """What was left out, and why."""
    seconds: float = 0.0
    """What both replays took."""

    @property
    def differing(self) -> tuple[Own, ...]:
        """Everything of which the own computation differs."""
        return tuple(own for own in self.owns if own.moved and not own.reason)

    @property
    def cannot(self) -> tuple[Own, ...]:
        """Everything that cannot be replayed in place."""
        return tuple(own for own in self.owns if own.reason)

    def equal(self, part: Part) -> int:
        """Return how many of a part were replayed and are equal."""
        return sum(own.part is part and not own.moved and not own.reason for own in self.owns)

    @property
    def verdict(self) -> ReplayVerdict:
        """The answer."""
        if self.differing:
            return ReplayVerdict.DIFFERS
        replayed = any(own.part is Part.MODULE and not own.reason for own in self.owns)
        return ReplayVerdict.SAME if replayed else ReplayVerdict.INCONCLUSIVE

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values."""
        return {
            "schema": JSON_SCHEMA,
            "verdict": str(self.verdict),
            "step": self.step,
            "swapped": [unit.to_json() for unit in self.swapped],
            "inert": [unit.to_json() for unit in self.inert],
            "untestable": [row.unit.to_json() | {"reason": row.reason} for row in self.untestable],
            "consequences": [row.to_json() for row in self.consequences],
            "differing": [own.to_json() for own in self.differing],
            "equal": {str(part): self.equal(part) for part in Part},
            "cannot_be_replayed": [own.to_json() for own in self.cannot],
            "written": self.written,
            "seconds": round(self.seconds, 3),
            "notes": list(self.notes),
        }


NOT_KEPT = "A kept only its digest"
"""Why a tensor cannot be set: its bytes are not in A's file."""
LEFT_OVER = "gradients were left from an earlier step, of which A has no record"
"""Why a gradient is not A's before the first backward of the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forced:
    """What a process has set to A's bits in the step that it replayed; rows are those of A's file."""

    written: tuple[int, ...] = ()
    """Rows whose tensors had other bits, and were set."""
    failed: dict[int, str] = field(default_factory=dict)
    """Row to the reason why its tensor keeps other bits."""


def forced_path(folder: Path, rank: int) -> Path:
    """Return the file in which a rank tells what it has set."""
    return folder / f"forcing.rank-{rank:05d}.json"


def write_forced(folder: Path, rank: int, forced: Forced) -> None:
    """Tell what was set.

    Raises:
        OSError: if the file cannot be written.
    """
    failed = {str(row): reason for row, reason in forced.failed.items()}
    forced_path(folder, rank).write_text(json.dumps({"written": list(forced.written), "failed": failed}), "utf-8")


def read_forced(folder: Path, rank: int) -> Forced | None:
    """Return what a rank has told; None if it has not."""
    try:
        row = json.loads(forced_path(folder, rank).read_text("utf-8"))
        return Forced(written=tuple(row["written"]), failed={int(n): str(why) for n, why in row["failed"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
