"""``bd diff``: where two runs stop being bit-identical."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bisect_diverge.cli.inside import inside
from bisect_diverge.cli.options import any_form_option, out_option
from bisect_diverge.cli.output import paint, put

if TYPE_CHECKING:
    from bisect_diverge.diff.options import DiffOptions
    from bisect_diverge.model.divergence import Divergence
    from bisect_diverge.report.words import Paint


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
@any_form_option
@out_option
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
    "--growth",
    "growth",
    is_flag=True,
    help="Say how the difference grows over the steps (reads tensors).",
)
@click.option(
    "--map",
    "renamed",
    multiple=True,
    metavar="OLD=NEW",
    callback=_renamed,
    help="Module OLD of A is NEW in B.",
)
def command(a: str, b: str, form: str, out: Path | None, **options: Any) -> None:
    """Say where run B stops being bit-identical to run A.

    Exit status: 0 when nothing differs, 1 when something does, 2 when the runs cannot be read or compared.

    \b
    bd diff runs/a runs/b
    bd diff runs/a runs/b --ignore '*/rng/*' --format json
    bd diff runs/a runs/resumed --offset-b 500
    bd diff runs/a runs/b --format html -o diff.html
    """
    from bisect_diverge.diff.compare import compare
    from bisect_diverge.diff.options import DiffOptions
    from bisect_diverge.errors import NotComparableError
    from bisect_diverge.model.divergence import Verdict
    from bisect_diverge.store.reader import Run

    asked = DiffOptions(**options)
    if form == "html":  # the page has charts of both
        options |= {"growth": True, "heat": True}
    with Run(a) as run_a, Run(b) as run_b:
        divergence = compare(run_a, run_b, DiffOptions(**options)).divergence
        details = inside(run_a, run_b, divergence.environment) if form == "text" else {}
    if form == "text" and divergence.verdict is not Verdict.NOT_COMPARABLE:
        put(_text(divergence, a, b, typed(asked), paint() if out is None else None, details), out)
    elif form == "json" or divergence.verdict is not Verdict.NOT_COMPARABLE:
        put(_FORMS[form](divergence, a, b, typed(asked)), out)
    if divergence.verdict is Verdict.NOT_COMPARABLE:
        raise NotComparableError(f"{a} and {b} cannot be compared: {divergence.notes[0]}")
    sys.exit(1 if divergence.verdict is Verdict.DIVERGED else 0)


def typed(asked: DiffOptions) -> tuple[str, ...]:
    """Return options of a comparison as they are typed, for commands that a reader may copy."""
    out = [word for glob in asked.ignore for word in ("--ignore", glob)]
    out += ["--from", str(asked.from_step)] if asked.from_step else []
    out += ["--offset-b", str(asked.offset_b)] if asked.offset_b else []
    out += [word for old, new in asked.renamed for word in ("--map", f"{old}={new}")]
    return tuple(out)


def _text(
    found: Divergence,
    a: str,
    b: str,
    options: tuple[str, ...],
    paint: Paint | None,
    details: dict[str, tuple[str, ...]],
) -> str:
    from bisect_diverge.report.divergence_text import divergence_text
    from bisect_diverge.report.words import plain

    return divergence_text(found, a, b, paint or plain, options=options, details=details)


def _json(found: Divergence, _a: str, _b: str, _options: tuple[str, ...]) -> str:
    from bisect_diverge.report.divergence_json import divergence_json

    return divergence_json(found)


def _markdown(found: Divergence, a: str, b: str, options: tuple[str, ...]) -> str:
    from bisect_diverge.report.divergence_markdown import divergence_markdown

    return divergence_markdown(found, a, b, options)


def _html(found: Divergence, a: str, b: str, options: tuple[str, ...]) -> str:
    from bisect_diverge.report.divergence_html import divergence_html

    return divergence_html(found, a, b, options)


_FORMS = {"json": _json, "markdown": _markdown, "html": _html}
