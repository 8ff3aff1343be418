"""What a search moves between two recorded runs, and what it cannot move here."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bisect_diverge.environment.apply import LAUNCHED, Way, is_variable, rule_for
from bisect_diverge.environment.differences import differences
from bisect_diverge.environment.modules import END_MARK, EXTENSION, MODULE
from bisect_diverge.environment.read import AT_END
from bisect_diverge.model.environment import Difference, Environment, Layer
from bisect_diverge.model.trial import Unit, Untested
from bisect_diverge.trial import inputs, swap_seed
from bisect_diverge.trial.command import PROGRAM, CommandLine, differing, take_apart
from bisect_diverge.trial.images import NAMES, image_units
from bisect_diverge.trial.interpreters import (
    EXECUTABLE,
    IMPLEMENTATION,
    VERSION,
    move_together,
    value_of,
    why_not_interpreter,
)
from bisect_diverge.trial.package_units import package_units
from bisect_diverge.trial.packages import entries, versions
from bisect_diverge.trial.source_units import source_units, why_not_feature

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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


def units_of(a: RunRecord, b: RunRecord, image_cmd: str = "") -> Units:
    """Return what differs between two runs.

    Args:
        a: The baseline.
        b: The candidate.
        image_cmd: What starts a command in a container image; empty: not known.

    Raises:
        ReplayError: if a command was not recorded so that it can be run again.
    """
    line_a, line_b = take_apart(a), take_apart(b)
    requested = {(s.layer, s.knob) for s in (*a.environment.settings, *b.environment.settings) if not s.resolved}
    found = [_unit(Difference(layer=Layer.CONFIGURATION, knob=k, a=x, b=y)) for k, x, y in differing(line_a, line_b)]
    launched = is_launched(line_a) or is_launched(line_b)
    untestable: list[Untested] = []
    resolved: list[Difference] = []
    of_source: list[Difference] = []
    of_packages: list[Difference] = []
    images = image_units(a, b, image_cmd)
    for difference in differences(a.environment, b.environment):
        key = (difference.layer, difference.knob)
        if _is_explained(difference, found, a, b, launched=launched) or _moves_along(difference, images, a, b):
            continue
        is_setter = difference.layer is Layer.SEEDS and not is_variable(*key)
        if is_setter and swap_seed.stands_alone(difference):
            is_setter = False
        if difference.knob.startswith(EXTENSION):  # nothing that was recorded explains that it is another
            of_source.append(difference)
            continue
        if key not in requested or is_setter or inputs.is_waiting(difference):  # what is read is the script's doing
            resolved.append(difference)
            continue
        if difference.layer is Layer.SOURCE:
            of_source.append(difference)
            continue
        if _is_package(difference):
            of_packages.append(difference)
            continue
        reason = _why_not_between(a, b, difference)
        if reason:
            untestable.append(Untested(unit=_unit(difference), reason=reason))
        else:
            found.append(swap_seed.named(inputs.named(a, b, _unit(difference))))
    with_interpreter = move_together(a, b) and any(unit.knob == EXECUTABLE for unit in found)
    packages = () if with_interpreter else package_units(a, b, of_packages)
    for each in (*images, *packages, *source_units(a, b, of_source)):
        found.append(each) if isinstance(each, Unit) else untestable.append(each)
    return Units(units=tuple(found), untestable=tuple(untestable), resolved=tuple(resolved))


def left_over(units: Units, trial: Environment) -> Units:
    """Return the units with those resolved values that B's requested inputs did not bring about.

    Args:
        units: What differs.
        trial: Environment of a trial with every unit swapped, which does not have B's bits.
    """
    now = {(s.layer, s.knob): s.value for s in trial.settings}
    more: list[Unit] = []
    untestable = list(units.untestable)
    for difference in units.resolved:
        knob = difference.knob.removesuffix(AT_END)
        if _is_late(difference.knob) or now.get((difference.layer, knob), difference.b) == difference.b:
            continue
        unit = swap_seed.named(Unit(layer=difference.layer, knob=knob, a=difference.a, b=difference.b))
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
    if inputs.is_input(unit.layer, unit.knob):
        return ""
    if unit.layer is Layer.SEEDS and swap_seed.is_seed(unit.knob):
        return swap_seed.why_not(unit)
    return "one of the two runs does not have it" if unit.a is None or unit.b is None else ""


def _unit(difference: Difference) -> Unit:
    return Unit(layer=difference.layer, knob=difference.knob, a=difference.a, b=difference.b)


def _is_late(knob: str) -> bool:
    """Whether a value is known only at the end of a whole run."""
    return knob == END_MARK or knob.startswith((MODULE, EXTENSION))


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
        return knob.startswith(("argv.", "launcher."))
    if inputs.is_named_elsewhere(difference, found):
        return True
    if difference.layer is Layer.SOURCE and knob.startswith("file:"):
        return one_sided and PROGRAM in named
    if difference.layer is Layer.DEPENDENCIES and knob == PYTHONPATH:
        return not own_entries(a, b)
    if difference.layer is Layer.HARDWARE and knob in LAUNCHED:
        return launched
    return False


def _moves_along(difference: Difference, images: Sequence[Unit | Untested], a: RunRecord, b: RunRecord) -> bool:
    """Whether a difference moves with the container image, or with the program of the interpreter."""
    if difference.layer is Layer.RUNTIME and difference.knob in NAMES:
        return bool(images)
    if difference.layer is Layer.RUNTIME and difference.knob in (VERSION, IMPLEMENTATION):
        return value_of(a, EXECUTABLE) != value_of(b, EXECUTABLE)
    testable = any(isinstance(each, Unit) for each in images)
    return testable and (_is_package(difference) or difference.knob.startswith("python."))


def _why_not(difference: Difference) -> str:
    """Return why a requested input cannot be swapped here; empty if it can."""
    rule = rule_for(difference.layer, difference.knob)
    if rule.way is Way.NONE:
        return rule.reason
    if rule.way is Way.AFFINITY:
        here = len(os.sched_getaffinity(0))
        wanted = max(int(difference.a or 0), int(difference.b or 0))
        return f"needs {wanted} processors, and {here} are here" if wanted > here else ""
    if "masked" in (difference.a, difference.b):
        return "its value looked like a credential and was not kept"
    return ""


def _why_not_between(a: RunRecord, b: RunRecord, difference: Difference) -> str:
    """Return why an input cannot be swapped between these two runs; empty if it can."""
    if inputs.is_input(difference.layer, difference.knob):
        return inputs.why_not(a, b, difference)
    if rule_for(difference.layer, difference.knob).way is Way.INTERPRETER:
        return why_not_interpreter(a, b)
    reason = _why_not(difference)
    return why_not_feature(a, b, difference) if not reason and difference.layer is Layer.FEATURES else reason


def own_entries(a: RunRecord, b: RunRecord) -> tuple[str, ...]:
    """Return the entries of the two ``PYTHONPATH`` that differ or stand in another order, but those with packages.

    Packages of which the version differs are meant: they are units of their own.
    """
    of_a, of_b = (without_packages(a, b, entries(path_of(record), record.cwd)) for record in (a, b))
    both = [[e for e in mine if e in other] for mine, other in ((of_a, of_b), (of_b, of_a))]
    moved = () if both[0] == both[1] else both[0]
    return tuple(dict.fromkeys((*(e for e in (*of_a, *of_b) if (e in of_a) != (e in of_b)), *moved)))


def without_packages(a: RunRecord, b: RunRecord, places: Sequence[str]) -> list[str]:
    """Return those directories that hold no package of which the version differs."""
    packages = {d.knob for d in package_differences(a, b)}
    return [place for place in places if not packages & {*versions(place)}]


def package_differences(a: RunRecord, b: RunRecord) -> Iterator[Difference]:
    """Yield the packages of which the version differs."""
    for difference in differences(a.environment, b.environment):
        if _is_package(difference):
            yield difference


def _is_package(difference: Difference) -> bool:
    return difference.layer is Layer.DEPENDENCIES and rule_for(difference.layer, difference.knob).way is Way.PACKAGE


def path_of(record: RunRecord) -> str | None:
    """Return the ``PYTHONPATH`` that a run was recorded with."""
    return record.environment.value(Layer.DEPENDENCIES, PYTHONPATH, resolved=False)
