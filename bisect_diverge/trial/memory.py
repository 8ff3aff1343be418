"""What it means where the bits follow `MALLOC_PERTURB_`, which fills each block of memory that malloc hands out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bisect_diverge.model.trial import Bisection, Unit

VARIABLE = "MALLOC_PERTURB_"
MEANING = (
    f"{VARIABLE} only fills memory: a run that it moves reads memory that nobody has written; look for torch.empty, "
    "numpy.empty, Tensor.new and resize_ of which not every element is assigned"
)


def is_about_memory(unit: Unit) -> bool:
    """Whether a unit is nothing but what memory is filled with."""
    return unit.knob == VARIABLE


def with_memory(bisection: Bisection) -> Bisection:
    """Return a bisection that says what it means if the filling of memory is a cause."""
    if not any(is_about_memory(unit) for cause in bisection.causes for unit in cause.units):
        return bisection
    return replace(bisection, notes=(MEANING, *bisection.notes))
