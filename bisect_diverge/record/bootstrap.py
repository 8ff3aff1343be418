"""Called by the bootstrap when a recorded process has imported torch."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bisect_diverge.record.settings import VARIABLE, Settings

DIRECTORY = Path(__file__).parent / "_bootstrap"
"""Goes first on ``PYTHONPATH`` of the recorded command; holds ``sitecustomize.py`` and nothing else."""


def start() -> None:
    """Install the hooks; a failure of ours is a line on stderr, never an error of the user's ``import torch``."""
    text = os.environ.get(VARIABLE)
    if not text:
        return
    try:
        from bisect_diverge.record.install import install

        install(Settings.from_json(text))
    except Exception as error:
        sys.stderr.write(f"bd: nothing is recorded: {type(error).__name__}: {error}\n")


def environment_for(settings: Settings, base: dict[str, str]) -> dict[str, str]:
    """Return the environment that makes a command record itself."""
    path = base.get("PYTHONPATH")
    return base | {
        VARIABLE: settings.to_json(),
        "PYTHONPATH": os.pathsep.join([settings.bootstrap, path]) if path else settings.bootstrap,
    }
