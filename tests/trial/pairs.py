"""Pairs of synthetic runs, as a search is given them."""

from __future__ import annotations

from typing import Any

from bisect_diverge.store.reader import Run
from bisect_diverge.trial.draft import Sides
from bisect_diverge.trial.journal import Journal
from bisect_diverge.trial.oracle import Pair
from bisect_diverge.trial.workspace import Workspace


def pair_of(a: Run, b: Run, sides: Sides | None = None, **more: Any) -> Pair:
    """Return two runs without a journal on the disk; of `sides`, if not given, trials end after step 2."""
    return Pair(
        a=a,
        b=b,
        sides=sides or Sides(a=a.first.record, b=b.first.record, last_step=2),
        journal=Journal(None, "a", "b", ""),
        workspace=Workspace(),
        **more,
    )
