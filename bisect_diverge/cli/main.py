"""The command ``bd``: a table of verbs, each imported only when it is used."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from bisect_diverge import __version__
from bisect_diverge.errors import BisectDivergeError

VERBS = {
    "record": "Run a training script and record it.",
    "diff": "Where do two runs stop being bit-identical?",
    "walk": "The same, in a terminal UI.",
    "bisect": "Which difference of the environment makes two runs diverge?",
    "vary": "Which knobs of this machine change the bits of a script?",
    "trial": "Run a recorded run again with one thing changed.",
    "replay": "Which module calls compute otherwise, each given A's own tensors?",
    "neutral": "Does recording change what a script computes?",
    "show": "What a run holds, or one of its tensors.",
    "export": "Write the tensors of a run as HDF5 datasets, .npz or .pt files.",
    "check": "Are the files of a run whole?",
    "env": "What surrounded a run, or what differs between two.",
}
"""Verb to its line in ``bd --help``; the command object is ``command`` in ``cli/<verb>.py``."""

ALIASES = {"tui": "walk"}
CLOSED_PIPE = 128 + signal.SIGPIPE
"""Exit status where nobody reads our output any more."""


class _ClosedPipeError(Exception):
    """Nobody reads our output any more; click, which looks for an `OSError`, would end with status 1."""


@contextmanager
def _telling_closed_pipes() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise _ClosedPipeError from error


class _Verbs(click.Group):
    """Loads a verb's module only when that verb is called, so that ``bd --help`` stays quick."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the command line; ``--help`` and ``--version`` print here."""
        with _telling_closed_pipes():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb."""
        with _telling_closed_pipes():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order in which a newcomer meets them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of a verb; None for an unknown word."""
        verb = ALIASES.get(cmd_name, cmd_name)
        if verb not in VERBS:
            return None
        module = importlib.import_module(f"bisect_diverge.cli.{verb}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name near misses where click would only say that there is no such command."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            close = difflib.get_close_matches(args[0], [*VERBS, *ALIASES])
            if not close:
                raise
            raise click.UsageError(f"{error.message} Did you mean {' or '.join(close)}?", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of verbs from `VERBS`, importing none of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.command(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="bd")
def _bd() -> None:
    """Find where two training runs stop being bit-identical.

    \b
    bd record -o runs/a -- python train.py
    OMP_NUM_THREADS=1 bd record -o runs/b -- python train.py
    bd diff runs/a runs/b
    """


def main() -> None:
    """Run the command line; every error of ours is one message and status 2.

    Whose output nobody reads any more (``bd show RUN | head``) ends silently, with the status of a command that SIGPIPE
    has killed: 1 would say that nothing differs.
    """
    try:
        status = _status()
    except (_ClosedPipeError, BrokenPipeError):
        status = CLOSED_PIPE
    _discard_the_rest()
    sys.exit(status)


def _status() -> int:
    status: object
    try:
        status = _bd.main(prog_name="bd", standalone_mode=False)
    except SystemExit as end:
        status = end.code
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except click.exceptions.Abort:
        status = 130
    except BisectDivergeError as error:
        # A name out of a damaged file need not be text that can be written.
        click.echo(f"bd: {error}".encode("utf-8", "backslashreplace").decode(), err=True)
        status = error.exit_code
    return status if isinstance(status, int) else 0


def _discard_the_rest() -> None:
    """Let what a closed pipe does not take go nowhere: Python would complain of it when it ends, with status 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
