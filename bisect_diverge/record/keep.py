"""Keeps, beside a finished recording, the code that it was made with and that no commit has."""

from __future__ import annotations

from pathlib import Path

from bisect_diverge.environment.modules import keep_modules
from bisect_diverge.store.reader import Run


def keep_code(run: Path, cwd: Path, *, on: bool = True) -> None:
    """Copy small files of code that the run has loaded into it: ignored ones, those of submodules, those elsewhere.

    Args:
        run: Directory of the run.
        cwd: Its working directory.
        on: Whether copies are kept at all.
    """
    if not on:
        return
    try:
        with Run(run) as recorded:
            for file in recorded.ranks.values():
                keep_modules(run, cwd, file.record.environment.settings)
    except Exception:  # what became of the recording is said by whoever reads it; the user's block goes on
        return
