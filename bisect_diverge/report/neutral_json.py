"""Whether recording changed a command, as JSON for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bisect_diverge.model.neutrality import Neutrality


def neutral_json(neutrality: Neutrality) -> str:
    """Return what was found as an indented JSON document."""
    return json.dumps(neutrality.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
