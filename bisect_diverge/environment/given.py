"""The variables that this process was started with, whatever the script has done to them since."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_remembered: dict[str, str] | None = None


def remember(variables: Mapping[str, str]) -> None:
    """Take `variables` as what this process was started with: a copy made before the script ran."""
    global _remembered  # noqa: PLW0603 - one process is started once
    _remembered = dict(variables)


def as_given() -> dict[str, str] | None:
    """Return the variables that this process was started with; None if that is not known.

    The kernel keeps them, but a program that renames its process (setproctitle) writes over them.
    """
    if _remembered is not None:
        return dict(_remembered)
    try:
        entries = Path("/proc/self/environ").read_bytes().removesuffix(b"\0").split(b"\0")
    except OSError:
        return None
    if not all(b"=" in entry for entry in entries):
        return None
    given = {}
    for entry in entries:
        name, _, value = os.fsdecode(entry).partition("=")
        given[name] = value
    return given
