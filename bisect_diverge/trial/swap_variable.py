"""Environment variables, and the directories that ``PYTHONPATH`` names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.trial.packages import entries
from bisect_diverge.trial.units import PYTHONPATH, path_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.model.trial import Unit
    from bisect_diverge.trial.draft import Draft, Sides


def swap(sides: Sides, units: Sequence[Unit], draft: Draft) -> Draft:
    """Set variables to B's values, or take them away. Comes after the packages: they are searched first."""
    for unit in units:
        if unit.knob == PYTHONPATH:
            draft.search_path = list(dict.fromkeys((*draft.search_path, *entries(path_of(sides.b), sides.b.cwd))))
        elif unit.b is None:
            draft.variables.pop(unit.knob, None)
        else:
            draft.variables[unit.knob] = unit.b
    return draft
