"""``bd walk``: the comparison of two runs in a terminal UI."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from bisect_diverge.cli.diff import command as diff
from bisect_diverge.cli.diff import typed
from bisect_diverge.errors import NotComparableError, UsageError

_OF_DIFF = ("a", "b", "ignore", "from_step", "offset_b", "renamed")
"""Parameters of ``bd diff`` that ``bd walk`` has too; they are defined there, once."""


@click.command(
    "walk",
    params=[parameter for parameter in diff.params if parameter.name in _OF_DIFF],
    epilog="\b\nbd walk runs/a runs/b\nbd walk runs/a runs/b --from 100 --theme light",
)
@click.option(
    "--theme",
    default="dark",
    show_default=True,
    metavar="NAME",
    help="Colours: dark, light, ansi-dark, ansi-light, or any theme of Textual.",
)
def command(
    *,
    a: str,
    b: str,
    ignore: tuple[str, ...],
    from_step: int,
    offset_b: int,
    renamed: tuple[tuple[str, str], ...],
    theme: str,
) -> None:
    """Walk through the comparison of run A and run B, record by record.

    Needs a terminal; `bd diff A B` prints the same result anywhere. The key ? lists all keys.
    """
    if not _on_terminal():
        raise UsageError("bd walk needs a terminal", hint=f"bd diff {a} {b} prints the same result anywhere")
    from bisect_diverge.diff.compare import compare
    from bisect_diverge.diff.options import DiffOptions
    from bisect_diverge.model.divergence import Verdict
    from bisect_diverge.store.reader import Run
    from bisect_diverge.tui.app import walk
    from bisect_diverge.tui.columns import of_files
    from bisect_diverge.tui.commands import Commands

    options = DiffOptions(ignore=ignore, from_step=from_step, offset_b=offset_b, renamed=renamed)
    with Run(a) as run_a, Run(b) as run_b:
        with _saying(f"comparing {a} and {b} ..."):
            comparison = compare(run_a, run_b, options)
        if comparison.divergence.verdict is Verdict.NOT_COMPARABLE:
            raise NotComparableError(f"{a} and {b} cannot be compared: {comparison.divergence.notes[0]}")
        commands = Commands(a, b, typed(options))
        status = walk(comparison, commands, of_files(run_a, run_b), theme)
    sys.exit(status)


def _on_terminal() -> bool:
    """Whether a person sits at a terminal that can show a screen."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def _saying(text: str) -> Iterator[None]:
    """Show a line on the terminal while something takes its time, and remove it afterwards."""
    shown = sys.stderr.isatty()
    click.echo(text, err=True, nl=False) if shown else None
    try:
        yield
    finally:
        click.echo("\r\x1b[K", err=True, nl=False) if shown else None
