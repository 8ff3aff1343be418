"""The container image of a run, as far as it was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import Unit, Untested
from bisect_diverge.trial.interpreters import value_of

if TYPE_CHECKING:
    from bisect_diverge.model.run import RunRecord

KNOB = "image"
"""Knob of the unit."""
NAMES = ("CONTAINER_IMAGE", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER")
"""Variables that name the image from inside; the first that is set counts."""
PLACE = "{image}"
"""Stands for the image in the command that starts a container."""


def image_of(record: RunRecord) -> str:
    """Return the image that a run was recorded in; empty if it is not known."""
    return next(filter(None, (value_of(record, name) for name in NAMES)), "")


def image_units(a: RunRecord, b: RunRecord, image_cmd: str) -> tuple[Unit | Untested, ...]:
    """Return the unit of the image, or why it cannot be swapped; nothing where both runs had the same.

    Args:
        a: The baseline.
        b: The candidate.
        image_cmd: What starts a command in an image, with `PLACE` in it; empty: not known.
    """
    one, other = image_of(a), image_of(b)
    if one == other:
        return ()
    unit = Unit(layer=Layer.RUNTIME, knob=KNOB, a=one or None, b=other or None)
    if not one or not other:
        return (Untested(unit=unit, reason="only one of the two runs was recorded in a container image"),)
    if not image_cmd:
        reason = f"say how a command is run in an image: --image-cmd 'apptainer exec {PLACE}'"
        return (Untested(unit=unit, reason=reason),)
    return (unit,)
