"""The merged trace of one rank: the rows of both runs in one order, and whether they are equal."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.diff.align import merged, partners, same_order, start_of, start_partners
from bisect_diverge.diff.calls import align_calls
from bisect_diverge.diff.keys import Columns, Tables, columns, common_tables

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
    """Not compared: before ``--from``, matched by ``--ignore``, or of a generator nobody draws from."""


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
        row_a = np.arange(len(of_a), dtype=np.int64)
        row_b, rows = row_a, of_a
        same = _same_digests(a, b)
    else:
        of_b = align_calls(a, b, tables, of_a, of_b)
        partner = _resumed(of_a, of_b, tables, options.offset_b) if options.offset_b > 0 else partners(of_a, of_b)
        row_a, row_b = merged(partner, len(of_b))
        rows = _along(row_a, row_b, of_a, of_b)
        same = np.zeros(len(row_a), np.bool_)
        paired = np.flatnonzero((row_a >= 0) & (row_b >= 0))
        same[paired] = _same_digests(a, b, row_a[paired], row_b[paired])
    state = np.where(same, RowState.EQUAL, RowState.DIFFERS).astype(np.uint8)
    state[row_b < 0] = RowState.ONLY_A
    state[row_a < 0] = RowState.ONLY_B
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


def _resumed(of_a: Columns, of_b: Columns, tables: Tables, offset: int) -> NDArray[np.int64]:
    """Return partners where B was resumed: what it started from is compared with A's state at that point."""
    going_on = np.flatnonzero(~start_of(of_b))
    partner = partners(of_a, of_b.take(going_on))
    partner = np.where(partner >= 0, going_on[partner] if len(going_on) else -1, -1)
    for row_a, row_b in start_partners(of_a, of_b, tables, offset):
        partner[row_a] = row_b
    return partner


def _along(row_a: NDArray[np.int64], row_b: NDArray[np.int64], of_a: Columns, of_b: Columns) -> Columns:
    both = zip(of_a.parts(), of_b.parts(), strict=True)
    pick = np.where(row_a >= 0, row_a, len(of_a) + row_b)
    step, micro_batch, phase, place, call, slot = (np.concatenate(pair)[pick] for pair in both)
    return Columns(step=step, micro_batch=micro_batch, phase=phase, place=place, call=call, slot=slot)
