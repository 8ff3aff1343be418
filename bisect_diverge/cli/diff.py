"""``bd diff``: where two runs stop being bit-identical."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from bisect_diverge.report.words import Paint

_LOOKS = {"bad": {"fg": "red", "bold": True}, "good": {"fg": "green", "bold": True}, "title": {"bold": True}}


def _renamed(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    pairs = [value.partition("=") for value in values]
    if not all(equals and new for _, equals, new in pairs):
        raise click.BadParameter("give OLD=NEW: a root, an FQN or root:fqn in A, and what B calls it")
    return tuple((old, new) for old, _, new in pairs)


@click.command("diff")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)
@click.option(
    "--ignore",
    "ignore",
    multiple=True,
    metavar="GLOB",
    help="Leave out records whose address or FQN matches.",
)
@click.option(
    "--from",
    "from_step",
    type=click.IntRange(min=0),
    default=0,
    metavar="STEP",
    help="First step to compare.",
)
@click.option(
    "--offset-b",
    "offset_b",
    type=int,
    default=0,
    metavar="STEP",
    help="A's step at which a resumed B begins.",
)
@click.option(
    "--map",
    "renamed",
    multiple=True,
    metavar="OLD=NEW",
    callback=_renamed,
    help="Module OLD of A is NEW in B.",
)
def command(a: str, b: str, form: str, **options: Any) -> None:
    """Say where run B stops being bit-identical to run A.

    Exit status: 0 when nothing differs, 1 when something does, 2 when the runs cannot be read or compared.

    \b
    bd diff runs/a runs/b
    bd diff runs/a runs/b --ignore '*/rng/*' --format json
    bd diff runs/a runs/resumed --offset-b 500
    """
    from bisect_diverge.diff.compare import compare
    from bisect_diverge.diff.options import DiffOptions
    from bisect_diverge.errors import NotComparableError
    from bisect_diverge.model.divergence import Verdict
    from bisect_diverge.report.divergence_json import divergence_json
    from bisect_diverge.report.divergence_text import divergence_text
    from bisect_diverge.store.reader import Run

    with Run(a) as run_a, Run(b) as run_b:
        divergence = compare(run_a, run_b, DiffOptions(**options)).divergence
    if form == "json":
        click.echo(divergence_json(divergence))
    elif divergence.verdict is not Verdict.NOT_COMPARABLE:
        click.echo(divergence_text(divergence, a, b, _paint()))
    if divergence.verdict is Verdict.NOT_COMPARABLE:
        raise NotComparableError(f"{a} and {b} cannot be compared: {divergence.notes[0]}")
    sys.exit(1 if divergence.verdict is Verdict.DIVERGED else 0)


def _paint() -> Paint:
    from bisect_diverge.report.words import plain

    if os.environ.get("NO_COLOR") or not sys.stdout.isatty():
        return plain
    return lambda text, role: click.style(text, **_LOOKS[role])  # type: ignore[arg-type]
