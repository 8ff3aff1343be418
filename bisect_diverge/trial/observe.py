"""One run of a command for its own sake, recorded or not: everything that somebody could see of it afterwards."""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.environment.hashing import hash_file
from bisect_diverge.model.run import Capture, RecordOptions
from bisect_diverge.model.witness import Witness, read_witnesses
from bisect_diverge.record.bootstrap import DIRECTORY, environment_for
from bisect_diverge.record.settings import Settings, TrialSettings, WitnessSettings
from bisect_diverge.trial.runner import ERRORS, OUTPUT, Launch, run
from bisect_diverge.trial.scratch import FILES, apart, write_view

if TYPE_CHECKING:
    from collections.abc import Sequence

RUN = "run"
"""Folder in that of the run which holds its recording."""
_OURS = "bd: "
"""Begins a line on standard error that is ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One run of a command."""

    capture: str
    """Capture mode; empty: it was not recorded."""
    status: int
    """Exit status, 128+n for a signal."""
    output: tuple[str, ...]
    """Lines on standard output."""
    errors: tuple[str, ...]
    """Lines on standard error, without ours."""
    files: dict[str, str]
    """Path of what it wrote to hash."""
    witnesses: dict[int, Witness] = field(default_factory=dict)
    """Rank to what it told of its end."""
    seconds: float = 0.0
    """Wall time."""


def observe(command: Sequence[str], folder: Path, capture: Capture | None, keep_bytes: int = 0) -> Observed:
    """Run a command in the present directory and return what can be seen of it.

    What it writes goes to a temporary directory, as in a trial; it has no standard input.

    Args:
        command: Program and arguments.
        folder: Empty directory of the run; gets the recording as `RUN`.
        capture: How it is recorded; None: not at all.
        keep_bytes: Budget for tensor bytes of a rank.
    """
    (folder / RUN).mkdir()
    write_view(folder)
    cwd = str(Path.cwd())
    settings = Settings(
        run=str(folder / RUN),
        command=tuple(command),
        cwd=cwd,
        options=RecordOptions(capture=capture or Capture.DIGEST, keep_bytes=keep_bytes),
        bootstrap=str(DIRECTORY),
        trial=TrialSettings(stop_after_step=sys.maxsize, scratch=str(folder)),
        witness=WitnessSettings(folder=str(folder), losses=True, recording=capture is not None),
    )
    variables = dict(os.environ)
    environment = environment_for(settings, variables | apart(folder, variables))
    ended = run(Launch(command=tuple(command), environment=environment, cwd=cwd), folder, math.inf, separate=True)
    return Observed(
        capture="" if capture is None else str(capture),
        status=ended.status,
        output=_lines(folder / OUTPUT, folder),
        errors=tuple(line for line in _lines(folder / ERRORS, folder) if not line.startswith(_OURS)),
        files=_files(folder / FILES),
        witnesses=read_witnesses(folder),
        seconds=ended.seconds,
    )


def _lines(path: Path, folder: Path) -> tuple[str, ...]:
    """Return the lines of an output; the name of the run's own folder, another in each run, is taken out."""
    return tuple(path.read_bytes().decode("utf-8", "replace").replace(str(folder), "TMPDIR").splitlines())


def _files(layer: Path) -> dict[str, str]:
    paths = sorted(path for path in layer.rglob("*") if path.is_file() and not path.is_symlink())
    return {f"/{path.relative_to(layer)}": hash_file(path) for path in paths}
