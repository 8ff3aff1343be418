"""Which call of a module in B is which call in A, where one run calls it more often than the other.

Calls are numbered in the order in which they happen, so one call skipped in B would move all later ones by
one and make equal calls look different. Where the number of calls of a module in a micro-batch is not the
same, the two sequences are aligned like texts: a pair of calls with equal input digests is worth most, then
one from the same site, then any pair at all; order is kept (Needleman & Wunsch 1970, without a gap penalty).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.diff.keys import Columns, Tables, codes, is_call
from bisect_diverge.model.address import NO_PASS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bisect_diverge.store.reader import RunFile

Call = tuple[int, int]
"""Site number and hash of the input digests."""

_SAME_INPUTS = 4
_SAME_SITE = 2
_ANY = 1
_TABLE_LIMIT = 1 << 20
"""Cells of the alignment table beyond which calls are paired in order."""


@dataclass(frozen=True, slots=True)
class _Calls:
    """All calls of one run in the groups of interest, sorted by group and call."""

    group: NDArray[np.int64]
    call: NDArray[np.int64]
    site: NDArray[np.int64]
    inputs: NDArray[np.uint64]

    def by_group(self, groups: NDArray[np.int64]) -> Iterator[tuple[list[int], list[Call]]]:
        """Return numbers and features of the calls of each of some groups, in order."""
        begins = np.searchsorted(self.group, groups).tolist()
        ends = np.searchsorted(self.group, groups, side="right").tolist()
        numbers = self.call.tolist()
        features = list(zip(self.site.tolist(), self.inputs.tolist(), strict=True))
        for begin, end in zip(begins, ends, strict=True):
            yield numbers[begin:end], features[begin:end]


def align_calls(a: RunFile, b: RunFile, tables: Tables, of_a: Columns, of_b: Columns) -> Columns:
    """Return B's rows with call numbers that fit A's.

    A call of B without counterpart gets a number that A does not use for that module.
    """
    group_a, group_b = codes((of_a.step, of_a.micro_batch, of_a.place), (of_b.step, of_b.micro_batch, of_b.place))
    forward_a, forward_b = is_call(of_a, tables), is_call(of_b, tables)
    uneven = _uneven(group_a[forward_a], of_a.call[forward_a], group_b[forward_b], of_b.call[forward_b])
    if not len(uneven):
        return of_b
    chosen_a = np.flatnonzero(forward_a & np.isin(group_a, uneven))
    chosen_b = np.flatnonzero(forward_b & np.isin(group_b, uneven))
    calls_a = _calls(a.events[chosen_a], tables, tables.site_a, of_a.take(chosen_a), group_a[chosen_a])
    calls_b = _calls(b.events[chosen_b], tables, tables.site_b, of_b.take(chosen_b), group_b[chosen_b])
    moved: list[tuple[int, int, int]] = []
    for group, of_one, of_other in zip(
        uneven.tolist(), calls_a.by_group(uneven), calls_b.by_group(uneven), strict=True
    ):
        moved += [(group, number, now) for number, now in _moves(*of_one, *of_other)]
    return of_b.with_call(_renumbered(group_b, of_b, np.array(moved, np.int64).reshape(-1, 3)))


def _moves(
    numbers_a: list[int], features_a: list[Call], numbers_b: list[int], features_b: list[Call]
) -> Iterator[tuple[int, int]]:
    """Return the call numbers of B that change, each with the new one."""
    known = set(numbers_a)
    free = max(numbers_a[-1], numbers_b[-1]) + 1
    for number, partner in zip(numbers_b, align(features_a, features_b), strict=True):
        alone = free + number if number in known else number
        now = alone if partner < 0 else numbers_a[partner]
        if now != number:
            yield number, now


def align(a: list[Call], b: list[Call]) -> list[int]:
    """Return, for each call of b, the index of its counterpart in a, or -1; indices ascend."""
    head = 0
    while head < min(len(a), len(b)) and a[head] == b[head]:
        head += 1
    tail = 0
    while tail < min(len(a), len(b)) - head and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    inner_a, inner_b = a[head : len(a) - tail], b[head : len(b) - tail]
    if len(inner_a) * len(inner_b) > _TABLE_LIMIT:
        inner = [i if i < len(inner_a) else -1 for i in range(len(inner_b))]
    else:
        inner = _best(inner_a, inner_b)
    last = range(len(a) - tail, len(a))
    return [*range(head), *(head + i if i >= 0 else -1 for i in inner), *last]


def _best(a: list[Call], b: list[Call]) -> list[int]:
    """Return the alignment of greatest worth; of equals, the one that pairs the earliest calls."""
    n, m = len(a), len(b)
    worth = [[0] * (m + 1) for _ in range(n + 1)]
    for i in range(n - 1, -1, -1):
        for j in range(m - 1, -1, -1):
            paired = worth[i + 1][j + 1] + _worth(a[i], b[j])
            worth[i][j] = max(paired, worth[i + 1][j], worth[i][j + 1])
    partners = [-1] * m
    i = j = 0
    while i < n and j < m:
        if worth[i][j] == worth[i + 1][j + 1] + _worth(a[i], b[j]):
            partners[j] = i
            i, j = i + 1, j + 1
        elif worth[i][j] == worth[i + 1][j]:
            i += 1
        else:
            j += 1
    return partners


def _worth(a: Call, b: Call) -> int:
    return _ANY + _SAME_SITE * (a[0] == b[0]) + _SAME_INPUTS * (a[1] == b[1])


def _uneven(
    group_a: NDArray[np.int64],
    call_a: NDArray[np.int64],
    group_b: NDArray[np.int64],
    call_b: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the groups that both runs have, with different numbers of calls."""
    groups, inverse = np.unique(np.concatenate([group_a, group_b]), return_inverse=True)
    last_a = np.full(len(groups), -1, np.int64)
    last_b = np.full(len(groups), -1, np.int64)
    np.maximum.at(last_a, inverse[: len(group_a)], call_a)
    np.maximum.at(last_b, inverse[len(group_a) :], call_b)
    return np.asarray(groups[(last_a != last_b) & (last_a >= 0) & (last_b >= 0)])


def _calls(
    events: NDArray[Any], tables: Tables, sites: NDArray[np.int64], rows: Columns, group: NDArray[np.int64]
) -> _Calls:
    """Return site and input hash of each call that some forward rows show.

    Args:
        events: The rows as recorded.
        tables: Common numbering.
        sites: Common number of each site of their file.
        rows: Where they stand.
        group: Number of each row's step, micro-batch and place.
    """
    order = np.lexsort((rows.call, group))
    groups, calls = group[order], rows.call[order]
    fresh = np.r_[True, (groups[1:] != groups[:-1]) | (calls[1:] != calls[:-1])]
    starts = np.flatnonzero(fresh)
    site = events["site"][order]
    return _Calls(
        groups[starts],
        calls[starts],
        sites[site[starts]] if len(sites) else np.zeros(len(starts), np.int64),
        np.add.reduceat(_input_hash(events[order], rows.slot[order], tables), starts),
    )


def _input_hash(events: NDArray[Any], slot: NDArray[np.int64], tables: Tables) -> NDArray[np.uint64]:
    """Return a number for slot and digest of each input row, 0 for other rows."""
    is_input = np.array([text.startswith(("input.", "kwarg.")) for text in tables.slots])
    odd = np.uint64(0x9E3779B97F4A7C15)
    mixed = (events["digest0"] ^ (events["digest1"] * odd)) + slot.astype(np.uint64) * odd
    mixed ^= mixed >> np.uint64(29)
    return np.where(is_input[slot], mixed * odd, np.uint64(0))


def _renumbered(group: NDArray[np.int64], rows: Columns, moved: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the call numbers of all rows.

    Args:
        group: Number of each row's step, micro-batch and place.
        rows: Where the rows stand.
        moved: int64[n, 3], group, old number and new number of each call that changes.
    """
    if not len(moved):
        return rows.call
    known, asked = codes((moved[:, 0], moved[:, 1]), (group, rows.call))
    order = np.argsort(known)
    at = order[np.minimum(np.searchsorted(known, asked, sorter=order), len(known) - 1)]
    # Rows of other phases (backward, rng) that share group and call belong to that call, so they move with
    # it.
    found = (known[at] == asked) & (rows.micro_batch != NO_PASS)
    return np.where(found, moved[at, 2], rows.call)
