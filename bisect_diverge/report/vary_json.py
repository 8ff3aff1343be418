"""What a run is sensitive to, as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.model.trial import Unit, Untested
    from bisect_diverge.study.vary import Variation


def variation_json(variation: Variation) -> str:
    """Return the result as a JSON document."""
    return json.dumps(variation.to_json(), indent=2, ensure_ascii=False)


def variation_plan_json(units: Sequence[Unit], out: Sequence[Untested], trials: int, seconds: float) -> str:
    """Return what would be tried as a JSON document.

    Args:
        units: What would be swapped.
        out: What means nothing here.
        trials: Trials, repeats of the run included.
        seconds: What they would take.
    """
    row = {
        "schema": 1,
        "units": [unit.to_json() for unit in units],
        "inapplicable": [each.to_json() for each in out],
        "trials": trials,
        "seconds": round(seconds, 1),
    }
    return json.dumps(row, indent=2, ensure_ascii=False)
