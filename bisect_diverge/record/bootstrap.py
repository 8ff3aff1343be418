"""Called by the bootstrap when a recorded process has imported torch."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

from bisect_diverge.record.settings import VARIABLE, Settings

DIRECTORY = Path(__file__).parent / "_bootstrap"
"""Goes first on ``PYTHONPATH`` of the recorded command; holds ``sitecustomize.py`` and nothing else."""


def start() -> None:
    """Install the hooks of the recorder or of a witness; a failure of ours is a line on stderr, never an error."""
    text = os.environ.get(VARIABLE)
    if not text:
        return
    try:
        settings = Settings.from_json(text)
        if settings.witness is not None:
            from bisect_diverge.record.witness import watch

            watch(settings)
        if settings.witness is None or settings.witness.recording:
            from bisect_diverge.record.install import install

            install(settings)
    except Exception as error:
        sys.stderr.write(f"bd: nothing is recorded: {type(error).__name__}: {error}\n")


def environment_for(settings: Settings, base: dict[str, str]) -> dict[str, str]:
    """Return the environment that makes a command record itself."""
    from bisect_diverge.environment.variables import layer_of

    path = base.get("PYTHONPATH")
    given = {name: value for name, value in base.items() if layer_of(name, settings.env_names) is not None}
    return base | {
        VARIABLE: replace(settings, given=given).to_json(),
        "PYTHONPATH": os.pathsep.join([settings.bootstrap, path]) if path else settings.bootstrap,
    }
