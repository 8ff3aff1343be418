"""Where a result goes: standard output, or a file that is there whole or not at all."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from bisect_diverge.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from bisect_diverge.report.words import Paint

_LOOKS = {"bad": {"fg": "red", "bold": True}, "good": {"fg": "green", "bold": True}, "title": {"bold": True}}
"""How a role of a piece of text looks on a terminal."""


def put(text: str, path: Path | None = None) -> None:
    """Print a result, or write it to a file, which is replaced as a shell's ``>`` would.

    A lone surrogate, as of a file name that is not valid Unicode, is written as its escape, which JSON reads back.

    Raises:
        UsageError: if the file cannot be written.
    """
    text = text.encode("utf-8", "backslashreplace").decode()
    if path is None:
        click.echo(text)
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text + "\n", encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written: {error.strerror or error}", hint="choose another file") from error


def paint() -> Paint:
    """Return what gives text its look: none where standard output is no terminal, or colour is not wanted."""
    from bisect_diverge.report.words import plain

    if os.environ.get("NO_COLOR") or not sys.stdout.isatty():
        return plain
    return lambda text, role: click.style(text, **_LOOKS[role])  # type: ignore[arg-type]
