"""``bd bisect``: which difference of the environment makes two runs diverge."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from bisect_diverge.cli.options import (
    any_form_option,
    budget_option,
    image_cmd_option,
    keep_trials_option,
    layers,
    out_option,
    skip_option,
)
from bisect_diverge.cli.output import check_writable, make_folder, paint, put

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bisect_diverge.bisector.price import Price
    from bisect_diverge.cli.progress import Progress
    from bisect_diverge.model.address import Address
    from bisect_diverge.model.divergence import Divergence
    from bisect_diverge.model.environment import Layer
    from bisect_diverge.model.trial import Bisection, Unit, Untested
    from bisect_diverge.store.reader import Run
    from bisect_diverge.trial.oracle import Trials
    from bisect_diverge.trial.units import Units

STATUS = {
    "cause": 0,
    "no-difference": 1,
    "by-elimination": 3,
    "inconclusive": 3,
    "likely": 3,
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
@click.option(
    "--only", callback=layers, multiple=True, metavar="LAYER,...", help="Move these layers only; bd env names them."
)
@skip_option
@click.option(
    "--repeat", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Replays of A and of B."
)
@click.option(
    "--clamp",
    is_flag=True,
    help="Hold one thread, deterministic algorithms and PYTHONHASHSEED=0 in every trial; they cannot be blamed then.",
)
@click.option(
    "--confidence",
    type=click.IntRange(50, 99),
    metavar="PERCENT",
    help="If A or B does not repeat itself, name a likely cause from many runs, with this confidence (95, say).",
)
@click.option(
    "--until-step",
    type=click.IntRange(min=0),
    metavar="STEP",
    help="Run trials to this step at least.  [default: the one after the divergence]",
)
@click.option(
    "--observer-check/--no-observer-check",
    "observe",
    default=True,
    help="Run A and B once each without recording: does that change their bits?  [check]",
)
@click.option("--offset-b", type=int, default=0, metavar="STEP", help="A's step at which a resumed B begins.")
@click.option(
    "-j", "--jobs", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Trials at a time."
)
@click.option("--resume/--fresh", default=True, help="Use the trials of an earlier search, or forget them.  [resume]")
@image_cmd_option
@keep_trials_option
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
    3 inconclusive or only likely, 4 A does not repeat itself, 5 no trial with B's values could run.

    \b
    bd bisect runs/a runs/b --plan
    bd bisect runs/a runs/b
    bd bisect runs/a runs/b --only kernels,hardware --budget 2h
    """
    if options["plan"] and form not in ("text", "json"):
        raise click.UsageError("--plan has the formats text and json")
    check_writable(options["out"])
    asked = _typed({**options, "only": only, "skip": skip})
    if options["ui"] == "tui" and not options["plan"]:
        _watch(a, b, form, asked, options)
    from bisect_diverge.cli.progress import JsonProgress, Progress
    from bisect_diverge.store.reader import Run
    from bisect_diverge.trial.search import differing_units, divergence_of, left_out

    progress = (JsonProgress if options["progress"] == "json" else Progress)(options["keep_trials"], options["jobs"])
    with Run(a) as run_a, Run(b) as run_b:
        divergence = divergence_of(run_a, run_b, options["offset_b"])
        first = None if divergence.first is None else divergence.first.address
        options["left_out"] = left_out(only, skip)
        units = differing_units(run_a, run_b, options["left_out"], options["image_cmd"])
        if first is not None:
            _check_reach(run_a, first)
            _check_left(units, options["left_out"])
        if options["plan"] and first is not None:
            _show_plan(run_a, units, first, options, form)
            return
        make_folder(options["keep_trials"])
        with progress:
            found = _search(run_a, run_b, units, first, options, progress)
            bisection = _with_kind(found, divergence, same=_same(run_a, run_b))
            progress.result(bisection)
    _show(bisection, a, b, form, asked, options["out"])
    sys.exit(_status(bisection))


def _check_reach(a: Run, first: Address) -> None:
    """Refuse a divergence that no trial of A can reach.

    Raises:
        UsageError: if there is one.
    """
    from bisect_diverge.errors import UsageError

    steps = max(file.steps for file in a.ranks.values())
    if first.step > steps:
        raise UsageError(
            f"the first divergence is at step {first.step}, and A ends after {steps} steps: no trial gets there",
            hint="--offset-b STEP is A's step at which a resumed B begins; bd diff A B --offset-b STEP tries one",
        )


def _check_left(units: Units, out: Mapping[Layer, str]) -> None:
    """Refuse to search where the options leave nothing to move.

    Raises:
        UsageError: if they do.
    """
    from bisect_diverge.errors import UsageError
    from bisect_diverge.model.trial import LEFT_OUT

    left = [row.unit for row in units.untestable if row.reason.startswith(LEFT_OUT)]
    if units.units or not left or any(row.layer not in out for row in units.resolved):
        return
    layers = dict.fromkeys(unit.layer for unit in left)
    options = dict.fromkeys(out[layer] for layer in layers)
    raise UsageError(
        f"{' and '.join(options)} leave{'s' * (len(options) == 1)} nothing to move",
        hint=f"what differs and can be moved is in: {', '.join(layers)}",
    )


def _same(a: Run, b: Run) -> bool:
    """Whether both are one recording."""
    return a.path.resolve() == b.path.resolve()


def _with_kind(bisection: Bisection, divergence: Divergence, *, same: bool) -> Bisection:
    """Return a result that says what kind of difference it is about, or how much of A and B is equal."""
    if divergence.first is not None:
        searched = bisection.first in (None, divergence.first.address)  # with clamps on it may be another one
        return replace(bisection, divergence=divergence) if searched else bisection
    compared = divergence.compared
    notes = [f"all that was compared is equal: {compared.records} records in {compared.steps} steps"]
    notes += [divergence.limited] if divergence.limited else []
    notes += ["A and B are one and the same recording: give two"] if same else []
    return replace(bisection, notes=(*bisection.notes, *notes))


def _search(
    a: Run, b: Run, units: Units, first: Address | None, options: dict[str, Any], progress: Progress
) -> Bisection:
    from bisect_diverge.model.trial import Bisection, BisectVerdict
    from bisect_diverge.trial.keys_between import with_keys
    from bisect_diverge.trial.memory import with_memory
    from bisect_diverge.trial.search import (
        TrialOptions,
        changes,
        trials,
        with_changes,
        with_held_seeds,
        with_overridden,
        with_prepared,
        with_what_moved,
    )
    from bisect_diverge.trial.side_by_side import jobs_for
    from bisect_diverge.trial.unseeded import with_unseeded
    from bisect_diverge.trial.versions import with_versions

    if first is None:
        return Bisection(verdict=BisectVerdict.NO_DIFFERENCE)
    progress.planned(units.units, units.untestable, _price(units.units, first, options).typical, first)
    said = changes(a)
    if said:
        progress.say(said)
    environments = (a.first.record.environment, b.first.record.environment)
    options["jobs"] = progress.jobs = jobs_for(options["jobs"], *environments, warn=progress.say)
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
        measured=options["confidence"] is not None,
        until_step=options["until_step"],
    )
    began = time.monotonic()
    with trials(a, b, first, settings) as oracle:
        if not options["clamp"]:
            bisection, used = _bisect(oracle, first, began, options, progress), oracle
        else:
            bisection, used = _clamped(oracle, began, options, progress)
    bisection = with_unseeded(bisection, used.pair.sides.moving)
    bisection = with_memory(with_overridden(with_prepared(with_held_seeds(bisection, used), used)))
    bisection = with_keys(bisection, a.first.record, b.first.record)
    bisection = with_versions(with_what_moved(bisection), a.first.record, b.first.record)
    return with_changes(bisection, a)


def _bisect(
    oracle: Trials,
    first: Address,
    began: float,
    options: dict[str, Any],
    progress: Progress,
    held: Sequence[Untested] = (),
    used: int = 0,
) -> Bisection:
    """Search with an oracle; what it cost to make the oracle counts against the budget."""
    from bisect_diverge.bisector.search import bisect
    from bisect_diverge.model.trial import Budget, SearchOptions

    units = oracle.pair.units
    budget = Budget(
        trials=options["max_trials"],
        seconds=options["budget"],
        repeats=options["repeat"],
        used_trials=used,
        used_seconds=time.monotonic() - began,
    )
    return bisect(
        units.units,
        oracle,
        SearchOptions(
            mode=options["mode"],
            budget=budget,
            jobs=options["jobs"],
            observe=options["observe"],
            confidence=None if options["confidence"] is None else options["confidence"] / 100,
        ),
        untestable=(*units.untestable, *held),
        on_trial=progress.on_trial,
        should_stop=progress.should_end,
        first=first,
        drill=oracle.parts,
    )


def _clamped(oracle: Trials, began: float, options: dict[str, Any], progress: Progress) -> tuple[Bisection, Trials]:
    """Search with every clamp on in every trial, if A and B still differ then; return with what oracle, too."""
    from bisect_diverge.errors import ReplayError
    from bisect_diverge.model.trial import Bisection, BisectVerdict
    from bisect_diverge.trial.search import clamped

    names = ", ".join(oracle.clamps())
    note = f"clamped in every trial: {names}; A and B are what they are with that, and it cannot be blamed"
    nothing = Bisection(verdict=BisectVerdict.INCONCLUSIVE, untestable=oracle.pair.units.untestable)
    try:
        with clamped(oracle) as made:
            again, first, held = made.oracle, made.first, made.held
            if first is None:
                lost = f"up to step {again.last_step} A and B do not differ then: the clamps take it away"
                return replace(nothing, notes=(note, lost), untestable=(*nothing.untestable, *held)), again
            units = again.pair.units
            progress.planned(
                units.units, (*units.untestable, *held), _price(units.units, first, options).typical, first
            )
            found = _bisect(again, first, began, options, progress, held, made.runs)
            return replace(found, notes=(note, *found.notes)), again
    except ReplayError:
        if not progress.should_stop():
            raise
        stopped = replace(nothing, notes=(note, "the search stopped early: stopped by the user"), finished=False)
        return stopped, oracle


def _price(units: Sequence[Unit], first: Address, options: dict[str, Any]) -> Price:
    from bisect_diverge.bisector.price import price
    from bisect_diverge.model.trial import Budget, SearchOptions

    return price(units, SearchOptions(mode=options["mode"], budget=Budget(repeats=options["repeat"])), first)


def _watch(a: str, b: str, form: str, asked: tuple[str, ...], options: dict[str, Any]) -> None:
    """Show the search on a screen; afterwards print what came of it, and end with its status."""
    from bisect_diverge.cli.walk import _on_terminal
    from bisect_diverge.errors import UsageError

    if not _on_terminal():
        raise UsageError("--ui tui needs a terminal", hint=f"bd bisect {a} {b} prints the same result anywhere")
    from bisect_diverge.store.reader import Run
    from bisect_diverge.trial.search import divergence_of
    from bisect_diverge.tui.app import watch

    found = watch(a, b, asked)
    if found.result is None:
        click.echo(found.message, err=True) if found.message else None
        sys.exit(found.status or 130)
    with Run(a) as run_a, Run(b) as run_b:
        bisection = replace(found.result, divergence=divergence_of(run_a, run_b, options["offset_b"]))
    _show(bisection, a, b, form, asked, options["out"])
    sys.exit(_status(bisection))


USUAL = {
    "only": (),
    "skip": (),
    "mode": "chain",
    "repeat": 1,
    "clamp": False,
    "confidence": None,
    "until_step": None,
    "observe": True,
    "offset_b": 0,
    "image_cmd": "",
    "max_trials": None,
    "budget": None,
    "jobs": 1,
    "keep_trials": None,
    "resume": True,
}
"""Options that say what is searched and how, with what they are where nobody gives them."""
_FLAGS = {"clamp": "--clamp", "observe": "--no-observer-check", "resume": "--fresh"}
"""What is typed where a flag is not as usual."""


def _typed(options: dict[str, Any]) -> tuple[str, ...]:
    """Return options that are not as usual as they are typed, each in one word."""
    given = [(name, options[name]) for name, usual in USUAL.items() if options[name] != usual]
    return tuple(_FLAGS.get(name) or f"--{name.replace('_', '-')}={_value(value)}" for name, value in given)


def _value(value: object) -> str:
    """Return the value of an option as it is typed: layers with commas between, a time in seconds."""
    if isinstance(value, float):
        return f"{value:.12g}s"
    return ",".join(value) if isinstance(value, tuple) else str(value)


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
        samples=_samples(len(units.units), options),
        divisible=any(map(may_have_parts, units.units)),
        last_step=max(first.step + 1, options["until_step"] or 0),
        steps=file.steps,
        seconds=max(0.0, file.path.stat().st_mtime - file.status.started),
        most_trials=options["max_trials"],
        most_seconds=options["budget"],
    )
    put(plan_json(plan) if form == "json" else plan_text(plan, paint()), options["out"])


def _samples(units: int, options: dict[str, Any]) -> int:
    """Return how many runs a search by repeats takes, if there may be one."""
    from bisect_diverge.bisector.sampling import runs_expected

    if options["confidence"] is None or not units:
        return 0
    return runs_expected(units, options["confidence"] / 100, replays=options["repeat"], mode=options["mode"])


def _show(bisection: Bisection, a: str, b: str, form: str, asked: tuple[str, ...], out: Path | None) -> None:
    put(_FORMS[form](bisection, a, b, asked, colour=out is None), out)


def _text(bisection: Bisection, a: str, b: str, asked: tuple[str, ...], *, colour: bool) -> str:
    from bisect_diverge.report.bisection_text import bisection_text
    from bisect_diverge.report.fold import fold
    from bisect_diverge.report.words import plain

    return fold(bisection_text(bisection, a, b, paint() if colour else plain, asked))


def _json(bisection: Bisection, _a: str, _b: str, _asked: tuple[str, ...], *, colour: bool) -> str:
    from bisect_diverge.report.bisection_json import bisection_json

    return bisection_json(bisection)


def _markdown(bisection: Bisection, a: str, b: str, asked: tuple[str, ...], *, colour: bool) -> str:
    from bisect_diverge.report.bisection_markdown import bisection_markdown

    return bisection_markdown(bisection, a, b, asked)


def _html(bisection: Bisection, a: str, b: str, asked: tuple[str, ...], *, colour: bool) -> str:
    from bisect_diverge.report.bisection_html import bisection_html

    return bisection_html(bisection, a, b, asked)


_FORMS = {"text": _text, "json": _json, "markdown": _markdown, "html": _html}


def _status(bisection: Bisection) -> int:
    swapping = [trial for trial in bisection.trials if trial.swapped]
    if swapping and all(trial.outcome == "skip" for trial in swapping) and bisection.finished:
        return COULD_NOT_RUN
    return STATUS[str(bisection.verdict)]
