"""Commands that a bisection's report prints: what to change, and how to run a trial again."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from bisect_diverge.model.environment import Layer
from bisect_diverge.report.words import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bisect_diverge.model.trial import Unit

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+!_-]*")
_ARGUMENT = "argv."


def fix_command(unit: Unit) -> str:
    """Return what to do so that a unit has A's value: a command where there is one."""
    if unit.knob.startswith(_ARGUMENT):
        return _argument(unit.knob.removeprefix(_ARGUMENT), unit.a)
    if _VARIABLE.fullmatch(unit.knob):
        return f"unset {unit.knob}" if unit.a is None else f"export {unit.knob}={shlex.quote(printable(unit.a))}"
    if unit.layer is Layer.DEPENDENCIES and (unit.a is None or _VERSION.fullmatch(unit.a)):
        name = shlex.quote(unit.knob)
        return f"pip uninstall {name}" if unit.a is None else f"pip install {shlex.quote(f'{unit.knob}=={unit.a}')}"
    value = "not set" if unit.a is None else printable(unit.a) or '""'
    return f"# {unit.layer} {printable(unit.knob)}: {value}"


def _argument(name: str, value: str | None) -> str:
    if value is None:
        return f"# leave out the argument {printable(name)}"
    if not name.startswith("-"):
        return f"# argument {printable(name)}: {printable(value)}"
    return f"# give the argument {name} {shlex.quote(printable(value))}".rstrip()


def trial_command(swapped: Iterable[Unit], label_a: str, label_b: str) -> list[str]:
    """Return the command that runs a trial by hand: A with B's values of these units."""
    sets = [word for unit in swapped for word in ("--set", f"{unit.layer}.{unit.knob}=@B")]
    return ["bd", "trial", label_a, *sets, "--b", label_b]
