"""Called by the bootstrap when a recorded process has imported torch."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from bisect_diverge.record.settings import LONGEST, OUTSIDE, VARIABLE, Settings

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
    """Return the environment that makes a command record itself.

    What is too long for a variable goes into a file in the run's directory, `OUTSIDE`.
    """
    from bisect_diverge.environment.variables import layer_of

    path = base.get("PYTHONPATH")
    given = {name: value for name, value in base.items() if layer_of(name, settings.env_names) is not None}
    return base | {
        VARIABLE: _short(replace(settings, given=given)),
        "PYTHONPATH": os.pathsep.join([settings.bootstrap, path]) if path else settings.bootstrap,
    }


def _short(settings: Settings) -> str:
    """Return the settings as the text of a variable."""
    if len(settings.to_json()) > LONGEST and settings.outside:
        place = Path(settings.run) / OUTSIDE
        place.write_text(json.dumps([setting.to_json() for setting in settings.outside]), encoding="utf-8")
        settings = replace(settings, outside_at=str(place))
    if len(settings.to_json()) > LONGEST:  # the process takes its own for them
        settings = replace(settings, given=None)
    return settings.to_json()
