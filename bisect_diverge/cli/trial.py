"""``bd trial``: run a recorded run again with some settings changed."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bisect_diverge.cli.bisect import _image_command
from bisect_diverge.cli.diff import _paint

if TYPE_CHECKING:
    from bisect_diverge.model.environment import Layer
    from bisect_diverge.model.run import RunRecord
    from bisect_diverge.model.trial import Unit
    from bisect_diverge.store.reader import Run

FROM_B = "@B"
"""Value of ``--set`` that stands for B's."""
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
@click.option(
    "--image-cmd",
    default="",
    callback=_image_command,
    metavar="COMMAND",
    help="What runs a command in a container image: 'apptainer exec {image}'.",
)
@click.option("--keep-trials", metavar="DIR", type=click.Path(path_type=Path), help="Keep the trial's folder there.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)
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

    with ExitStack() as stack:
        run_a = stack.enter_context(Run(a))
        run_b = None if b is None else stack.enter_context(Run(b))
        units = frozenset(_unit(text, run_a, run_b, image_cmd) for text in sets)
        first = None if run_b is None else first_divergence(run_a, run_b, offset_b)
        said = changes(run_a)
        if said:
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
    text = trial_json(trial) if form == "json" else trial_text(trial, with_b=b is not None, paint=_paint())
    click.echo(text)
    sys.exit(STATUS[str(trial.outcome)])


def _unit(text: str, a: Run, b: Run | None, image_cmd: str) -> Unit:
    """Return the unit that a ``--set`` means."""
    from bisect_diverge.environment.apply import Way, rule_for
    from bisect_diverge.errors import UsageError
    from bisect_diverge.model.environment import Layer
    from bisect_diverge.model.trial import Unit

    name, equals, value = text.partition("=")
    layer, dot, knob = name.partition(".")
    if not (equals and dot and knob) or layer not in set(Layer):
        raise UsageError(
            f"--set {text}: give LAYER.KNOB=VALUE",
            hint=f"layers are {', '.join(Layer)}; bd env {a.path} lists the knobs",
        )
    rule = rule_for(Layer(layer), knob)
    if rule.way is Way.NONE:
        raise UsageError(f"{name} cannot be swapped here: {rule.reason}")
    if value != FROM_B:
        _check_position(name, knob, a)
        _check_source(Layer(layer), knob, value, a)
        return Unit(layer=Layer(layer), knob=knob, a=_value(a, layer, knob), b=value)
    if b is None:
        raise UsageError(f"--set {text}: {FROM_B} needs --b B")
    return _unit_of_b(Layer(layer), knob, a, b, image_cmd)


def _check_source(layer: Layer, knob: str, value: str, a: Run) -> None:
    """Refuse a commit that is not there before anything is run."""
    from bisect_diverge.errors import UsageError
    from bisect_diverge.model.environment import Layer
    from bisect_diverge.trial.oracle import merged_record
    from bisect_diverge.trial.packages import CannotBuildError
    from bisect_diverge.trial.source_units import check_given

    if layer is not Layer.SOURCE:
        return
    try:
        check_given(merged_record(a), knob, value)
    except CannotBuildError as error:
        raise UsageError(
            f"--set {layer}.{knob}={value}: {error}", hint="give a commit of A's repository: git log --oneline"
        ) from None


def _check_position(name: str, knob: str, a: Run) -> None:
    """Refuse a positional argument that would leave a gap behind A's last one."""
    from bisect_diverge.errors import UsageError
    from bisect_diverge.trial.command import pieces, take_apart

    part, _, number = knob.partition(".")
    if part not in ("argv", "launcher") or not number.isdigit():
        return
    line = take_apart(a.first.record)
    have = sum(piece.name.isdigit() for piece in pieces(line.arguments if part == "argv" else line.launcher[1:]))
    if int(number) > have:
        raise UsageError(
            f"--set {name}: A's command has no such position",
            hint=f"positions count from 0; A's command has {have}, and {have} is the next",
        )


def _unit_of_b(layer: Layer, knob: str, a: Run, b: Run, image_cmd: str) -> Unit:
    from bisect_diverge.errors import UsageError
    from bisect_diverge.model.trial import Unit
    from bisect_diverge.trial.oracle import merged_record
    from bisect_diverge.trial.parts import parts_of
    from bisect_diverge.trial.search import differing_units

    units = differing_units(a, b, image_cmd=image_cmd)
    todo = list(units.units)
    while todo:
        unit = todo.pop(0)
        if (unit.layer, unit.knob) == (layer, knob):
            return unit
        if unit.layer == layer:
            todo += parts_of(merged_record(a), merged_record(b), unit)
    for difference in units.resolved:
        if (difference.layer, difference.knob) == (layer, knob):
            return Unit(layer=layer, knob=knob, a=difference.a, b=difference.b)
    raise UsageError(
        f"{layer}.{knob} is no unit of these two runs",
        hint=f"bd bisect {a.path} {b.path} --plan lists them",
    )


def _value(run: Run, layer: str, knob: str) -> str | None:
    record: RunRecord = run.first.record
    found = [s for s in record.environment.settings if (s.layer, s.knob) == (layer, knob)]
    return next((s.value for s in sorted(found, key=lambda s: s.resolved)), None)
