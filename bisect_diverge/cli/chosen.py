"""What a ``--set LAYER.KNOB=VALUE`` means for two recorded runs."""

from __future__ import annotations

import difflib
import shlex
from typing import TYPE_CHECKING

from bisect_diverge.cli.options import near

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bisect_diverge.model.environment import Layer
    from bisect_diverge.model.run import RunRecord
    from bisect_diverge.model.trial import Unit
    from bisect_diverge.store.reader import Run

FROM_B = "@B"
"""Value of a ``--set`` that stands for B's."""
LIKE = 0.9
"""How like a known name another one is that looks like a typo of it (`difflib`, 0 to 1)."""


def unit_of(text: str, a: Run, b: Run | None, image_cmd: str) -> Unit:
    """Return the unit that a ``--set`` means."""
    from bisect_diverge.environment.apply import Way, rule_for
    from bisect_diverge.errors import UsageError
    from bisect_diverge.model.environment import Layer
    from bisect_diverge.model.trial import Unit

    name, equals, value = text.partition("=")
    layer, dot, knob = name.partition(".")
    if not (equals and dot and knob) or layer not in set(Layer):
        raise UsageError(
            f"--set {text}: give LAYER.KNOB=VALUE{near([layer], list(Layer)) if layer not in set(Layer) else ''}",
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


def doubts(units: Iterable[Unit], a: Run, b: Run | None) -> tuple[list[str], list[str]]:
    """Return what is wrong with the names of units, in words, and what is to be said of them beside that.

    Any variable may be set on purpose: one that nobody knows is told, and doubted only where it looks like a typo.

    Args:
        units: What is to be changed.
        a: The baseline.
        b: The candidate, if there is one.
    """
    from bisect_diverge.environment.apply import is_variable
    from bisect_diverge.environment.variables import layer_of, names
    from bisect_diverge.model.environment import Layer
    from bisect_diverge.trial.inputs import missing_key
    from bisect_diverge.trial.oracle import merged_record

    records = [merged_record(run) for run in (a, b) if run is not None]
    settings = [setting for record in records for setting in record.environment.settings]
    known = {*names(), *(s.knob for s in settings if is_variable(s.layer, s.knob))}
    wrong, said = [], []
    for unit in sorted(units, key=str):
        if is_variable(unit.layer, unit.knob) and unit.knob not in known:
            close = difflib.get_close_matches(unit.knob, sorted(known), 1, LIKE)
            if close:
                wrong.append(f"{unit} looks like a typo of {layer_of(close[0]) or unit.layer}.{close[0]}")
            elif layer_of(unit.knob) is None:
                said.append(f"neither a table nor a run knows {unit}: it is set for this trial")
        missing = missing_key(records[0], unit.knob) if unit.layer is Layer.CONFIGURATION else None
        if missing is not None and all(missing_key(record, unit.knob) for record in records):
            file, key, there = missing
            wrong.append(f"{file} has no key {key}{near([key], there)}")
    return wrong, said


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
    for row in units.untestable:
        if (row.unit.layer, row.unit.knob) == (layer, knob):
            raise UsageError(
                f"{layer}.{knob} cannot be swapped here: {row.reason}",
                hint="everything else that differs can: bd bisect leaves it out by itself",
            )
    names = [*map(str, units.units), *(f"{row.layer}.{row.knob}" for row in units.resolved)]
    raise UsageError(
        f"{layer}.{knob} is no unit of these two runs{near([f'{layer}.{knob}'], names)}",
        hint=f"{shlex.join(['bd', 'bisect', str(a.path), str(b.path), '--plan'])} lists them",
    )


def _value(run: Run, layer: str, knob: str) -> str | None:
    record: RunRecord = run.first.record
    return record.environment.value(layer, knob)
