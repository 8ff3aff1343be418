"""``bd replay``: which module calls compute otherwise on the very same tensors."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from bisect_diverge.cli.chosen import unit_of
from bisect_diverge.cli.options import form_option, image_cmd_option, skip_option
from bisect_diverge.cli.output import paint, put, put_text

if TYPE_CHECKING:
    from bisect_diverge.store.reader import Run
    from bisect_diverge.trial.units import Units

STATUS = {"same": 0, "differs": 1, "inconclusive": 3}
"""Verdict to exit status."""


@click.command("replay")
@click.argument("a", metavar="A")
@click.option("--env-of", "b", metavar="B", help="Replay under the settings of this run: all that can be swapped here.")
@click.option("--set", "sets", multiple=True, metavar="LAYER.KNOB=VALUE", help="Change only this; @B takes B's value.")
@click.option("--step", type=click.IntRange(min=0), metavar="N", help="Step to replay.  [the first that differs]")
@skip_option
@image_cmd_option
@form_option
def command(a: str, b: str | None, form: str, **options: Any) -> None:
    """List every module call that computes otherwise under other settings, given the very tensors that A recorded.

    A's command is run again up to one step, twice: under A's own settings, where each call has to reproduce A's bits,
    and under the others. In that step every input, output, parameter, buffer and gradient is set to what A recorded
    once it has been looked at, so that each difference is that call's own and none is inherited. Gradients and
    optimizer updates are replayed too. A has to have kept the tensors of the step (--capture full).

    Exit status: 0 nothing computes otherwise, 1 something does, 2 trouble with the input, 3 nothing could be replayed.

    \b
    bd replay runs/a --env-of runs/b
    bd replay runs/a --env-of runs/b --step 3 --format json
    bd replay runs/a --set hardware.OMP_NUM_THREADS=1 --step 0
    """
    from bisect_diverge.report.replay_json import replay_json
    from bisect_diverge.report.replay_text import replay_text
    from bisect_diverge.store.reader import Run
    from bisect_diverge.trial.replay import check_step, replay
    from bisect_diverge.trial.search import TrialOptions, changes

    with ExitStack() as stack:
        run_a = stack.enter_context(Run(a))
        run_b = None if b is None else stack.enter_context(Run(b))
        step = _step(run_a, run_b, options["step"])
        check_step(run_a, step)
        units = _units(run_a, run_b, options)
        if said := changes(run_a):
            _say(said)
        found = replay(
            run_a,
            run_b,
            step,
            units,
            options=TrialOptions(image_cmd=options["image_cmd"], warn=_say, must_run=True),
            announce=lambda what: _say(f"replaying step {step} {what} ..."),
        )
    if form == "json":
        put(replay_json(found))
    else:
        put_text(replay_text(found, paint=paint()), whole_words=True)
    sys.exit(STATUS[found.verdict])


def _step(a: Run, b: Run | None, asked: int | None) -> int:
    """Return the step to replay.

    Raises:
        UsageError: if there is no first differing one.
    """
    from bisect_diverge.errors import UsageError
    from bisect_diverge.trial.search import first_divergence

    if asked is not None:
        return asked
    if b is None:
        raise UsageError("which step?", hint="give --step N, or --env-of B for the first step at which B differs")
    first = first_divergence(a, b)
    if first is None:
        raise UsageError(f"{a.path} and {b.path} do not differ", hint="choose a step to replay with --step N")
    return first.step


def _units(a: Run, b: Run | None, options: dict[str, Any]) -> Units:
    """Return what is changed, and what cannot be.

    Raises:
        UsageError: if nothing is.
    """
    from bisect_diverge.errors import UsageError
    from bisect_diverge.trial.search import differing_units, left_out
    from bisect_diverge.trial.units import Units

    if options["sets"]:
        asked = tuple(unit_of(text, a, b, options["image_cmd"]) for text in options["sets"])
        return Units(units=asked, untestable=(), resolved=())
    if b is None:
        raise UsageError("replay under which settings?", hint="give --env-of B, or --set LAYER.KNOB=VALUE")
    found = differing_units(a, b, left_out(skip=options["skip"]), options["image_cmd"])
    if not found.units:
        raise UsageError(
            f"nothing that could be swapped differs between {a.path} and {b.path}",
            hint=f"bd env {a.path} {b.path} shows what differs; --set LAYER.KNOB=VALUE changes anything else",
        )
    return found


def _say(sentence: str) -> None:
    click.echo(f"bd: {sentence}", err=True)
