"""An environment, or what differs between two, as plain JSON values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bisect_diverge.model.environment import Layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.environment.differences import NotCompared
    from bisect_diverge.model.environment import Difference, Environment

SCHEMA = 1
"""Version of these documents."""


def environment_json(environment: Environment, rank: int, layers: Sequence[Layer] = ()) -> dict[str, Any]:
    """Return all settings, in the order of the layers."""
    wanted = list(layers) or list(Layer)
    rows = [s for layer in wanted for s in environment.settings if s.layer is layer]
    return {"schema": SCHEMA, "rank": rank, "settings": [row.to_json() for row in rows]}


def differences_json(differences: Sequence[Difference], skipped: Sequence[NotCompared], rank: int) -> dict[str, Any]:
    """Return what differs, as ``bd diff --format json`` has it too, and what could not be compared."""
    return {
        "schema": SCHEMA,
        "rank": rank,
        "environment": [row.to_json() for row in differences],
        "not_compared": [row.to_json() for row in skipped],
    }
