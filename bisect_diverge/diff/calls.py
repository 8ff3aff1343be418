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

    def counts(self, groups: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return number of the first call of each of some groups, and how many it has."""
        begins = np.searchsorted(self.group, groups)
        return begins, np.searchsorted(self.group, groups, side="right") - begins

    def by_group(self, groups: NDArray[np.int64]) -> Iterator[tuple[list[int], list[Call]]]:
        """Return numbers and features of the calls of each of some groups, in order."""
        begins, counts = self.counts(groups)
        for begin, end in zip(begins.tolist(), (begins + counts).tolist(), strict=True):
            features = zip(self.site[begin:end].tolist(), self.inputs[begin:end].tolist(), strict=True)
            yield self.call[begin:end].tolist(), list(features)


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
    calls_a = _calls(a, chosen_a, tables, tables.site_a, of_a, group_a[chosen_a])
    calls_b = _calls(b, chosen_b, tables, tables.site_b, of_b, group_b[chosen_b])
    (_, count_a), (_, count_b) = calls_a.counts(uneven), calls_b.counts(uneven)
    single = (count_a == 1) | (count_b == 1)
    moved = [_moves_of_single(calls_a, calls_b, uneven[single])]
    rest = uneven[~single]
    for group, of_one, of_other in zip(rest.tolist(), calls_a.by_group(rest), calls_b.by_group(rest), strict=True):
        moves = [(group, number, now) for number, now in _moves(*of_one, *of_other)]
        moved.append(np.array(moves, np.int64).reshape(-1, 3))
    return of_b.with_call(_renumbered(group_b, of_b, np.concatenate(moved)))


def _moves_of_single(a: _Calls, b: _Calls, groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the same as `_moves` for groups of which one run has one call, without a loop over them.

    Returns:
        int64[n, 3], group, old number and new number of each call of B that changes.
    """
    (begin_a, count_a), (begin_b, count_b) = a.counts(groups), b.counts(groups)
    # Every pair of a call of A and a call of B of one group: one run has one call, so there are max(...) of them.
    pairs = np.maximum(count_a, count_b)
    number = np.repeat(np.arange(len(groups)), pairs)
    nth = np.arange(len(number)) - np.repeat(np.cumsum(pairs) - pairs, pairs)
    at_a = begin_a[number] + np.where(count_a[number] > 1, nth, 0)
    at_b = begin_b[number] + np.where(count_b[number] > 1, nth, 0)
    worth = _SAME_SITE * (a.site[at_a] == b.site[at_b]) + _SAME_INPUTS * (a.inputs[at_a] == b.inputs[at_b])
    order = np.lexsort((nth, -worth, number))
    best = order[np.unique(number[order], return_index=True)[1]]
    own = b.call[at_b]
    free = np.maximum(a.call[begin_a + count_a - 1], b.call[begin_b + count_b - 1])[number] + 1
    # A call of B beside the best has no partner: it keeps its number, unless the one call of A has it.
    now = np.where((own == a.call[at_a]) & (count_b[number] > 1), free + own, own)
    now[best] = a.call[at_a[best]]
    alone = (count_b[number] > 1) & (now != own)
    alone[best] = now[best] != own[best]
    return np.asarray(np.stack([groups[number], own, now], axis=1)[alone])


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
    file: RunFile,
    chosen: NDArray[np.int64],
    tables: Tables,
    sites: NDArray[np.int64],
    rows: Columns,
    group: NDArray[np.int64],
) -> _Calls:
    """Return site and input hash of each call that some forward rows show.

    Args:
        file: The file of the rows.
        chosen: The rows.
        tables: Common numbering.
        sites: Common number of each site of the file.
        rows: Where all rows of the file stand.
        group: Number of the step, micro-batch and place of each of the rows.
    """
    call = rows.call[chosen]
    code, _ = codes((group, call), (group[:0], call[:0]))
    order = np.argsort(code, kind="stable")
    code = code[order]
    starts = np.flatnonzero(np.r_[True, code[1:] != code[:-1]])
    begins = order[starts]
    site = file.events["site"][chosen[begins]]
    return _Calls(
        group[begins],
        call[begins],
        sites[site] if len(sites) else np.zeros(len(starts), np.int64),
        np.add.reduceat(_input_hash(file, chosen[order], rows.slot[chosen[order]], tables), starts),
    )


def _input_hash(
    file: RunFile, chosen: NDArray[np.int64], slot: NDArray[np.signedinteger[Any]], tables: Tables
) -> NDArray[np.uint64]:
    """Return a number for slot and digest of each input row, 0 for other rows."""
    is_input = np.array([text.startswith(("input.", "kwarg.")) for text in tables.slots])[slot]
    odd = np.uint64(0x9E3779B97F4A7C15)
    mixed = file.events["digest1"][chosen] * odd
    mixed ^= file.events["digest0"][chosen]
    mixed += slot.astype(np.uint64) * odd
    mixed ^= mixed >> np.uint64(29)
    mixed *= odd
    mixed[~is_input] = 0
    return np.asarray(mixed)


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
