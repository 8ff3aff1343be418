"""The result of a bisection as JSON, for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bisect_diverge.model.trial import Bisection


def bisection_json(bisection: Bisection) -> str:
    """Return the result of a bisection as an indented JSON document."""
    return json.dumps(bisection.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
