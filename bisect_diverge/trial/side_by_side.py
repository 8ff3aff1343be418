"""How many trials may run at a time: side by side only where that cannot move their bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bisect_diverge.environment.load import depends_on_load

if TYPE_CHECKING:
    from bisect_diverge.model.environment import Environment


def jobs_for(jobs: int, *environments: Environment, warn: Callable[[str], None]) -> int:
    """Return how many trials run at a time; a sentence says why it is one where more were asked for.

    Numbers of threads come of the processors that a trial may use, not of how busy they are, so that trials on the CPU
    keep their bits beside others. What is chosen by timing does not.

    Args:
        jobs: What the user asked for.
        environments: Of the runs that are repeated.
        warn: Gets the sentence.
    """
    why = depends_on_load(*environments) if jobs > 1 else ""
    if not why:
        return jobs
    warn(f"one trial at a time, since trials side by side could disturb one another: {why}")
    return 1
