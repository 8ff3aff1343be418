"""The container image: a command prefix that starts one."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from bisect_diverge.trial.images import PLACE, image_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.model.trial import Unit
    from bisect_diverge.trial.draft import Draft, Sides


def swap(sides: Sides, units: Sequence[Unit], draft: Draft) -> Draft:
    """Start the command in B's image, or in the one that A had, if it is known how."""
    image = next((unit.b for unit in units if unit.b), "") or image_of(sides.a)
    if sides.image_cmd and image:
        draft.prefix = tuple(word.replace(PLACE, image) for word in shlex.split(sides.image_cmd))
    return draft
