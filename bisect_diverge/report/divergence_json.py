"""The result of a comparison as JSON, for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bisect_diverge.model.divergence import Divergence


def divergence_json(divergence: Divergence) -> str:
    """Return the result of a comparison as an indented JSON document."""
    return json.dumps(divergence.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
