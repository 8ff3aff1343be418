"""A step replayed in place, as JSON for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bisect_diverge.model.replay import Replay


def replay_json(replay: Replay) -> str:
    """Return what was found as an indented JSON document."""
    return json.dumps(replay.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
