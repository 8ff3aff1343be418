"""``bd env``: what surrounded a run, or what differs between two."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from bisect_diverge.cli.inside import inside
from bisect_diverge.cli.options import form_option
from bisect_diverge.cli.output import put, put_text

if TYPE_CHECKING:
    from bisect_diverge.model.environment import Environment
    from bisect_diverge.store.reader import Run

LAYERS = (
    "source",
    "dataset",
    "features",
    "configuration",
    "dependencies",
    "runtime",
    "hardware",
    "kernels",
    "seeds",
)


@click.command("env", epilog="\b\nbd env runs/a --layer hardware\nbd env runs/a runs/b")
@click.argument("run_a", metavar="RUN")
@click.argument("run_b", metavar="[RUN_B]", required=False)
@click.option("--layer", "layers", type=click.Choice(LAYERS), multiple=True, help="Show this layer only.")
@click.option("--rank", type=click.IntRange(min=0), metavar="N", help="Rank to show.  [default: the lowest]")
@form_option
def command(run_a: str, run_b: str | None, layers: tuple[str, ...], rank: int | None, form: str) -> None:
    """Show what surrounded RUN, layer by layer; with RUN_B only what differs.

    Requested settings are inputs: variables, flags, files, packages, seeds. Resolved ones are what they came
    to inside the process. A difference that follows from another is listed below it. Where inputs of several layers
    differ it says so, and what a clean comparison would leave as in RUN.

    Exit status with two runs: 0 when nothing differs, 1 when something does.
    """
    from bisect_diverge.store.reader import Run

    with Run(run_a) as a:
        if run_b is None:
            _show(_environment(a, rank), layers, _rank(a, rank), form)
            return
        with Run(run_b) as b:
            differs = _compare(a, b, layers, rank, form)
    sys.exit(1 if differs else 0)


def _show(environment: Environment, names: tuple[str, ...], rank: int, form: str) -> None:
    from bisect_diverge.model.environment import Layer
    from bisect_diverge.report.environment_json import environment_json
    from bisect_diverge.report.environment_text import environment_text

    layers = [layer for layer in Layer if layer in names]
    if form == "json":
        _print_json(environment_json(environment, rank, layers))
    else:
        put_text(environment_text(environment, layers))


def _compare(a: Run, b: Run, names: tuple[str, ...], rank: int | None, form: str) -> bool:
    """Print what differs on one rank, say on which others there is more, and return whether anything does."""
    from bisect_diverge.environment.confounded import inputs
    from bisect_diverge.environment.differences import differences, not_compared
    from bisect_diverge.report.environment_json import differences_json
    from bisect_diverge.report.environment_text import confounded_text, differences_text, pins

    one, other = _environment(a, rank), _environment(b, rank)
    found = [d for d in differences(one, other) if not names or d.layer in names]
    skipped = [row for row in not_compared(one, other) if not names or row.layer in names]
    made = inputs(found, one, other)
    if form == "json":
        _print_json(differences_json(found, skipped, _rank(a, rank)) | {"confounded": pins(made)})
    else:
        text = differences_text(found, skipped, inside(a, b, found, rank))
        put_text("\n".join(filter(None, (text, confounded_text(made)))))
    more = []
    for further in sorted(a.ranks.keys() & b.ranks.keys() - {_rank(a, rank)}) if rank is None else ():
        there = differences(_environment(a, further), _environment(b, further))
        if [d for d in there if (not names or d.layer in names) and d not in found]:
            more.append(further)
    for further in more:
        hint = f"bd env {a.path} {b.path} --rank {further}"
        click.echo(f"bd: rank {further} differs in other ways too\n  {hint}", err=True)
    return bool(found or more)


def _rank(run: Run, rank: int | None) -> int:
    return min(run.ranks) if rank is None else rank


def _environment(run: Run, rank: int | None) -> Environment:
    from bisect_diverge.errors import UsageError

    file = run.ranks.get(_rank(run, rank))
    if file is None:
        ranks = ", ".join(map(str, sorted(run.ranks)))
        raise UsageError(f"{run.path} has no rank {rank}", hint=f"it has: {ranks}")
    return file.record.environment


def _print_json(document: object) -> None:
    put(json.dumps(document, indent=2, ensure_ascii=False))
