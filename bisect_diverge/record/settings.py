"""What `bd record` tells the processes it starts, and how: one environment variable with JSON in it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from bisect_diverge.model.environment import Setting
from bisect_diverge.model.run import RecordOptions

VARIABLE = "BISECT_DIVERGE_RECORD"
"""Set for the recorded command, removed from the environment of a process once it records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything a recording process needs to know."""

    run: str
    """Absolute path of the run's directory; it exists."""
    command: tuple[str, ...] = ()
    """The recorded command; empty when the library's door was used."""
    options: RecordOptions = field(default_factory=RecordOptions)
    """How much is recorded."""
    outside: tuple[Setting, ...] = ()
    """Settings that were read before the process started (commit, declared data)."""
    env_names: tuple[str, ...] = ()
    """Variables to record beside the allow-list."""
    bootstrap: str = ""
    """Directory that was put first on ``PYTHONPATH``; empty when there is none to take away again."""

    def to_json(self) -> str:
        """Return the settings as one line of JSON."""
        row: dict[str, Any] = {
            "run": self.run,
            "command": list(self.command),
            "options": self.options.to_json(),
            "outside": [setting.to_json() for setting in self.outside],
            "env_names": list(self.env_names),
            "bootstrap": self.bootstrap,
        }
        return json.dumps(row)

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """Return the settings that `to_json` wrote."""
        row = json.loads(text)
        return cls(
            run=row["run"],
            command=tuple(row["command"]),
            options=RecordOptions.from_json(row["options"]),
            outside=tuple(Setting.from_json(setting) for setting in row["outside"]),
            env_names=tuple(row["env_names"]),
            bootstrap=row["bootstrap"],
        )
