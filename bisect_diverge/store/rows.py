"""The rows of a very long recording, left in the file: columns and rows are read when they are asked for.

A row takes 72 bytes, so the rows of two runs of five million would fill 720 MB; what a comparison keeps of each is a
third of that. `StoredRows` is indexed like the structured array that shorter recordings are read into.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

IN_MEMORY = 2_000_000
"""Rows up to which a recording is read as a whole."""
BLOCK = 1 << 16
"""Rows that are read at once, 4.7 MB."""
COLUMNS_KEPT = 2
"""Narrow columns that are remembered: programs ask for the steps again and again."""
NARROW = 4
"""Bytes of an element of a narrow column, at most."""


def stored_rows(table: Any, count: int) -> NDArray[Any]:
    """Return the first rows of a dataset: read as a whole, or left in the file where there are very many.

    Args:
        table: The h5py dataset.
        count: Number of rows.
    """
    if count <= IN_MEMORY:
        return cast("NDArray[Any]", table[:count])
    return cast("NDArray[Any]", StoredRows(table, count))


class StoredRows:
    """Rows of a dataset, indexed like a structured array: by column name, row, slice, row numbers or mask.

    Args:
        table: The h5py dataset; it has to stay open.
        count: Number of rows.
    """

    def __init__(self, table: Any, count: int) -> None:
        self._table = table
        self._count = count
        self.dtype = table.dtype
        self._columns: OrderedDict[str, NDArray[Any]] = OrderedDict()
        self._block = -1
        self._rows: NDArray[Any] = np.zeros(0, self.dtype)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, what: Any) -> Any:
        if isinstance(what, str):
            return self._column(what)
        if isinstance(what, slice):
            return self._table[: self._count][what] if what.step not in (None, 1) else self._span(what)
        if isinstance(what, int | np.integer):
            return self._row(int(what))
        rows = np.asarray(what)
        return self._gather(np.flatnonzero(rows) if rows.dtype == np.bool_ else rows)

    def _column(self, name: str) -> NDArray[Any]:
        if name in self._columns:
            self._columns.move_to_end(name)
            return self._columns[name]
        out = np.empty(self._count, self.dtype[name])
        for start in range(0, self._count, BLOCK):
            stop = min(start + BLOCK, self._count)
            out[start:stop] = self._table[start:stop][name]
        if out.itemsize <= NARROW:
            out.setflags(write=False)
            self._columns[name] = out
            if len(self._columns) > COLUMNS_KEPT:
                self._columns.popitem(last=False)
        return out

    def _span(self, what: slice) -> NDArray[Any]:
        start, stop, _ = what.indices(self._count)
        return cast("NDArray[Any]", self._table[start : max(stop, start)])

    def _row(self, row: int) -> Any:
        if not -self._count <= row < self._count:
            raise IndexError(f"row {row} of {self._count}")
        block, at = divmod(row % self._count, BLOCK)
        return self._read(block)[at]

    def _read(self, block: int) -> NDArray[Any]:
        if block != self._block:
            self._rows = self._table[block * BLOCK : min((block + 1) * BLOCK, self._count)]
            self._block = block
        return self._rows

    def _gather(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return some rows in the order asked for, reading each block that holds one once."""
        out = np.empty(len(rows), self.dtype)
        rows = np.where(rows < 0, rows + self._count, rows)
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        blocks = ordered // BLOCK
        starts = np.flatnonzero(np.r_[True, blocks[1:] != blocks[:-1]]) if len(rows) else ordered
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(rows)], strict=False):
            at = order[start:stop]
            out[at] = self._read(int(blocks[start]))[rows[at] - blocks[start] * BLOCK]
        return out
