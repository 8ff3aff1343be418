"""Environment variables, and the directories that ``PYTHONPATH`` names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.trial.packages import entries
from bisect_diverge.trial.units import PYTHONPATH, path_of, without_packages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.model.trial import Unit
    from bisect_diverge.trial.draft import Draft, Sides


def swap(sides: Sides, units: Sequence[Unit], draft: Draft) -> Draft:
    """Set variables to B's values, or take them away. Comes after the packages: they are searched first."""
    for unit in units:
        if unit.knob == PYTHONPATH:
            draft.search_path = _search_path(sides, draft.search_path)
        elif unit.b is None:
            draft.variables.pop(unit.knob, None)
        else:
            draft.variables[unit.knob] = unit.b
    return draft


def _search_path(sides: Sides, present: Sequence[str]) -> list[str]:
    """Return what is searched with B's ``PYTHONPATH``: B's folders in B's order, for packages those of the trial."""
    of_a, of_b = (entries(path_of(record), record.cwd) for record in (sides.a, sides.b))
    own_a, own_b = (without_packages(sides.a, sides.b, places) for places in (of_a, of_b))
    rest = [place for place in present if place not in own_a]
    return list(dict.fromkeys((*rest, *own_b)))
