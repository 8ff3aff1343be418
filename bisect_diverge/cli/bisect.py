"""``bd bisect``: which difference of the environment makes two runs diverge."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bisect_diverge.cli.options import any_form_option, budget_option, image_cmd_option, layers, out_option, skip_option
from bisect_diverge.cli.output import paint, put

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.bisector.price import Price
    from bisect_diverge.cli.progress import Progress
    from bisect_diverge.model.address import Address
    from bisect_diverge.model.trial import Bisection, Unit, Untested
    from bisect_diverge.store.reader import Run
    from bisect_diverge.trial.oracle import Trials
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
UNRECORDED_RUNS = 2
"""Of A and of B, by the observer check."""
CLAMPED_RUNS = 2
"""Of A and of B, to see what they are with clamps."""


@click.command("bisect")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--plan", is_flag=True, help="Say what would be moved and what it would cost, and run nothing.")
@click.option("--max-trials", type=click.IntRange(min=1), metavar="N", help="Stop after so many trials.")
@budget_option
@click.option(
    "--mode",
    type=click.Choice(["chain", "matrix"]),
    default="chain",
    show_default=True,
    help="Halve the differences, or try each of them alone and each left out.",
)
@click.option("--only", callback=layers, multiple=True, metavar="LAYER,...", help="Move these layers only.")
@skip_option
@click.option(
    "--repeat", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Replays of A and of B."
)
@click.option(
    "--clamp",
    is_flag=True,
    help="Hold one thread, deterministic algorithms and PYTHONHASHSEED=0 in every trial; these cannot be blamed then.",
)
@click.option(
    "--observer-check/--no-observer-check",
    "observe",
    default=True,
    help="Run A and B once each without recording, to see whether that changes their bits.  [check]",
)
@click.option("--offset-b", type=int, default=0, metavar="STEP", help="A's step at which a resumed B begins.")
@click.option(
    "-j", "--jobs", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Trials at a time."
)
@click.option("--resume/--fresh", default=True, help="Use the trials of an earlier search, or forget them.  [resume]")
@image_cmd_option
@click.option("--keep-trials", metavar="DIR", type=click.Path(path_type=Path), help="Keep the trials' folders there.")
@any_form_option
@out_option
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

    Exit status: 0 cause proved, 1 nothing differs, 2 trouble with the input (A's command fails now, say),
    3 inconclusive, 4 A does not repeat itself, 5 no trial with B's values could run.

    \b
    bd bisect runs/a runs/b --plan
    bd bisect runs/a runs/b
    bd bisect runs/a runs/b --only kernels,hardware --budget 2h
    """
    if options["plan"] and form not in ("text", "json"):
        raise click.UsageError("--plan has the formats text and json")
    if options["ui"] == "tui" and not options["plan"]:
        _watch(a, b, form, {**options, "only": only, "skip": skip})
    from bisect_diverge.cli.progress import JsonProgress, Progress
    from bisect_diverge.store.reader import Run
    from bisect_diverge.trial.search import differing_units, first_divergence, left_out

    progress = (JsonProgress if options["progress"] == "json" else Progress)(options["keep_trials"], options["jobs"])
    with Run(a) as run_a, Run(b) as run_b:
        first = first_divergence(run_a, run_b, options["offset_b"])
        options["left_out"] = left_out(only, skip)
        units = differing_units(run_a, run_b, options["left_out"], options["image_cmd"])
        if options["plan"] and first is not None:
            _show_plan(run_a, units, first, options, form)
            return
        with progress:
            bisection = _search(run_a, run_b, units, first, options, progress)
            progress.result(bisection)
    _show(bisection, a, b, form, options["out"])
    sys.exit(_status(bisection))


def _search(
    a: Run, b: Run, units: Units, first: Address | None, options: dict[str, Any], progress: Progress
) -> Bisection:
    from bisect_diverge.model.trial import Bisection, BisectVerdict
    from bisect_diverge.trial.search import (
        TrialOptions,
        changes,
        trials,
        with_changes,
        with_held_seeds,
        with_prepared,
        with_what_moved,
    )
    from bisect_diverge.trial.unseeded import with_unseeded

    if first is None:
        return Bisection(verdict=BisectVerdict.NO_DIFFERENCE)
    progress.planned(units.units, units.untestable, _price(units.units, first, options).typical, first)
    said = changes(a)
    if said:
        progress.say(said)
    settings = TrialOptions(
        offset_b=options["offset_b"],
        fresh=not options["resume"],
        keep=progress.keep,
        should_stop=progress.should_stop,
        announce=progress.announce,
        observing=progress.observing,
        warn=progress.say,
        found=lambda more, cannot: progress.planned(more, cannot, _price(more, first, options).typical, first),
        units=units,
        left_out=options["left_out"],
        must_run=True,
        image_cmd=options["image_cmd"],
    )
    began = time.monotonic()
    with trials(a, b, first, settings) as oracle:
        if not options["clamp"]:
            bisection = _bisect(oracle, first, began, options, progress)
        else:
            bisection = _clamped(oracle, began, options, progress)
    bisection = with_prepared(with_held_seeds(with_unseeded(bisection), oracle), oracle)
    return with_changes(with_what_moved(bisection), a)


def _bisect(
    oracle: Trials,
    first: Address,
    began: float,
    options: dict[str, Any],
    progress: Progress,
    held: Sequence[Untested] = (),
) -> Bisection:
    """Search with an oracle; what it cost to make the oracle counts against the budget."""
    from bisect_diverge.bisector.search import bisect
    from bisect_diverge.model.trial import Budget, SearchOptions

    units = oracle.pair.units
    budget = Budget(
        trials=options["max_trials"],
        seconds=options["budget"],
        repeats=options["repeat"],
        used_trials=CLAMPED_RUNS if options["clamp"] else 0,
        used_seconds=time.monotonic() - began,
    )
    return bisect(
        units.units,
        oracle,
        SearchOptions(mode=options["mode"], budget=budget, jobs=options["jobs"], observe=options["observe"]),
        untestable=(*units.untestable, *held),
        on_trial=progress.on_trial,
        should_stop=progress.should_end,
        first=first,
        drill=oracle.parts,
    )


def _clamped(oracle: Trials, began: float, options: dict[str, Any], progress: Progress) -> Bisection:
    """Search with every clamp on in every trial, if A and B still differ then."""
    from bisect_diverge.errors import ReplayError
    from bisect_diverge.model.trial import Bisection, BisectVerdict
    from bisect_diverge.trial.search import clamped

    names = ", ".join(oracle.clamps())
    note = f"clamped in every trial: {names}; A and B are what they are with that, and it cannot be blamed"
    nothing = Bisection(verdict=BisectVerdict.INCONCLUSIVE, untestable=oracle.pair.units.untestable)
    try:
        with clamped(oracle) as (again, first, held):
            if first is None:
                lost = f"up to step {again.last_step} A and B do not differ then: the clamps take it away"
                return replace(nothing, notes=(note, lost), untestable=(*nothing.untestable, *held))
            units = again.pair.units
            progress.planned(
                units.units, (*units.untestable, *held), _price(units.units, first, options).typical, first
            )
            found = _bisect(again, first, began, options, progress, held)
            return replace(found, notes=(note, *found.notes))
    except ReplayError:
        if not progress.should_stop():
            raise
        return replace(nothing, notes=(note, "the search stopped early: stopped by the user"), finished=False)


def _price(units: Sequence[Unit], first: Address, options: dict[str, Any]) -> Price:
    from bisect_diverge.bisector.price import price
    from bisect_diverge.model.trial import Budget, SearchOptions

    return price(units, SearchOptions(mode=options["mode"], budget=Budget(repeats=options["repeat"])), first)


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
    _show(found.result, a, b, form, options["out"])
    sys.exit(_status(found.result))


def _typed(options: dict[str, Any]) -> tuple[str, ...]:
    """Return options as they are typed, for a search in another process."""
    words = [f"--{name}={layer}" for name in ("only", "skip") for layer in options[name]]
    for name in ("max_trials", "mode", "repeat", "offset_b", "jobs", "keep_trials"):
        words += [] if options[name] is None else [f"--{name.replace('_', '-')}={options[name]}"]
    words += [] if options["budget"] is None else [f"--budget={options['budget']}s"]
    words += [f"--image-cmd={options['image_cmd']}"] * bool(options["image_cmd"])
    words += ["--clamp"] * options["clamp"] + ["--no-observer-check"] * (not options["observe"])
    return (*words, "--resume" if options["resume"] else "--fresh")


def _show_plan(a: Run, units: Units, first: Address, options: dict[str, Any], form: str) -> None:
    from bisect_diverge.environment.apply import rule_for
    from bisect_diverge.report.plan_text import Plan, plan_json, plan_text
    from bisect_diverge.trial.parts import may_have_parts

    file = a.first
    cost = _price(units.units, first, options)
    plan = Plan(
        first=first,
        units=units.units,
        ways=[str(rule_for(unit.layer, unit.knob).way) for unit in units.units],
        untestable=units.untestable,
        least=cost.least,
        typical=cost.typical,
        most=cost.most,
        unrecorded=UNRECORDED_RUNS if options["observe"] else 0,
        clamped=CLAMPED_RUNS if options["clamp"] else 0,
        divisible=any(map(may_have_parts, units.units)),
        last_step=first.step + 1,
        steps=file.steps,
        seconds=max(0.0, file.path.stat().st_mtime - file.status.started),
        most_trials=options["max_trials"],
        most_seconds=options["budget"],
    )
    put(plan_json(plan) if form == "json" else plan_text(plan, paint()), options["out"])


def _show(bisection: Bisection, a: str, b: str, form: str, out: Path | None) -> None:
    put(_FORMS[form](bisection, a, b, colour=out is None), out)


def _text(bisection: Bisection, a: str, b: str, *, colour: bool) -> str:
    from bisect_diverge.report.bisection_text import bisection_text
    from bisect_diverge.report.fold import fold
    from bisect_diverge.report.words import plain

    return fold(bisection_text(bisection, a, b, paint() if colour else plain))


def _json(bisection: Bisection, _a: str, _b: str, *, colour: bool) -> str:
    from bisect_diverge.report.bisection_json import bisection_json

    return bisection_json(bisection)


def _markdown(bisection: Bisection, a: str, b: str, *, colour: bool) -> str:
    from bisect_diverge.report.bisection_markdown import bisection_markdown

    return bisection_markdown(bisection, a, b)


def _html(bisection: Bisection, a: str, b: str, *, colour: bool) -> str:
    from bisect_diverge.report.bisection_html import bisection_html

    return bisection_html(bisection, a, b)


_FORMS = {"text": _text, "json": _json, "markdown": _markdown, "html": _html}


def _status(bisection: Bisection) -> int:
    swapping = [trial for trial in bisection.trials if trial.swapped]
    if swapping and all(trial.outcome == "skip" for trial in swapping) and bisection.finished:
        return COULD_NOT_RUN
    return STATUS[str(bisection.verdict)]
