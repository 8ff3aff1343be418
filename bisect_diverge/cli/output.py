"""Where a result goes: standard output, or a file that is there whole or not at all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from bisect_diverge.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

FORMATS = ("text", "json", "markdown", "html")


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
