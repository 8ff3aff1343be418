"""The command ``bd``: a table of verbs, each imported only when it is used."""

from __future__ import annotations

import importlib
import os
import signal
import sys

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


class _Verbs(click.Group):
    """Loads a verb's module only when that verb is called, so that ``bd --help`` stays quick."""

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
    """Run the command line; every error of ours is one message and status 2."""
    try:
        status = _bd.main(prog_name="bd", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except click.exceptions.Abort:
        status = 130
    except BisectDivergeError as error:
        click.echo(f"bd: {error}", err=True)
        status = error.exit_code
    except BrokenPipeError:  # `bd show RUN | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 128 + signal.SIGPIPE
    sys.exit(status if isinstance(status, int) else 0)
