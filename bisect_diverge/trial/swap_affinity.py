"""The number of processors that the command may run on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.model.trial import Unit
    from bisect_diverge.trial.draft import Draft, Sides


def swap(_sides: Sides, units: Sequence[Unit], draft: Draft) -> Draft:
    """Give the command as many processors as B had: which they are moves no bits."""
    for unit in units:
        draft.processors = tuple(sorted(os.sched_getaffinity(0))[: int(unit.b or 0)])
    return draft
