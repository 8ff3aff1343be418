"""Arguments of the script and options of its launcher: tokens of the command line, one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.trial.command import mixed, take_apart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.model.trial import Unit
    from bisect_diverge.trial.draft import Draft, Sides


def swap(sides: Sides, units: Sequence[Unit], draft: Draft) -> Draft:
    """Give the command B's value of some arguments."""
    draft.command = mixed(take_apart(sides.a), take_apart(sides.b), {unit.knob: unit.b for unit in units})
    return draft
