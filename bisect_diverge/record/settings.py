"""What `bd record` tells the processes it starts, and how: one environment variable with JSON in it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bisect_diverge.model.environment import Setting
from bisect_diverge.model.run import RecordOptions

VARIABLE = "BISECT_DIVERGE_RECORD"
"""Set for the recorded command, removed from the environment of a process once it records."""


OUTSIDE = "outside.json"
"""File in the directory of a run with the settings that were read before it, where they are too long for a variable."""
LONGEST = 100_000
"""Characters of a variable; Linux takes no string of more than 128 KiB (execve(2), MAX_ARG_STRLEN)."""

HELD_AT = " was held at "
"""In a note of a trial's recording: the script asked for something else (`record.overrides`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """A step that is replayed in place: every tensor of it is set to a recorded run's (`record.forcing`)."""

    run: str
    """Absolute path of the recorded run."""
    step: int
    """The step."""
    folder: str
    """Absolute path of the directory that gets ``forcing.rank-00000.json``; it exists."""

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        return {"run": self.run, "step": self.step, "folder": self.folder}

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> ReplaySettings:
        """Return the settings that `to_json` wrote."""
        return cls(**row)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSettings:
    """What a trial's process does otherwise than a recorded one."""

    stop_after_step: int
    """Last step that is run: at the first row after it the process flushes and leaves."""
    pins: tuple[tuple[str, str], ...] = ()
    """``layer.knob`` and value of settings that hold against the script's own calls (`record.overrides`)."""
    scratch: str = ""
    """Directory that takes what the process writes; what it does not see is listed there (`record.divert`)."""
    replay: ReplaySettings | None = None
    """None: no step is replayed in place."""

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        return {
            "stop_after_step": self.stop_after_step,
            "pins": [list(pin) for pin in self.pins],
            "scratch": self.scratch,
            "replay": None if self.replay is None else self.replay.to_json(),
        }

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> TrialSettings:
        """Return the settings that `to_json` wrote."""
        return cls(
            stop_after_step=row["stop_after_step"],
            pins=tuple((knob, value) for knob, value in row["pins"]),
            scratch=row["scratch"],
            replay=None if row.get("replay") is None else ReplaySettings.from_json(row["replay"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessSettings:
    """What a process tells of its end, instead of being recorded or beside it (`record.witness`)."""

    folder: str
    """Absolute path of the directory that gets ``witness.rank-00000.json``; it exists."""
    stop_after: int | None = None
    """Number of updates after which the process tells what it has and leaves; None: at its own end.

    A process that is recorded as well is ended by its trial's `TrialSettings.stop_after_step`.
    """
    losses: bool = False
    """Whether it tells what every ``backward()`` started from."""
    recording: bool = False
    """Whether it is recorded as well."""

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain JSON values."""
        return {
            "folder": self.folder,
            "stop_after": self.stop_after,
            "losses": self.losses,
            "recording": self.recording,
        }

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> WitnessSettings:
        """Return the settings that `to_json` wrote."""
        return cls(**row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything a recording process needs to know."""

    run: str
    """Absolute path of the run's directory; it exists."""
    command: tuple[str, ...] = ()
    """The recorded command; empty when the library's door was used."""
    cwd: str = ""
    """Directory in which the command was started; empty: the present one when the recording is installed."""
    options: RecordOptions = field(default_factory=RecordOptions)
    """How much is recorded."""
    outside: tuple[Setting, ...] = ()
    """Settings that were read before the process started (commit, declared data)."""
    outside_at: str = ""
    """File that holds `outside` while the command runs (`OUTSIDE`); empty: they travel with all else."""
    env_names: tuple[str, ...] = ()
    """Variables to record beside the allow-list."""
    given: dict[str, str] | None = None
    """The variables that the command is started with, of those that are recorded; None: those of this process.

    What a recording process has otherwise a launcher has set (``torchrun``: ``WORLD_SIZE``, ``OMP_NUM_THREADS``).
    """
    bootstrap: str = ""
    """Directory that was put first on ``PYTHONPATH``; empty when there is none to take away again."""
    trial: TrialSettings | None = None
    """None: an ordinary recording."""
    witness: WitnessSettings | None = None
    """None: the process is recorded, and no more."""

    def to_json(self) -> str:
        """Return the settings as one line of JSON."""
        row: dict[str, Any] = {
            "run": self.run,
            "command": list(self.command),
            "cwd": self.cwd,
            "options": self.options.to_json(),
            "outside": [] if self.outside_at else [setting.to_json() for setting in self.outside],
            "outside_at": self.outside_at,
            "env_names": list(self.env_names),
            "given": self.given,
            "bootstrap": self.bootstrap,
            "trial": None if self.trial is None else self.trial.to_json(),
            "witness": None if self.witness is None else self.witness.to_json(),
        }
        return json.dumps(row)

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """Return the settings that `to_json` wrote."""
        row = json.loads(text)
        return cls(
            run=row["run"],
            command=tuple(row["command"]),
            cwd=row.get("cwd", ""),
            options=RecordOptions.from_json(row["options"]),
            outside=tuple(map(Setting.from_json, _rows(row))),
            outside_at=row.get("outside_at", ""),
            env_names=tuple(row["env_names"]),
            given=row.get("given"),
            bootstrap=row["bootstrap"],
            trial=None if row.get("trial") is None else TrialSettings.from_json(row["trial"]),
            witness=None if row.get("witness") is None else WitnessSettings.from_json(row["witness"]),
        )


def _rows(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of `Settings.outside`, wherever they are."""
    place = row.get("outside_at")
    rows: list[dict[str, Any]] = json.loads(Path(place).read_text(encoding="utf-8")) if place else row["outside"]
    return rows
