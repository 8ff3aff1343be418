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


def put_text(text: str, *, whole_words: bool = False) -> None:
    """Print a text for people, folded to the columns of every report.

    Args:
        text: The text.
        whole_words: Leave words that are wider than a line as they are: addresses and paths that are to be copied.
    """
    from bisect_diverge.report.fold import fold

    put(fold(text, whole_words=whole_words))


def check_writable(path: Path | None) -> None:
    """Refuse a file that `put` could not write, before hours are spent on what it should hold.

    Raises:
        UsageError: if it cannot be written.
    """
    if path is None:
        return
    trouble = "No such directory" if not path.parent.is_dir() else ""
    if not trouble and not os.access(path.parent, os.W_OK):
        trouble = "Permission denied"
    if trouble:
        raise UsageError(f"{path} cannot be written: {trouble}", hint="choose another file")


def make_folder(path: Path | None) -> None:
    """Make a folder that trials are kept in, before the first of them runs.

    Raises:
        UsageError: if it cannot be made or written to.
    """
    if path is None:
        return
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be made: {error.strerror or error}", hint="choose another folder") from error
    if not os.access(path, os.W_OK):
        raise UsageError(f"{path} cannot be written to: Permission denied", hint="choose another folder")


def paint() -> Paint:
    """Return what gives text its look: none where standard output is no terminal, or colour is not wanted."""
    from bisect_diverge.report.words import plain

    if os.environ.get("NO_COLOR") or not sys.stdout.isatty():
        return plain
    return lambda text, role: click.style(text, **_LOOKS[role])  # type: ignore[arg-type]
