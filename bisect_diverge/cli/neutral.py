"""``bd neutral``: does recording change what a command does?"""

from __future__ import annotations

import sys

import click

from bisect_diverge.cli.options import form_option
from bisect_diverge.cli.output import paint, put, put_text

STATUS = {"neutral": 0, "changed": 1, "inconclusive": 3}
"""Verdict to exit status."""


@click.command(
    "neutral",
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
@click.option(
    "--capture",
    type=click.Choice(["digest", "full"]),
    default="digest",
    show_default=True,
    help="How the recorded run is recorded.",
)
@click.option("--keep", metavar="SIZE", default="4G", show_default=True, help="Budget for tensor bytes of a rank.")
@form_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def command(capture: str, keep: str, form: str, command: tuple[str, ...]) -> None:
    """Run COMMAND unrecorded and recorded, and say whether recording changes it.

    Compared are: exit status, output, losses, final parameters, optimizer state and buffers, generators, graph breaks,
    process state, and the files that it writes. Where the two differ it is run unrecorded once more, so that what never
    repeats itself is told apart from what recording changes. What it writes with Python goes to a temporary directory,
    as in a trial (docs/trials.md); it gets no standard input.

    Exit status: 0 nothing is changed, 1 something is, 2 trouble with the input, 3 the command does not repeat itself.

    \b
    bd neutral -- python train.py --steps 20
    bd neutral --capture full -- torchrun --nproc_per_node 2 train.py
    """
    from bisect_diverge.model.run import Capture
    from bisect_diverge.record.launch import find_program
    from bisect_diverge.record.options import parse_size
    from bisect_diverge.report.neutral_json import neutral_json
    from bisect_diverge.report.neutral_text import neutral_text
    from bisect_diverge.trial.neutral import neutrality
    from bisect_diverge.trial.workspace import Workspace

    keep_bytes = parse_size(keep)
    find_program(command)
    with Workspace() as workspace:
        found = neutrality(command, Capture(capture), workspace, keep_bytes=keep_bytes, announce=_announce)
    if form == "json":
        put(neutral_json(found))
    else:
        put_text(neutral_text(found, paint=paint()), whole_words=True)
    sys.exit(STATUS[found.verdict])


def _announce(what: str) -> None:
    click.echo(f"bd: running it {what} ...", err=True)
