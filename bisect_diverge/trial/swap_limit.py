"""What a process inherits from its shell: the mask of new files, and limits of the operating system."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

from bisect_diverge.environment import runtime
from bisect_diverge.trial.interpreters import value_of
from bisect_diverge.trial.packages import CannotBuildError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.model.trial import Unit
    from bisect_diverge.trial.draft import Draft, Sides


def swap(sides: Sides, units: Sequence[Unit], draft: Draft) -> Draft:
    """Start the command with what B inherited, or with what A did.

    Raises:
        CannotBuildError: if a limit is higher than any that we may set.
    """
    swapped = {unit.knob: unit.b or "" for unit in units}
    now = {knob.name: str(knob.read()) for knob in runtime.INHERITED}
    for knob, present in now.items():
        value = swapped.get(knob) or value_of(sides.a, knob)
        if not value or value == present:
            continue
        name = knob.removeprefix(runtime.LIMIT)
        number = _number(knob, value)
        if name != knob and not _may_be_set(name, number):
            if knob in swapped:
                raise CannotBuildError(f"{knob} cannot be {value} here: the hard limit is lower (ulimit -H)")
            continue  # whether A needs it, its replay tells
        draft.inherited[name] = number
    return draft


def _number(knob: str, value: str) -> int:
    try:
        if knob == runtime.UMASK:
            return int(value, 8)
        return resource.RLIM_INFINITY if value == runtime.UNLIMITED else int(value)
    except ValueError:
        wanted = "a mask such as 0022" if knob == runtime.UMASK else f"a number, or {runtime.UNLIMITED}"
        raise CannotBuildError(f"{value} is no {knob}: give {wanted}") from None


def _may_be_set(name: str, number: int) -> bool:
    _, hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))
    return hard == resource.RLIM_INFINITY or (number != resource.RLIM_INFINITY and number <= hard)
