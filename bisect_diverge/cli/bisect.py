"""``bd bisect``: which difference of the environment makes two runs diverge."""

from __future__ import annotations

import math
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bisect_diverge.cli.diff import _paint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bisect_diverge.model.address import Address
    from bisect_diverge.model.trial import Bisection, Trial, Unit
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
def command(a: str, b: str, only: tuple[str, ...], skip: tuple[str, ...], form: str, **options: Any) -> None:
    """Find which difference between the environments of A and B makes B diverge from A.

    Runs A's command again and again with some settings taken from B, each time to the step after the divergence, and
    compares the bits. Your files are not touched: what a trial writes goes to a temporary directory.

    Exit status: 0 cause proved, 1 nothing differs, 2 trouble with the input, 3 inconclusive, 4 A does not repeat
    itself, 5 trials could not run.

    \b
    bd bisect runs/a runs/b --plan
    bd bisect runs/a runs/b
    bd bisect runs/a runs/b --only kernels,hardware --budget 2h
    """
    from bisect_diverge.store.reader import Run
    from bisect_diverge.trial.search import differing_units, first_divergence

    with Run(a) as run_a, Run(b) as run_b:
        first = first_divergence(run_a, run_b, options["offset_b"])
        units = differing_units(run_a, run_b, only, skip)
        if options["plan"] and first is not None:
            _show_plan(run_a, units, first, options["mode"], form)
            return
        bisection = _search(run_a, run_b, units, first, options)
    _show(bisection, a, b, form)
    sys.exit(_status(bisection))


def _search(a: Run, b: Run, units: Units, first: Address | None, options: dict[str, Any]) -> Bisection:
    from bisect_diverge.bisector.search import bisect
    from bisect_diverge.model.trial import Bisection, BisectVerdict, Budget, SearchOptions
    from bisect_diverge.trial.search import TrialOptions, trials, with_left_over

    if first is None:
        return Bisection(verdict=BisectVerdict.NO_DIFFERENCE)
    progress = _Progress(_most(len(units.units), options["mode"]))
    settings = TrialOptions(
        offset_b=options["offset_b"],
        fresh=not options["resume"],
        keep=options["keep_trials"],
        should_stop=progress.should_stop,
        announce=progress.announce,
    )
    budget = Budget(trials=options["max_trials"], seconds=options["budget"], repeats=options["repeat"])
    with progress, trials(a, b, first, settings) as oracle:
        units = with_left_over(units, oracle, b)
        progress.of = _most(len(units.units), options["mode"])
        return bisect(
            units.units,
            oracle,
            SearchOptions(mode=options["mode"], budget=budget, jobs=options["jobs"]),
            untestable=units.untestable,
            on_trial=progress.on_trial,
            should_stop=progress.should_stop,
            first=first,
        )


def _most(units: int, mode: str) -> int:
    """Return how many trials one cause among some units costs at most."""
    if mode == "matrix":
        return 2 * units + 2
    return 4 + math.ceil(math.log2(max(units, 1)))


class _Progress:
    """Lines on stderr while trials run; the first Ctrl-C ends the search and leaves what is known."""

    def __init__(self, of: int) -> None:
        self.of = of
        self._stop = False
        self._before: Any = None
        self._live = sys.stderr.isatty()
        self._shown = False

    def __enter__(self) -> _Progress:
        self._before = signal.signal(signal.SIGINT, self._interrupted)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)
        self._clear()

    def should_stop(self) -> bool:
        """Whether the user has asked for the end."""
        return self._stop

    def announce(self, swapped: frozenset[Unit]) -> None:
        """Say what is running, where that line can be taken away again."""
        if self._live:
            self._clear()
            click.echo(f"bd: running A{_with(swapped)} ...", err=True, nl=False)
            self._shown = True

    def on_trial(self, trial: Trial) -> None:
        """Say what came of a trial."""
        from bisect_diverge.report.bisection_text import trial_line

        self._clear()
        click.echo(f"bd: {trial_line(trial, f' of ~{max(self.of, trial.n)}')}", err=True)

    def _clear(self) -> None:
        if self._shown:
            click.echo("\r\x1b[K", err=True, nl=False)
            self._shown = False

    def _interrupted(self, _number: int, _frame: object) -> None:
        if self._stop:
            raise KeyboardInterrupt
        self._stop = True
        self._clear()
        click.echo("bd: stopping; once more to leave at once", err=True)


def _with(swapped: Iterable[Unit]) -> str:
    names = sorted(unit.knob for unit in swapped)
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    return f" + {{{shown}}}" if names else ""


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
