"""A table of few rows whose keys are the screen's: settings that differ, trials."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text
from textual.content import Content
from textual.widgets import DataTable

from bisect_diverge.tui import words

_LEAST = 4
"""Cells of the narrowest column."""
_BESIDE = 2
"""Blanks around a cell."""


class Table(DataTable[Text], inherit_bindings=False):
    """Rows under a title, fitted to the width.

    Args:
        name: In the style sheet.
        title: What stands over it.
        heads: Heads of the columns; the last column takes what is left.
        most: Cells of each column but the last at most.
    """

    def __init__(self, name: str, title: str, heads: Sequence[str], most: Sequence[int]) -> None:
        super().__init__(id=name, cursor_type="row", zebra_stripes=False, show_header=True)
        self._title, self._heads, self._most = title, heads, most
        self._rows: list[tuple[str, ...]] = []
        self._bold: set[int] = set()

    def show(self, rows: list[tuple[str, ...]], bold: set[int] | None = None) -> None:
        """Show other rows; a cursor on the last row stays on the last, any other stays where it is."""
        if rows == self._rows and bold == self._bold:
            return
        follow = self.cursor_row >= len(self._rows) - 1
        at = len(rows) - 1 if follow and self.id == "trials" else self.cursor_row
        self._rows, self._bold = rows, bold or set()
        self.border_title = Content(f" {self._title} ({len(rows)}) ")
        self._fill(at)

    def on_resize(self) -> None:
        """Fit the columns."""
        self._fill(self.cursor_row)

    def move(self, rows: int) -> None:
        """Move the cursor some rows."""
        self.move_cursor(row=min(max(0, self.cursor_row + rows), max(0, len(self._rows) - 1)), animate=False)

    def _fill(self, at: int) -> None:
        widths = self._widths()
        self.clear(columns=True)
        for head, width in zip(self._heads, widths, strict=True):
            self.add_column(Text(words.fit(head, width).rstrip()), width=width)
        for number, row in enumerate(self._rows):
            style = "bold" if number in self._bold else ""
            self.add_row(*(Text(words.fit(cell, w), style=style) for cell, w in zip(row, widths, strict=True)))
        if self._rows:
            self.move_cursor(row=min(max(0, at), len(self._rows) - 1), animate=False)

    def _widths(self) -> list[int]:
        """Return the cells of each column: as much as its longest text needs, and the last what is left."""
        longest = [max(len(row[i]) for row in [tuple(self._heads), *self._rows]) for i in range(len(self._heads))]
        widths = [min(most, length) for most, length in zip(self._most, longest[:-1], strict=True)]
        room = self.size.width - 1 - _BESIDE * len(self._heads)
        last = max(room - sum(widths), min(longest[-1], 16))
        while sum(widths) + last > room and max(widths) > _LEAST:
            widths[widths.index(max(widths))] -= 1
        return [*widths, max(last, _LEAST)]
