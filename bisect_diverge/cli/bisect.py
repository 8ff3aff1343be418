"""``bd bisect``: which difference of the environment makes two runs diverge."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bisect_diverge.cli.diff import _paint

if TYPE_CHECKING:
    from bisect_diverge.cli.progress import Progress
    from bisect_diverge.model.address import Address
    from bisect_diverge.model.trial import Bisection
    from bisect_diverge.store.reader import Run
    from bisect_diverge.trial.units import Units

STATUS = {
    "cause": 0,
    "no-difference": 1,
    "by-elimination": 3,
    "inconclusive": 3,
    "baseline-not-repeatable": 4,
}
"""Verdict to exit status."""
COULD_NOT_RUN = 5

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def _seconds(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhd]?)\s*", text)
    if match is None:
        raise click.BadParameter("a time looks like 90s, 30m or 2h")
    return float(match[1]) * _UNITS[match[2]]


def _layers(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    from bisect_diverge.model.environment import Layer

    names = tuple(name.strip() for value in values for name in value.split(",") if name.strip())
    if values and not names:
        raise click.BadParameter(f"name a layer; there are {', '.join(Layer)}")
    unknown = [name for name in names if name not in set(Layer)]
    if unknown:
        raise click.BadParameter(f"no such layer: {', '.join(unknown)}; there are {', '.join(Layer)}")
    return names


@click.command("bisect")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--plan", is_flag=True, help="Say what would be moved and what it would cost, and run nothing.")
@click.option("--max-trials", type=click.IntRange(min=1), metavar="N", help="Stop after so many trials.")
@click.option("--budget", callback=_seconds, metavar="TIME", help="Stop after this time (90s, 30m, 2h).")
@click.option(
    "--mode",
    type=click.Choice(["chain", "matrix"]),
    default="chain",
    show_default=True,
    help="Halve the differences, or try each of them alone and each left out.",
)
@click.option("--only", callback=_layers, multiple=True, metavar="LAYER,...", help="Move these layers only.")
@click.option(
    "--skip", callback=_layers, multiple=True, metavar="LAYER,...", help="Leave these layers as they are in A."
)
@click.option(
    "--repeat", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Replays of A and of B."
)
@click.option("--offset-b", type=int, default=0, metavar="STEP", help="A's step at which a resumed B begins.")
@click.option(
    "-j", "--jobs", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Trials at a time."
)
@click.option("--resume/--fresh", default=True, help="Use the trials of an earlier search, or forget them.  [resume]")
@click.option("--keep-trials", metavar="DIR", type=click.Path(path_type=Path), help="Keep the trials' folders there.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)
@click.option(
    "--progress",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What stderr gets while trials run; json: an object a line, and SIGUSR1 stops after the running trial.",
)
@click.option(
    "--ui",
    type=click.Choice(["auto", "plain", "tui"]),
    default="auto",
    show_default=True,
    help="tui: watch and stop the search on a screen. Otherwise lines on stderr.",
)
def command(a: str, b: str, only: tuple[str, ...], skip: tuple[str, ...], form: str, **options: Any) -> None:
    """Find which difference between the environments of A and B makes B diverge from A.

    Runs A's command again and again with some settings taken from B, each time to the step after the divergence, and
    compares the bits. What a trial writes with Python goes to a temporary directory; docs/trials.md lists what that
    does not cover.

    Exit status: 0 cause proved, 1 nothing differs, 2 trouble with the input, 3 inconclusive, 4 A does not repeat
    itself, 5 trials could not run.

    \b
    bd bisect runs/a runs/b --plan
    bd bisect runs/a runs/b
    bd bisect runs/a runs/b --only kernels,hardware --budget 2h
    """
    if options["ui"] == "tui" and not options["plan"]:
        _watch(a, b, form, {**options, "only": only, "skip": skip})
    from bisect_diverge.cli.progress import JsonProgress, Progress
    from bisect_diverge.store.reader import Run
    from bisect_diverge.trial.search import differing_units, first_divergence

    progress = (JsonProgress if options["progress"] == "json" else Progress)(options["keep_trials"], options["jobs"])
    with Run(a) as run_a, Run(b) as run_b:
        first = first_divergence(run_a, run_b, options["offset_b"])
        units = differing_units(run_a, run_b, only, skip)
        if options["plan"] and first is not None:
            _show_plan(run_a, units, first, options["mode"], form)
            return
        with progress:
            bisection = _search(run_a, run_b, units, first, options, progress)
            progress.result(bisection)
    _show(bisection, a, b, form)
    sys.exit(_status(bisection))


def _search(
    a: Run, b: Run, units: Units, first: Address | None, options: dict[str, Any], progress: Progress
) -> Bisection:
    from bisect_diverge.bisector.search import bisect
    from bisect_diverge.model.trial import Bisection, BisectVerdict, Budget, SearchOptions
    from bisect_diverge.trial.search import TrialOptions, changes, trials, with_changes, with_left_over, with_what_moved

    if first is None:
        return Bisection(verdict=BisectVerdict.NO_DIFFERENCE)
    progress.planned(units, _most(len(units.units), options["mode"]), first)
    said = changes(a)
    if said and options["progress"] != "json":  # there every line is an object, and the notes say it
        click.echo(f"bd: {said}", err=True)
    settings = TrialOptions(
        offset_b=options["offset_b"],
        fresh=not options["resume"],
        keep=progress.keep,
        should_stop=progress.should_stop,
        announce=progress.announce,
    )
    budget = Budget(trials=options["max_trials"], seconds=options["budget"], repeats=options["repeat"])
    with trials(a, b, first, settings) as oracle:
        units = with_left_over(units, oracle, b)
        progress.planned(units, _most(len(units.units), options["mode"]), first)
        bisection = bisect(
            units.units,
            oracle,
            SearchOptions(mode=options["mode"], budget=budget, jobs=options["jobs"]),
            untestable=units.untestable,
            on_trial=progress.on_trial,
            should_stop=progress.should_end,
            first=first,
        )
    return with_changes(with_what_moved(bisection), a)


def _most(units: int, mode: str) -> int:
    """Return how many trials one cause among some units costs at most."""
    if mode == "matrix":
        return 2 * units + 2
    return 4 + math.ceil(math.log2(max(units, 1)))


def _watch(a: str, b: str, form: str, options: dict[str, Any]) -> None:
    """Show the search on a screen; afterwards print what came of it, and end with its status."""
    from bisect_diverge.cli.walk import _on_terminal
    from bisect_diverge.errors import UsageError

    if not _on_terminal():
        raise UsageError("--ui tui needs a terminal", hint=f"bd bisect {a} {b} prints the same result anywhere")
    from bisect_diverge.tui.app import watch

    found = watch(a, b, _typed(options))
    if found.result is None:
        click.echo(found.message, err=True) if found.message else None
        sys.exit(found.status or 130)
    _show(found.result, a, b, form)
    sys.exit(_status(found.result))


def _typed(options: dict[str, Any]) -> tuple[str, ...]:
    """Return options as they are typed, for a search in another process."""
    words = [f"--{name}={layer}" for name in ("only", "skip") for layer in options[name]]
    for name in ("max_trials", "mode", "repeat", "offset_b", "jobs", "keep_trials"):
        words += [] if options[name] is None else [f"--{name.replace('_', '-')}={options[name]}"]
    words += [] if options["budget"] is None else [f"--budget={options['budget']}s"]
    return (*words, "--resume" if options["resume"] else "--fresh")


def _show_plan(a: Run, units: Units, first: Address, mode: str, form: str) -> None:
    from bisect_diverge.bisector.price import price
    from bisect_diverge.environment.apply import rule_for
    from bisect_diverge.model.trial import SearchOptions
    from bisect_diverge.report.plan_text import Plan, plan_json, plan_text

    file = a.first
    cost = price(units.units, SearchOptions(mode=mode))
    plan = Plan(
        first=first,
        units=units.units,
        ways=[str(rule_for(unit.layer, unit.knob).way) for unit in units.units],
        untestable=units.untestable,
        least=cost.least,
        typical=cost.typical,
        most=cost.most,
        last_step=first.step + 1,
        steps=file.steps,
        seconds=max(0.0, file.path.stat().st_mtime - file.status.started),
    )
    click.echo(plan_json(plan) if form == "json" else plan_text(plan, _paint()))


def _show(bisection: Bisection, a: str, b: str, form: str) -> None:
    from bisect_diverge.report.bisection_json import bisection_json
    from bisect_diverge.report.bisection_text import bisection_text

    click.echo(bisection_json(bisection) if form == "json" else bisection_text(bisection, a, b, _paint()))


def _status(bisection: Bisection) -> int:
    swapping = [trial for trial in bisection.trials if trial.swapped]
    if swapping and all(trial.outcome == "skip" for trial in swapping) and bisection.finished:
        return COULD_NOT_RUN
    return STATUS[str(bisection.verdict)]
