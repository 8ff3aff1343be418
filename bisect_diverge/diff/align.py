"""Which record of B is which record of A: by address, and in order where an address occurs repeatedly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.diff.keys import Columns, codes

Rows = NDArray[np.int64]


def same_order(a: Columns, b: Columns) -> bool:
    """Return whether two runs have the same addresses in the same order, which is the usual case."""
    return len(a) == len(b) and all(map(np.array_equal, a.parts(), b.parts()))


def partners(a: Columns, b: Columns) -> Rows:
    """Return B's row for each of A's rows, -1 where there is none.

    The n-th row of an address in A belongs to its n-th row in B.
    """
    code_a, code_b = codes(a.parts(), b.parts())
    nth_a, nth_b = _occurrences(code_a), _occurrences(code_b)
    if nth_a.any() or nth_b.any():
        code_a, code_b = codes((code_a, nth_a), (code_b, nth_b))
    order = np.argsort(code_b, kind="stable")
    if not len(order):
        return np.full(len(a), -1, np.int64)
    at = np.minimum(np.searchsorted(code_b, code_a, sorter=order), len(order) - 1)
    found = order[at]
    return np.where(code_b[found] == code_a, found, -1)


def merged(partner: Rows, size_b: int) -> tuple[Rows, Rows]:
    """Return the rows of A and B along one trace, -1 where a run has none.

    The trace is in A's order; a row that only B has stands after its predecessor in B.

    Args:
        partner: B's row for each of A's rows.
        size_b: Number of B's rows.
    """
    row_a = np.arange(len(partner), dtype=np.int64)
    partner_of_b = np.full(size_b, -1, np.int64)
    paired = partner >= 0
    partner_of_b[partner[paired]] = row_a[paired]
    only_b = np.flatnonzero(partner_of_b < 0)
    if not len(only_b):
        return row_a, partner
    last_paired = np.maximum.accumulate(np.where(partner_of_b >= 0, np.arange(size_b), -1))[only_b]
    after = np.where(last_paired >= 0, partner_of_b[last_paired], -1)
    order = np.argsort(np.concatenate([2 * row_a, 2 * after + 1]), kind="stable")
    lone = np.full(len(only_b), -1, np.int64)
    return np.concatenate([row_a, lone])[order], np.concatenate([partner, only_b])[order]


def _occurrences(code: Rows) -> Rows:
    """Return for each row how many rows of the same code stand before it."""
    order = np.argsort(code, kind="stable")
    ordered = code[order]
    position = np.arange(len(code))
    fresh = np.ones(len(code), np.bool_)
    fresh[1:] = ordered[1:] != ordered[:-1]
    out = np.empty(len(code), np.int64)
    out[order] = position - np.maximum.accumulate(np.where(fresh, position, 0))
    return out
