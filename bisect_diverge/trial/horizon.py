"""Where noise begins in the order of A's rows: what precedes it can be judged though the rest cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bisect_diverge.errors import NoSuchAddressError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bisect_diverge.diff.comparison import Comparison
    from bisect_diverge.model.address import Address
    from bisect_diverge.store.reader import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """The first row that is not judged, in either run."""

    address: Address
    row_a: int
    row_b: int


def horizon_of(a: Run, b: Run, differing: Sequence[Address]) -> Horizon | None:
    """Return the earliest of some addresses in A's order.

    None where one of them cannot be placed in both runs, and for several ranks: their rows have no common order.
    """
    if len(a.ranks) != 1 or len(b.ranks) != 1:
        return None
    try:
        found = [
            Horizon(address=x, row_a=int(a.first.rows_at(x)[0]), row_b=int(b.first.rows_at(x)[0])) for x in differing
        ]
    except NoSuchAddressError:
        return None
    return min(found, key=lambda horizon: horizon.row_a, default=None)


def precedes(a: Run, first: Address, horizon: Horizon) -> bool:
    """Whether an address of A comes before the horizon in A's order."""
    try:
        return int(a.first.rows_at(first)[0]) < horizon.row_a
    except NoSuchAddressError:
        return False


def first_before(comparison: Comparison, row: int | None) -> Address | None:
    """Return the first divergence of a comparison if it lies before a row of its first run; None: all is judged."""
    first = comparison.divergence.first
    if first is None or row is None:
        return None if first is None else first.address
    return first.address if comparison.first < _end(comparison, row) else None


def judged(comparison: Comparison, row: int | None) -> NDArray[np.bool_]:
    """Return which rows of the merged trace lie before a row of its first run, bool[n]; all where there is none."""
    found = np.ones(len(comparison.row_a), np.bool_)
    if row is not None:
        found[_end(comparison, row) :] = False
    return found


def _end(comparison: Comparison, row: int) -> int:
    """Return the place in the merged trace at which a row of the first run stands."""
    at = np.flatnonzero(comparison.row_a >= row)
    return int(at[0]) if len(at) else len(comparison.row_a)
