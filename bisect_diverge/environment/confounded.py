"""Whether a comparison of two runs is one of one thing: which inputs differ, and in how many layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.environment.apply import is_variable
from bisect_diverge.environment.inputs import FILE, LISTING
from bisect_diverge.model.environment import Layer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bisect_diverge.model.environment import Difference, Environment


def inputs(differences: Iterable[Difference], a: Environment, b: Environment) -> tuple[Difference, ...]:
    """Return the differences that somebody made: requested inputs.

    Left out is what the script does by itself with them: the seeds that it sets, files that only one run has read, and
    resolved values that no input is known to explain.

    Args:
        differences: What differs, as `environment.differences.differences` returns it.
        a: Environment of the one run.
        b: Environment of the other.
    """
    requested = {(s.layer, s.knob) for s in (*a.settings, *b.settings) if not s.resolved}
    return tuple(d for d in differences if (d.layer, d.knob) in requested and not _is_the_scripts(d))


def _is_the_scripts(difference: Difference) -> bool:
    if difference.layer is Layer.SEEDS:
        return not is_variable(difference.layer, difference.knob)
    one_sided = difference.a is None or difference.b is None
    return one_sided and difference.knob.startswith((FILE, LISTING))


def layers_of(differences: Sequence[Difference]) -> tuple[Layer, ...]:
    """Return the layers of some differences, in their order."""
    return tuple(layer for layer in Layer if any(d.layer is layer for d in differences))
