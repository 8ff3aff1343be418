"""``bd trial``: run a recorded run again with some settings changed."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from bisect_diverge.cli.chosen import doubts, unit_of
from bisect_diverge.cli.options import form_option, image_cmd_option, keep_trials_option
from bisect_diverge.cli.output import make_folder, paint, put, put_text

if TYPE_CHECKING:
    from pathlib import Path

STATUS = {"=A": 0, "=B": 0, "other": 0, "skip": 5}
"""Outcome to exit status."""


@click.command("trial")
@click.argument("a", metavar="A")
@click.option("--set", "sets", multiple=True, metavar="LAYER.KNOB=VALUE", help="Change this; @B takes B's value.")
@click.option("--b", "b", metavar="B", help="The run that @B means, and that the bits are compared with too.")
@click.option("--offset-b", type=int, default=0, metavar="STEP", help="A's step at which a resumed B begins.")
@click.option(
    "--resume/--fresh", default=True, help="Use the result of an earlier such trial, or forget all.  [resume]"
)
@image_cmd_option
@keep_trials_option
@form_option
def command(
    a: str,
    sets: tuple[str, ...],
    b: str | None,
    offset_b: int,
    resume: bool,
    image_cmd: str,
    keep_trials: Path | None,
    form: str,
) -> None:
    """Run A's command again with some settings changed, and say whether the bits are A's, B's or others.

    Without --set it tells whether A repeats itself, and always runs. With --b it stops at the step after the first
    divergence of A and B. What a trial writes with Python goes to a temporary directory; docs/trials.md lists what that
    does not cover.

    Exit status: 0 it ran, 2 trouble with the input, 5 it could not run: that too is an answer here, where bd bisect
    says 2 if A itself fails.

    \b
    bd trial runs/a
    bd trial runs/a --set hardware.OMP_NUM_THREADS=1
    bd trial runs/a --b runs/b --set dependencies.numpy=@B
    """
    from bisect_diverge.report.trial_text import trial_json, trial_text
    from bisect_diverge.store.reader import Run
    from bisect_diverge.trial.search import TrialOptions, changes, first_divergence, trials
    from bisect_diverge.trial.versions import version_note

    with ExitStack() as stack:
        run_a = stack.enter_context(Run(a))
        run_b = None if b is None else stack.enter_context(Run(b))
        units = frozenset(unit_of(text, run_a, run_b, image_cmd) for text in sets)
        first = None if run_b is None else first_divergence(run_a, run_b, offset_b)
        make_folder(keep_trials)
        of_b = None if run_b is None else run_b.first.record
        wrong, told = doubts(units, run_a, run_b)
        told = [*told, *(f"{each}; it is set all the same" for each in wrong)]
        for said in filter(None, (*told, version_note(run_a.first.record, of_b), changes(run_a))):
            click.echo(f"bd: {said}", err=True)
        options = TrialOptions(
            offset_b=offset_b,
            fresh=not resume,
            keep=keep_trials,
            image_cmd=image_cmd,
            warn=lambda sentence: click.echo(f"bd: {sentence}", err=True),
        )
        oracle = stack.enter_context(trials(run_a, run_b, first, options))
        trial = oracle(units)
    if form == "json":
        put(trial_json(trial))
    else:
        put_text(trial_text(trial, with_b=b is not None, paint=paint(), doubts=wrong), whole_words=True)
    sys.exit(STATUS[str(trial.outcome)])
