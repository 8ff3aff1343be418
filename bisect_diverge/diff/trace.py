"""The merged trace of one rank: the rows of both runs in one order, and whether they are equal."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.diff.algorithms import compare_unlike
from bisect_diverge.diff.align import merged, partners, same_order
from bisect_diverge.diff.calls import align_calls
from bisect_diverge.diff.keys import Columns, Tables, columns, common_tables
from bisect_diverge.diff.starts import Begins, first_states, is_window, with_starts

if TYPE_CHECKING:
    from bisect_diverge.diff.options import DiffOptions
    from bisect_diverge.store.reader import RunFile


class RowState(IntEnum):
    """What the comparison of a row of the trace found."""

    EQUAL = 0
    DIFFERS = 1
    ONLY_A = 2
    ONLY_B = 3
    IGNORED = 4
    """Not compared: before ``--from``, matched by ``--ignore``, of a generator nobody draws from, or digests unlike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The merged trace of one rank; all arrays have one entry per row."""

    rank: int
    """Rank of the two files."""
    a: RunFile
    """A's recording of that rank."""
    b: RunFile
    """B's recording of that rank."""
    tables: Tables
    """Common numbering of places and slots."""
    offset_b: int
    """Added to B's steps."""
    row_a: NDArray[np.int64]
    """Row in A's file; -1: only B has it."""
    row_b: NDArray[np.int64]
    """Row in B's file; -1: only A has it."""
    rows: Columns
    """Where each row stands (in A's words; B's call numbers are aligned to A's)."""
    same: NDArray[np.bool_]
    """Both runs have the row, with the same digest."""
    state: NDArray[np.uint8]
    """`RowState`; changed in place while the comparison leaves rows out."""
    not_comparable: int = 0
    """Pairs whose digests were made by different algorithms, and of which neither run has kept the bytes."""

    def __len__(self) -> int:
        return len(self.row_a)

    @property
    def paired(self) -> NDArray[np.bool_]:
        """Which rows both runs have."""
        return (self.row_a >= 0) & (self.row_b >= 0)


def build_trace(rank: int, a: RunFile, b: RunFile, options: DiffOptions) -> Trace:
    """Return the merged trace of one rank of two runs, with every pair of digests compared."""
    tables = common_tables(a, b, options.renamed)
    of_a = columns(a, tables.place_a, tables.slot_a)
    of_b = columns(b, tables.place_b, tables.slot_b, options.offset_b)
    if same_order(of_a, of_b):
        of_b = of_a  # the room of the other is needed for the digests
        row_a = np.arange(len(of_a), dtype=np.int64)
        row_b, rows = row_a, of_a
        same = _same_digests(a, b)
    else:
        of_b = align_calls(a, b, tables, of_a, of_b)
        begins = Begins(window_a=is_window(a), window_b=is_window(b), offset_b=options.offset_b)
        partner = with_starts(of_a, of_b, tables, _by_address(of_a, of_b, begins), begins)
        row_a, row_b = merged(partner, len(of_b))
        rows = _along(row_a, row_b, of_a, of_b)
        same = np.zeros(len(row_a), np.bool_)
        paired = np.flatnonzero((row_a >= 0) & (row_b >= 0))
        same[paired] = _same_digests(a, b, row_a[paired], row_b[paired])
    state = np.where(same, RowState.EQUAL, RowState.DIFFERS).astype(np.uint8)
    state[row_b < 0] = RowState.ONLY_A
    state[row_a < 0] = RowState.ONLY_B
    unlike = compare_unlike(a, b, row_a, row_b)
    same[unlike.index] = unlike.same
    state[unlike.index] = np.where(unlike.same, RowState.EQUAL, RowState.DIFFERS)
    state[unlike.index[~unlike.known]] = RowState.IGNORED
    return Trace(
        rank=rank,
        a=a,
        b=b,
        tables=tables,
        offset_b=options.offset_b,
        row_a=row_a,
        row_b=row_b,
        rows=rows,
        same=same,
        state=state,
        not_comparable=int(np.count_nonzero(~unlike.known)),
    )


def _same_digests(
    a: RunFile,
    b: RunFile,
    row_a: NDArray[np.int64] | slice = np.s_[:],
    row_b: NDArray[np.int64] | slice = np.s_[:],
) -> NDArray[np.bool_]:
    """Return where two equally long choices of rows have equal digests; they cover dtype and shape too."""
    halves = (a.events[half][row_a] == b.events[half][row_b] for half in ("digest0", "digest1"))
    first, second = halves
    same: NDArray[np.bool_] = first & second
    return same


def _by_address(of_a: Columns, of_b: Columns, begins: Begins) -> NDArray[np.int64]:
    """Return B's row for each of A's; the generators that a resumed run starts from have those of updates before it."""
    in_a = np.flatnonzero(~first_states(of_a)) if begins.offset_b < 0 else np.arange(len(of_a))
    in_b = np.flatnonzero(~first_states(of_b)) if begins.offset_b > 0 else np.arange(len(of_b))
    out = np.full(len(of_a), -1, np.int64)
    if len(in_b):
        found = partners(of_a.take(in_a), of_b.take(in_b))
        out[in_a] = np.where(found >= 0, in_b[found], -1)
    return out


def _along(row_a: NDArray[np.int64], row_b: NDArray[np.int64], of_a: Columns, of_b: Columns) -> Columns:
    both = zip(of_a.parts(), of_b.parts(), strict=True)
    pick = np.where(row_a >= 0, row_a, len(of_a) + row_b)
    step, micro_batch, phase, place, call, slot = (np.concatenate(pair)[pick] for pair in both)
    return Columns(step=step, micro_batch=micro_batch, phase=phase, place=place, call=call, slot=slot)
