"""Which files a recorded process writes; and in a trial, where it writes them instead.

Standard library only, and as little of it as can be: every Python process below ``bd record`` imports this first.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing would cost every process three milliseconds
    from typing import Any

IGNORED = ("/dev/", "/proc/", "/sys/")
"""No files of the user's."""
MOST = 10_000
"""Paths that are remembered; a run that writes more is a run that writes samples."""

_writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_found: dict[str, str] = {}
_called = False
_pid = 0


def begin(settings: str) -> None:
    """Note from now on what this process writes; in a trial, divert it.

    Args:
        settings: JSON of `record.settings.Settings`.
    """
    global _pid  # noqa: PLW0603 - one process is watched once
    if '"trial": null' in settings:
        if not _pid:
            _pid = os.getpid()
            sys.addaudithook(_watch)
        return
    import json

    from bisect_diverge.record.divert import VIEW, divert

    trial = json.loads(settings)["trial"]
    if trial and trial["scratch"]:
        with open(f"{trial['scratch']}/{VIEW}", encoding="utf-8") as file:  # noqa: PTH123 - see the top
            view = json.load(file)
        divert(trial["scratch"], view["hidden"], view["remade"])


def first_call() -> None:
    """Say that the first module is being called: what is made from now on is an output."""
    global _called  # noqa: PLW0603 - see `begin`
    _called = True


def written() -> dict[str, str]:
    """Return what was written so far: absolute path to a word of `model.run.Written`."""
    return dict(_found)


def note(path: Any) -> None:
    """Note that a file or folder is about to be written."""
    if not isinstance(path, str | bytes | os.PathLike) or len(_found) >= MOST:
        return
    absolute = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - links are the user's; pathlib is not imported yet
    if absolute in _found or absolute.startswith(IGNORED) or "/__pycache__/" in absolute:
        return
    there = os.path.lexists(absolute)
    _found[absolute] = "changed" if there else "output" if _called else "prepared"


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Look at the interpreter's own notices: nothing is wrapped, so nothing behaves otherwise."""
    try:
        if event == "open":
            path, mode, flags = arguments
            written_to = any(c in "wax+" for c in mode) if isinstance(mode, str) else bool(flags & _writes)
            if written_to and os.getpid() == _pid:
                note(path)
        elif event == "os.mkdir" and os.getpid() == _pid:
            note(arguments[0])
        elif event == "os.rename" and os.getpid() == _pid:
            note(arguments[1])
    except Exception:  # the user's open() must not fail because of us
        return
