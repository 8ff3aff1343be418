"""The run record: what is known of one recorded execution beside its tensors."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from bisect_diverge.model.environment import Environment

SCHEMA = 1
"""Version of the file format that this program writes; it reads this and every earlier one."""


class Capture(StrEnum):
    """What is kept of each tensor."""

    FULL = "full"
    """Digests always, tensors within the budget."""
    DIGEST = "digest"
    """Digests only."""


class StepOn(StrEnum):
    """What ends a step."""

    OPTIMIZER = "optimizer"
    """Each attempted update; while no optimizer has been constructed, each root forward."""
    FORWARD = "forward"
    """Each forward of the root that was called first."""
    MANUAL = "manual"
    """``bisect_diverge.step()``, called by the script."""


class State(StrEnum):
    """How far a recording got; the order of members is their code in the file."""

    IN_PROGRESS = "in progress"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"


class Written(StrEnum):
    """What a run did to a file or folder."""

    CHANGED = "changed"
    """It was there before."""
    PREPARED = "prepared"
    """Made before the first module was called: an output folder, a dataset that was downloaded."""
    OUTPUT = "output"
    """Made after that: a checkpoint, a log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOptions:
    """How much of a run is recorded."""

    capture: Capture = Capture.FULL
    """Keep tensors or digests only."""
    keep_bytes: int = 4 << 30
    """Budget for tensor bytes of one rank."""
    steps: tuple[int, int | None] | None = None
    """Steps ``[first, end)`` to record; None: all; end None: to the last."""
    modules: tuple[str, ...] = ()
    """Globs of FQNs to record; empty: all."""
    step_on: StepOn = StepOn.OPTIMIZER
    """What ends a step."""
    keep_data: bool = True
    """Keep copies of the small files that the run reads."""

    def to_json(self) -> dict[str, Any]:
        """Return the options as plain JSON values."""
        return {
            "capture": str(self.capture),
            "keep_bytes": self.keep_bytes,
            "steps": None if self.steps is None else list(self.steps),
            "modules": list(self.modules),
            "step_on": str(self.step_on),
            "keep_data": self.keep_data,
        }

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> RecordOptions:
        """Return the options that `to_json` wrote."""
        steps = row.get("steps")
        return cls(
            capture=Capture(row.get("capture", Capture.FULL)),
            keep_bytes=int(row.get("keep_bytes", 4 << 30)),
            steps=None if steps is None else (int(steps[0]), None if steps[1] is None else int(steps[1])),
            modules=tuple(map(str, row.get("modules", ()))),
            step_on=StepOn(row.get("step_on", StepOn.OPTIMIZER)),
            keep_data=bool(row.get("keep_data", True)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What is known of one recorded process."""

    command: tuple[str, ...] = ()
    """The recorded command as the user typed it; empty when recorded through the library."""
    argv: tuple[str, ...] = ()
    """``sys.argv`` of the recorded process."""
    cwd: str = ""
    """Working directory at the start."""
    version: str = ""
    """Version of this package that recorded it; empty: one that did not say so yet."""
    started: str = ""
    """Time of the first row, ISO 8601 with offset."""
    rank: int = 0
    """Rank of the process."""
    world_size: int = 1
    """Number of ranks."""
    options: RecordOptions = field(default_factory=RecordOptions)
    """What was asked to be recorded."""
    environment: Environment = field(default_factory=Environment)
    """What surrounded the run."""
    aliases: dict[str, list[str]] = field(default_factory=dict)
    """``root:fqn`` of a shared parameter or module to the other names it has."""
    coverage: dict[str, int] = field(default_factory=dict)
    """Counts of what was and what could not be recorded (see docs/recording.md)."""
    notes: tuple[str, ...] = ()
    """Remarks for people: budget reached, hooks that could not be set, ..."""
    written: dict[str, str] = field(default_factory=dict)
    """Files and folders that the process wrote, as far as Python saw it: absolute path to a `Written` word."""
    place: str = ""
    """Directory that holds the run now, with the copies of what it read; not in the file. Empty: not known."""

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON values."""
        return {
            "command": list(self.command),
            "argv": list(self.argv),
            "cwd": self.cwd,
            "version": self.version,
            "started": self.started,
            "rank": self.rank,
            "world_size": self.world_size,
            "options": self.options.to_json(),
            "environment": self.environment.to_json(),
            "aliases": self.aliases,
            "coverage": self.coverage,
            "notes": list(self.notes),
            "written": self.written,
        }

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> RunRecord:
        """Return the record that `to_json` wrote; keys it does not know are ignored."""
        return cls(
            command=tuple(map(str, row.get("command", ()))),
            argv=tuple(map(str, row.get("argv", ()))),
            cwd=str(row.get("cwd", "")),
            version=str(row.get("version", "")),
            started=str(row.get("started", "")),
            rank=int(row.get("rank", 0)),
            world_size=int(row.get("world_size", 1)),
            options=RecordOptions.from_json(row.get("options", {})),
            environment=Environment.from_json(row.get("environment", [])),
            aliases={str(k): [str(x) for x in v] for k, v in row.get("aliases", {}).items()},
            coverage={str(k): int(v) for k, v in row.get("coverage", {}).items()},
            notes=tuple(map(str, row.get("notes", ()))),
            written={str(k): str(v) for k, v in row.get("written", {}).items()},
        )

    def with_(self, **changes: Any) -> RunRecord:
        """Return a copy with some fields replaced."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How far a recording got."""

    state: State
    """As judged by the reader: a run whose writer is gone without *complete* is interrupted."""
    exit_status: int | None = None
    """Exit status of the script; None while it runs or if it is not known."""
    host: str = ""
    """Host of the writer."""
    pid: int = 0
    """Process of the writer."""
    started: float = 0.0
    """Start of the writer, seconds since the epoch."""
