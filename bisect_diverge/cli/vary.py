"""``bd vary``: which knobs is a script sensitive to."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bisect_diverge.cli.options import budget_option, form_option
from bisect_diverge.cli.output import paint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.model.environment import Environment
    from bisect_diverge.model.trial import Unit, Untested
    from bisect_diverge.store.reader import Run
    from bisect_diverge.study.vary import Variation

PARTIAL, NOT_REPEATABLE, COULD_NOT_RUN = 3, 4, 5
"""Exit statuses beside 0."""


@click.command("vary", context_settings={"allow_interspersed_args": False})
@click.option("--knobs", "knobs", multiple=True, metavar="LIST", help="Try these only: NAME,... with * or NAME=VALUE.")
@click.option("--run", "recorded", metavar="RUN", help="Vary this recorded run; no command is given then.")
@click.option("-o", "--output", metavar="RUN", help="Keep the recording of the command here.")
@click.option("--steps", metavar="N", type=click.IntRange(min=1), help="Compare the first N steps only.")
@click.option("--plan", is_flag=True, help="Record the command, say what would be tried and its price; try nothing.")
@click.option("--max-trials", type=click.IntRange(min=1), metavar="N", help="Stop after so many trials.")
@budget_option
@click.option(
    "--repeat", type=click.IntRange(min=1), default=2, show_default=True, metavar="N", help="Repeats of the run itself."
)
@click.option(
    "-j", "--jobs", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Trials at a time."
)
@click.option("--resume/--fresh", default=True, help="Use the trials of an earlier study, or forget them.  [resume]")
@form_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
def command(command: tuple[str, ...], form: str, **options: Any) -> None:
    """Find which knobs of this machine change the bits of COMMAND, with no second run to compare with.

    Records the command once, repeats it, then runs it again with one knob at a time at another value: threads, loader
    workers, instruction sets, precision, deterministic algorithms, fused optimizers, ... What a trial writes with
    Python goes to a temporary directory; docs/trials.md lists what that does not cover. The recording is a run like any
    other: it goes to the end of the script, whatever --steps says, and what it writes is written; trials leave after
    the last step.

    Exit status: 0 all was tried, 2 trouble with the input, 3 stopped before the end, 4 the run does not repeat itself,
    5 trials could not run.

    \b
    bd vary -- python train.py
    bd vary --knobs 'threads.*,MKL_CBWR' --steps 5 -- python train.py
    bd vary --run runs/a --plan
    """
    from bisect_diverge.store.reader import Run

    with ExitStack() as stack:
        place = _place(command, options, stack)
        run = stack.enter_context(Run(place))
        units, out = _chosen(run, options)
        if options["plan"]:
            _show_plan(run, units, out, options, form)
            return
        variation = _vary(run, units, out, options)
    _show(variation, options["recorded"] or options["output"] or "", form)
    sys.exit(_status(variation))


def _place(command: tuple[str, ...], options: dict[str, Any], stack: ExitStack) -> str:
    """Return the run that is varied, recording the command if there is one.

    Raises:
        UsageError: if there are both a run and a command, or neither, or nothing was recorded.
    """
    from bisect_diverge.errors import UsageError

    recorded: str | None = options["recorded"]
    if (recorded is None) == (not command):
        raise UsageError(
            "give a command, or --run with a recorded one",
            hint="bd vary -- python train.py   or   bd vary --run runs/a",
        )
    if recorded is not None:
        return recorded
    _check_names(options["knobs"])
    output = options["output"] or str(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bd-"))) / "run")
    steps = [] if options["steps"] is None else ["--steps", f"0:{options['steps']}"]
    words = ["-m", "bisect_diverge", "record", "-o", output, "--capture", "digest", *steps, "--", *command]
    status = subprocess.run([sys.executable, *words], stdout=2, check=False).returncode  # stdout is for the result
    if not any(Path(output).glob("rank-*.h5")):
        raise UsageError(f"nothing was recorded: the command ended with status {status}")
    return output


def _chosen(run: Run, options: dict[str, Any]) -> tuple[tuple[Unit, ...], tuple[Untested, ...]]:
    """Return what is tried, and what means nothing here.

    Raises:
        UsageError: if a name stands for nothing.
    """
    from bisect_diverge.study.alternatives import alternatives, this_site, unknown

    site = this_site(run.first.record.environment)
    wanted = _wanted(options["knobs"])
    _refuse(unknown(site, wanted))
    return alternatives(site, wanted)


def _check_names(knobs: Sequence[str]) -> None:
    """Refuse what cannot be a knob before anything is recorded.

    Raises:
        UsageError: if there is such a name.
    """
    from bisect_diverge.study.names import impossible

    _refuse(impossible(_wanted(knobs)))


def _wanted(knobs: Sequence[str]) -> list[str]:
    from bisect_diverge.errors import UsageError

    names = [text.strip() for value in knobs for text in value.split(",") if text.strip()]
    if knobs and not names:
        raise UsageError("--knobs names no knob", hint="without --knobs every known one is tried")
    return names


def _refuse(nothing: Sequence[str]) -> None:
    from bisect_diverge.errors import UsageError
    from bisect_diverge.study.names import advice

    if nothing:
        known = [f"{text}: {said}" for text in nothing if (said := advice(text))]
        known.append("bd vary --plan lists those that are tried; any other that bd env RUN lists is named with =VALUE")
        raise UsageError(f"no such knob: {', '.join(nothing)}", hint="; ".join(known))


def _vary(run: Run, units: Sequence[Unit], out: Sequence[Untested], options: dict[str, Any]) -> Variation:
    from bisect_diverge.cli.progress import Progress
    from bisect_diverge.model.trial import Budget
    from bisect_diverge.study.vary import vary
    from bisect_diverge.trial.search import TrialOptions, changes, trials
    from bisect_diverge.trial.side_by_side import jobs_for

    progress = Progress(None, options["jobs"])
    progress.of = options["repeat"] + len(units)
    progress.values = True
    said = changes(run)
    if said:
        progress.say(said)
    jobs = progress.jobs = jobs_for(options["jobs"], *(_with(run, unit) for unit in (None, *units)), warn=progress.say)
    settings = TrialOptions(
        fresh=not options["resume"],
        should_stop=progress.should_stop,
        announce=progress.announce,
        warn=progress.say,
        must_run=True,
    )
    budget = Budget(trials=options["max_trials"], seconds=options["budget"], repeats=options["repeat"])
    with progress, trials(run, None, None, settings) as oracle:
        return vary(
            units,
            oracle,
            budget,
            inapplicable=out,
            jobs=jobs,
            on_trial=progress.on_trial,
            should_stop=progress.should_end,
        )


def _with(run: Run, unit: Unit | None) -> Environment:
    """Return the environment of a run with one knob at the value that is tried."""
    from bisect_diverge.model.environment import Setting

    environment = run.first.record.environment
    if unit is None or unit.b is None:
        return environment
    return environment.merged((Setting(layer=unit.layer, knob=unit.knob, value=unit.b, resolved=True),))


def _show_plan(run: Run, units: Sequence[Unit], out: Sequence[Untested], options: dict[str, Any], form: str) -> None:
    from bisect_diverge.report.plan_text import START_SECONDS
    from bisect_diverge.report.vary_json import variation_plan_json
    from bisect_diverge.report.vary_text import variation_plan_text

    trials = options["repeat"] + len(units)
    file = run.first
    seconds = trials / options["jobs"] * (START_SECONDS + max(0.0, file.path.stat().st_mtime - file.status.started))
    if form == "json":
        click.echo(variation_plan_json(units, out, trials, seconds))
    else:
        click.echo(variation_plan_text(units, out, trials, seconds, paint()))


def _show(variation: Variation, label: str, form: str) -> None:
    from bisect_diverge.report.vary_json import variation_json
    from bisect_diverge.report.vary_text import variation_text

    click.echo(variation_json(variation) if form == "json" else variation_text(variation, label, paint()))


def _status(variation: Variation) -> int:
    if not variation.repeats:
        return PARTIAL
    if not variation.repeats_itself:
        return NOT_REPEATABLE
    if variation.trials and len(variation.failed) == len(variation.trials):
        return COULD_NOT_RUN
    return PARTIAL if variation.left else 0
