"""What keeps a trial from the user's things: its folder, its view of the file system, its caches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.record.divert import VIEW

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FILES = "files"
"""Folder in a trial's folder that takes what it writes, each file under its whole path."""
OFFLINE = {"WANDB_MODE": "offline", "NEPTUNE_MODE": "offline", "COMET_START_ONLINE": "0"}
"""Trackers: what a trial reports is nobody's business."""


def write_view(
    folder: Path,
    hidden: Iterable[str] = (),
    remade: Iterable[str] = (),
    inputs: Mapping[str, object] | None = None,
) -> None:
    """Write down what `record.divert` is to do.

    Args:
        folder: Directory of the trial.
        hidden: Files that are there, but that the process must not see.
        remade: Folders that may be made again.
        inputs: What is read otherwise, as `record.led_inputs.Inputs` takes it.
    """
    view = {"hidden": sorted(hidden), "remade": sorted(remade), **(inputs or {})}
    (folder / FILES).mkdir(exist_ok=True)
    (folder / VIEW).write_text(json.dumps(view), encoding="utf-8")


def apart(folder: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables that keep a trial from what is the user's: caches, temporary files, trackers.

    Args:
        folder: Directory of the trial.
        variables: Those that it has otherwise; trackers that they set up stay as they are.
    """
    places = {
        "TORCHINDUCTOR_CACHE_DIR": folder / "inductor",
        "TRITON_CACHE_DIR": folder / "triton",
        "TMPDIR": folder / "tmp",
        "WANDB_DIR": folder / "tmp",
    }
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    found = {name: str(place) for name, place in places.items()} | {"PYTHONDONTWRITEBYTECODE": "1"}
    return found | {name: value for name, value in OFFLINE.items() if name not in variables}
