"""What a search moves between two recorded runs, and what it cannot move here."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bisect_diverge.environment.apply import LAUNCHED, Way, is_variable, rule_for
from bisect_diverge.environment.differences import differences
from bisect_diverge.environment.read import AT_END
from bisect_diverge.environment.source import END_MARK
from bisect_diverge.model.environment import Difference, Environment, Layer
from bisect_diverge.model.trial import Unit, Untested
from bisect_diverge.trial.command import PROGRAM, CommandLine, differing, take_apart
from bisect_diverge.trial.packages import entries, versions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bisect_diverge.model.run import RunRecord

PYTHONPATH = "PYTHONPATH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """What differs between two runs, as a search sees it."""

    units: tuple[Unit, ...]
    """Requested inputs that can be swapped."""
    untestable: tuple[Untested, ...]
    """Requested inputs that cannot."""
    resolved: tuple[Difference, ...]
    """Resolved values that no requested input is known to explain: they become units when a trial of B proves it."""


def units_of(a: RunRecord, b: RunRecord) -> Units:
    """Return what differs between two runs.

    Raises:
        ReplayError: if a command was not recorded so that it can be run again.
    """
    line_a, line_b = take_apart(a), take_apart(b)
    requested = {(s.layer, s.knob) for s in (*a.environment.settings, *b.environment.settings) if not s.resolved}
    found = [_unit(Difference(layer=Layer.CONFIGURATION, knob=k, a=x, b=y)) for k, x, y in differing(line_a, line_b)]
    launched = is_launched(line_a) or is_launched(line_b)
    untestable: list[Untested] = []
    resolved: list[Difference] = []
    for difference in differences(a.environment, b.environment):
        key = (difference.layer, difference.knob)
        if _is_explained(difference, found, a, b, launched=launched):
            continue
        is_setter = difference.layer is Layer.SEEDS and not is_variable(*key)
        if key not in requested or is_setter:  # what a setter was called with is the script's doing
            resolved.append(difference)
            continue
        reason = _why_not(difference)
        if reason:
            untestable.append(Untested(unit=_unit(difference), reason=reason))
        else:
            found.append(_unit(difference))
    return Units(units=tuple(found), untestable=tuple(untestable), resolved=tuple(resolved))


def left_over(units: Units, trial: Environment, b: Environment) -> Units:
    """Return the units with those resolved values that B's requested inputs did not bring about.

    Args:
        units: What differs.
        trial: Environment of a trial with every unit swapped, which does not have B's bits.
        b: B's environment.
    """
    now = {(s.layer, s.knob): s.value for s in trial.settings}
    more: list[Unit] = []
    untestable = list(units.untestable)
    for difference in units.resolved:
        knob = difference.knob.removesuffix(AT_END)
        if _is_late(difference.knob) or now.get((difference.layer, knob), difference.b) == difference.b:
            continue
        unit = Unit(layer=difference.layer, knob=knob, a=difference.a, b=difference.b)
        rule = rule_for(unit.layer, unit.knob)
        if unit in more or any(row.unit == unit for row in untestable):
            continue
        reason = rule.reason or _why_not_held(unit)
        if reason:
            untestable.append(Untested(unit=unit, reason=reason))
        else:
            more.append(unit)
    return Units(units=(*units.units, *more), untestable=tuple(untestable), resolved=())


def _why_not_held(unit: Unit) -> str:
    if unit.a is None or unit.b is None:
        return "one of the two runs does not have it"
    if unit.layer is Layer.SEEDS and not (unit.a.isdigit() and unit.b.isdigit()):
        return "the setter was not called once, with a plain number, in both runs"
    return ""


def _unit(difference: Difference) -> Unit:
    return Unit(layer=difference.layer, knob=difference.knob, a=difference.a, b=difference.b)


def _is_late(knob: str) -> bool:
    """Whether a value is known only at the end of a whole run."""
    return knob == END_MARK or knob.startswith("module:")


def is_launched(line: CommandLine) -> bool:
    """Whether a command starts its ranks itself."""
    words = ("torchrun", "torch.distributed", "accelerate", "deepspeed", "mpirun", "srun")
    return any(word in token for token in line.launcher for word in words)


def _is_explained(difference: Difference, found: list[Unit], a: RunRecord, b: RunRecord, *, launched: bool) -> bool:
    """Whether other units bring a difference about: it moves with them and is none itself."""
    knob = difference.knob
    one_sided = difference.a is None or difference.b is None
    named = {unit.knob for unit in found}
    if difference.layer is Layer.CONFIGURATION:  # the command itself was compared, launcher and all
        return knob.startswith("argv.")
    if difference.layer is Layer.SOURCE and knob.startswith("file:"):
        return one_sided and PROGRAM in named
    if difference.layer is Layer.DEPENDENCIES and knob == PYTHONPATH:
        return not own_entries(a, b)
    if difference.layer is Layer.HARDWARE and knob in LAUNCHED:
        return launched
    return False


def _why_not(difference: Difference) -> str:
    """Return why a requested input cannot be swapped here; empty if it can."""
    rule = rule_for(difference.layer, difference.knob)
    if rule.way is Way.NONE:
        return rule.reason
    if rule.way is Way.AFFINITY:
        here = len(os.sched_getaffinity(0))
        wanted = max(int(difference.a or 0), int(difference.b or 0))
        return f"needs {wanted} processors, and {here} are here" if wanted > here else ""
    if rule.way is Way.PACKAGE and difference.b is None:
        return "B does not have it, and a package cannot be taken out of an environment that is there"
    if "masked" in (difference.a, difference.b):
        return "its value looked like a credential and was not kept"
    return ""


def own_entries(a: RunRecord, b: RunRecord) -> tuple[str, ...]:
    """Return the entries of the two ``PYTHONPATH`` that differ and hold no package of which the version differs."""
    packages = {d.knob for d in package_differences(a, b)}
    of_a, of_b = entries(path_of(a), a.cwd), entries(path_of(b), b.cwd)
    return tuple(
        e for e in dict.fromkeys((*of_a, *of_b)) if (e in of_a) != (e in of_b) and not packages & {*versions(e)}
    )


def package_differences(a: RunRecord, b: RunRecord) -> Iterator[Difference]:
    """Yield the packages of which the version differs."""
    for difference in differences(a.environment, b.environment):
        if difference.layer is Layer.DEPENDENCIES and rule_for(difference.layer, difference.knob).way is Way.PACKAGE:
            yield difference


def path_of(record: RunRecord) -> str | None:
    """Return the ``PYTHONPATH`` that a run was recorded with."""
    return next((s.value for s in record.environment.settings if s.knob == PYTHONPATH and not s.resolved), None)
