"""How far a trial is on the way from A to B: for runs of which no two have the same bits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from bisect_diverge.diff.compare import compare
from bisect_diverge.diff.options import DiffOptions
from bisect_diverge.diff.trace import RowState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bisect_diverge.diff.comparison import Comparison
    from bisect_diverge.store.reader import Run


MOST_NUMBERS = 15
"""So many recorded numbers of each trial are kept."""


def nearness(trial: Run, a: Run, b: Run, offset_b: int = 0) -> float:
    """Return 0 for a trial that is A's record, 1 for one that is B's, and something between for any other.

    The mean of two shares, each the distance to A over the sum of the distances to A and to B: one counts the records
    whose bits differ, the other is the mean relative difference of all recorded numbers of one element (losses,
    hyperparameters, ...). The first sees the smallest difference, the second still sees a large one behind noise that
    has changed the bits of every record.

    Args:
        trial: The trial's recording.
        a: The baseline.
        b: The candidate.
        offset_b: A's step at which a resumed B begins.
    """
    from_a, from_b = _distances(compare(a, trial, DiffOptions()), a, trial), _best_of_b(trial, b, offset_b)
    shares = [x / (x + y) for x, y in zip(from_a, from_b, strict=True) if x + y > 0]
    return float(np.mean(shares)) if shares else 0.0


def watched(a: Run, b: Run, last_step: int, offset_b: int = 0) -> tuple[int, ...]:
    """Return rows of A's first rank whose numbers of one element differ in B: losses, say.

    At most `MOST_NUMBERS`, evenly over all that there are up to the last step, with the last of them.
    """
    comparison = compare(a, b, DiffOptions(offset_b=offset_b))
    rank = min(a.ranks)
    here = (comparison.rank == rank) & (comparison.state == RowState.DIFFERS) & (comparison.step <= last_step)
    rows_a, rows_b = comparison.row_a[here], comparison.row_b[here]
    x, y = a.ranks[rank].events["value"][rows_a], b.ranks[rank].events["value"][rows_b]
    rows = rows_a[np.isfinite(x) & np.isfinite(y)]
    chosen = np.unique(np.linspace(0, len(rows) - 1, min(MOST_NUMBERS, len(rows))).round().astype(int))
    return tuple(rows[chosen].tolist()) if len(rows) else ()


def numbers_at(trial: Run, a: Run, rows: Sequence[int]) -> tuple[float, ...]:
    """Return what a trial has in the place of some rows of A's first rank; infinite where it has no number there."""
    comparison = compare(a, trial, DiffOptions())
    rank = min(a.ranks)
    here = (comparison.rank == rank) & (comparison.row_a >= 0) & (comparison.row_b >= 0)
    partner = dict(zip(comparison.row_a[here].tolist(), comparison.row_b[here].tolist(), strict=True))
    values = trial.ranks[rank].events["value"] if rank in trial.ranks else ()
    found = [float(values[partner[row]]) if row in partner else math.inf for row in rows]
    return tuple(x if math.isfinite(x) else math.inf for x in found)


def _best_of_b(trial: Run, b: Run, offset_b: int) -> tuple[float, float]:
    """Return the distances to B as it is numbered, or as a resumed B is if that is nearer."""
    plain = _distances(compare(b, trial, DiffOptions()), b, trial)
    if not offset_b:
        return plain
    return min(plain, _distances(compare(b, trial, DiffOptions(offset_b=-offset_b)), b, trial))


def _distances(comparison: Comparison, run: Run, trial: Run) -> tuple[float, float]:
    """Return the share of records that differ, and the mean relative difference of those of one element."""
    compared = comparison.state != RowState.IGNORED
    both = compared & (comparison.row_a >= 0) & (comparison.row_b >= 0)
    if not both.any():
        return 1.0, 1.0
    gaps = [_gaps(comparison, run, trial, rank, both) for rank in np.unique(comparison.rank[both]).tolist()]
    relative = np.concatenate(gaps)
    differing = both & (comparison.state == RowState.DIFFERS)
    return float(differing.sum() / both.sum()), float(relative.mean()) if len(relative) else 0.0


def _gaps(comparison: Comparison, run: Run, trial: Run, rank: int, both: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return ``|x - y| / (|x| + |y|)`` of the finite numbers of one element of one rank, float64[n]."""
    here = both & (comparison.rank == rank)
    x = run.ranks[rank].events["value"][comparison.row_a[here]]
    y = trial.ranks[rank].events["value"][comparison.row_b[here]]
    finite = np.isfinite(x) & np.isfinite(y)
    x, y = x[finite].astype(np.float64), y[finite].astype(np.float64)
    scale = np.abs(x) + np.abs(y)
    gaps: NDArray[np.float64] = np.divide(np.abs(x - y), scale, out=np.zeros(x.shape), where=scale > 0)
    return gaps
