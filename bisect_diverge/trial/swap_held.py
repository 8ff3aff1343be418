"""What is set and held inside the process (`record.overrides`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.model.trial import Unit
    from bisect_diverge.trial.draft import Draft, Sides


def swap(_sides: Sides, units: Sequence[Unit], draft: Draft) -> Draft:
    """Hold knobs at B's values."""
    draft.pins |= {f"{unit.layer}.{unit.knob}": unit.b or "" for unit in units}
    return draft
