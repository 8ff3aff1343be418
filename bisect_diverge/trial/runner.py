"""Runs one command to its end, with its output kept; whatever happens, nothing of it stays behind."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.record.settings import VARIABLE, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

GUARD = Path(__file__).with_name("guard.py")
OUTPUT = "output.log"
"""File in the folder of a trial: what it printed."""
ERRORS = "errors.log"
"""What it printed on standard error, where that is kept apart."""
POLL_SECONDS = 0.05
TAIL_BYTES = 4000
"""Output that is read again to say why a command failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Everything that makes a process what it is."""

    command: tuple[str, ...]
    """Program and arguments."""
    environment: dict[str, str]
    """All its variables."""
    cwd: str
    """Working directory."""
    processors: tuple[int, ...] = ()
    """Processors that it may run on; empty: those that we may."""
    inherited: Mapping[str, int] = field(default_factory=dict)
    """``umask`` and limits of the operating system (``nofile``) that it has; those that are not named are ours."""

    @property
    def settings(self) -> Settings:
        """How it is recorded."""
        return Settings.from_json(self.environment[VARIABLE])

    def recorded_as(self, settings: Settings) -> Launch:
        """Return the same, recorded in another way."""
        return replace(self, environment=self.environment | {VARIABLE: settings.to_json()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended."""

    status: int
    """Exit status, 128+n for a signal."""
    timed_out: bool
    """It was ended because its time was up."""
    stopped: bool
    """It was ended because the search was."""
    seconds: float
    """Wall time."""
    output: str
    """The end of what it printed."""


def run(
    launch: Launch,
    folder: Path,
    seconds: float,
    should_stop: Callable[[], bool] = lambda: False,
    *,
    separate: bool = False,
) -> Ended:
    """Run a command in a session of its own.

    Args:
        launch: What to run.
        folder: Directory of the trial; gets `OUTPUT`. Removed if this process is killed.
        seconds: Time after which it is ended.
        should_stop: Asked while it runs.
        separate: What it prints on standard error goes to `ERRORS` instead.
    """
    log = folder / OUTPUT
    theirs, ours = os.pipe()
    began = time.monotonic()
    words = [sys.executable, "-I", "-S", str(GUARD), str(theirs), str(folder), _inherited(launch), *launch.command]
    timed_out = stopped = False
    try:
        with log.open("wb") as output, (folder / ERRORS if separate else Path(os.devnull)).open("wb") as errors:
            guard = subprocess.Popen(
                words,
                cwd=launch.cwd,
                env=launch.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors if separate else subprocess.STDOUT,
                pass_fds=(theirs,),
                start_new_session=True,
            )
        os.close(theirs)
        theirs = -1
        try:
            while not _ended(guard, POLL_SECONDS):
                timed_out = time.monotonic() - began > seconds
                stopped = should_stop()
                if timed_out or stopped:
                    break
        finally:
            with contextlib.suppress(OSError):  # it has ended by itself
                os.write(ours, b".")  # on purpose
            os.close(ours)  # ends whatever is left
            ours = -1
            guard.wait()
    finally:
        for end in (theirs, ours):
            if end >= 0:
                os.close(end)
    return Ended(
        status=guard.returncode,
        timed_out=timed_out,
        stopped=stopped,
        seconds=time.monotonic() - began,
        output=_tail(log),
    )


def _inherited(launch: Launch) -> str:
    processors = [f"processors={','.join(map(str, launch.processors))}"] if launch.processors else []
    return " ".join((*processors, *(f"{name}={value}" for name, value in launch.inherited.items())))


def _ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _tail(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:  # removed with the folder: the command was ended
        return ""


def last_words(output: str, words: Sequence[str] = ()) -> str:
    """Return the line of an output that says most about a failure: the last with one of some words, else the last."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for line in reversed(lines):
        if any(word in line for word in words):
            return line
    return lines[-1] if lines else "it printed nothing"
