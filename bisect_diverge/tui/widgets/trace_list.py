"""The trace: a virtual list that draws only the lines on the screen, whatever their number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.segment import Segment
from rich.style import Style
from textual import events, work
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from bisect_diverge.tui import states, words
from bisect_diverge.tui.comparison import Comparison
from bisect_diverge.tui.reader import Reader
from bisect_diverge.tui.records import Records, reason
from bisect_diverge.tui.trace import Line, Trace

_AHEAD_ELEMENTS = 1 << 20
"""Tensors up to this size are compared once their row is on the screen, larger ones at the cursor."""


class TraceList(ScrollView, inherit_bindings=False):
    """Lines of the trace with a cursor.

    Args:
        comparison: The two runs.
        records: Their records.
        reader: The thread that reads tensors.
    """

    ALLOW_SELECT = False  # the rows are drawn, not text of widgets; `y` copies
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "trace-list--cursor",
        "trace-list--fold",
        *(f"trace-list--{look.name}" for look in states.LOOKS.values()),
    }

    @dataclass
    class Moved(Message):
        """The cursor stands on another line, or the lines have changed."""

        index: int
        """Record at the cursor; -1 when there is none."""

    def __init__(self, comparison: Comparison, records: Records, reader: Reader) -> None:
        super().__init__(id="trace")
        self.trace = Trace(comparison.state)
        self._comparison = comparison
        self._records = records
        self._reader = reader
        self._ranks = len(comparison.rank) > 0 and bool((comparison.rank != comparison.rank[0]).any())
        self._step_width = self._measure_step()
        self.cursor = 0
        """Line of the cursor."""
        self.target = max(comparison.first, 0)
        """Record to which the cursor was moved; folds and filters may hide it."""
        self.message = "no records"
        """What stands here when there is no line."""

    def on_mount(self) -> None:
        """Put the cursor on the first divergence."""
        self.lines_changed()
        self.call_after_refresh(self.show_near_top)

    @property
    def line(self) -> Line | None:
        """The line at the cursor; None when the list is empty."""
        return self.trace.line(self.cursor) if 0 <= self.cursor < len(self.trace) else None

    @property
    def index(self) -> int:
        """The record at the cursor; -1 when the list is empty."""
        line = self.line
        return -1 if line is None else line.index

    @property
    def place(self) -> int:
        """The record the cursor stands for: in a folded stretch the one it was moved to, else `index`."""
        line = self.line
        inside = line is not None and line.index <= self.target <= line.last
        return self.target if inside else self.index

    def lines_changed(self) -> None:
        """Take over the lines of `trace` after a change; the cursor stays where it is, on record and screen."""
        height = self.cursor - round(self.scroll_offset.y)
        self.virtual_size = Size(self._width, max(1, len(self.trace)))
        self.cursor = max(0, self.trace.nearest(self.target, self._comparison.step))
        if 0 <= height < self.size.height:
            self._scroll_cursor_to(height)
        else:
            self.show_near_top()
        self.refresh()
        self._announce()

    def move_to(self, number: int) -> None:
        """Put the cursor on a line, as near as there is one."""
        number = max(0, min(number, len(self.trace) - 1))
        if number != self.cursor:
            before, self.cursor = self.cursor, number
            self.target = self.index
            self._refresh_line(before)
            self._refresh_line(number)
            self._show_cursor()
            self._announce()

    def jump_to(self, number: int, after: int = 0) -> None:
        """Put the cursor on a line; one that is out of sight comes near the top.

        Args:
            number: The line.
            after: Lines after it that have to be in sight too, as far as there are that many.
        """
        top = round(self.scroll_offset.y)
        last = min(number + after, len(self.trace) - 1)
        in_sight = top <= number and last < top + self.size.height
        self.move_to(number)
        if not in_sight:
            self.show_near_top()

    def jump_to_group(self, number: int) -> None:
        """Put the cursor on the first line of a group, so that much of the group is in sight."""
        self.jump_to(number, after=self.size.height // 2)

    def go_to(self, index: int) -> None:
        """Put the cursor on a record, unfolding the stretch that hides it."""
        before = len(self.trace)
        self.trace.reveal(index)
        if len(self.trace) != before:
            self.target = index
            self.lines_changed()
            self.show_near_top()
        else:
            self.jump_to(self.trace.line_of(index))
            self.target = index

    def render_line(self, y: int) -> Strip:
        """Return one line of the screen."""
        width = self._width
        number = y + round(self.scroll_offset.y)
        base = self.rich_style
        if number >= len(self.trace):
            text = self.message if number == 0 else ""
            return Strip([Segment(words.fit(f"  {text}", width), base)], width)
        line = self.trace.line(number)
        at_cursor = number == self.cursor
        if at_cursor:
            base = base + self.get_component_rich_style("trace-list--cursor")
        marker = "▶ " if at_cursor else "  "
        body = self._fold(line, base, width) if line.folded else self._row(line.index, base, width)
        return Strip([Segment(marker, base), *body], width).adjust_cell_length(width, base)

    def _row(self, index: int, base: Style, width: int) -> list[Segment]:
        row = self._records.at(index)
        layout = words.Layout(width, self._step_width)
        glyph, rest = layout.cells(row, self._records.statistics(index), ranks=self._ranks)
        look = self._ink(states.LOOKS[row.state].name)
        text = base if row.state == states.DIFFERS else base + look
        return [Segment(f"{glyph} ", base + look), Segment(rest, text)]

    def _fold(self, line: Line, base: Style, width: int) -> list[Segment]:
        step = self._comparison.step
        text = words.fold_of(line, int(step[line.index]), int(step[line.last]))
        style = base + self._ink("fold")
        return [Segment(words.fit(text, width - 9), style), Segment(" space ", style)]

    def _ink(self, name: str) -> Style:
        """Return colour and slant of a component, mixed with the background but without it."""
        style = self.get_component_rich_style(f"trace-list--{name}")
        return Style(color=style.color, italic=style.italic)

    def _measure_step(self) -> int:
        if not len(self._comparison.step):
            return 3
        rank = len(f"r{int(self._comparison.rank.max())} ") if self._ranks else 0
        return rank + len(str(int(self._comparison.step.max()))) + 3

    def _refresh_line(self, number: int) -> None:
        self.refresh(Region(0, number - round(self.scroll_offset.y), self.size.width, 1))

    @property
    def _width(self) -> int:
        """Cells of a line: what the scroll bar leaves."""
        return self.scrollable_content_region.width

    def _show_cursor(self) -> None:
        self.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False, force=True, immediate=True)

    def show_near_top(self) -> None:
        """Put the cursor at a third of the height: what comes next is worth more than what was before."""
        self._scroll_cursor_to(self.size.height // 3)

    def _scroll_cursor_to(self, height: int) -> None:
        """Put the cursor on a line of the screen, as near as the ends of the list allow."""
        self.scroll_to(y=self.cursor - height, animate=False, force=True, immediate=True)

    def _announce(self) -> None:
        self.post_message(self.Moved(self.index))
        self.look_ahead()

    def on_resize(self) -> None:
        """Keep the cursor in sight."""
        self.virtual_size = Size(self._width, max(1, len(self.trace)))
        self._show_cursor()
        self.look_ahead()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Look at the rows that have come into sight."""
        super().watch_scroll_y(old_value, new_value)
        if self.is_mounted:
            self.look_ahead()

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the clicked line; a click on a folded stretch at the cursor unfolds it."""
        place = event.get_content_offset(self)
        if place is None:  # the title
            return
        number = place.y + round(self.scroll_offset.y)
        line = self.line
        if number == self.cursor and line is not None and line.folded:
            self.toggle()
        elif number < len(self.trace):
            self.move_to(number)

    def toggle(self) -> bool:
        """Unfold or fold the stretch at the cursor; return whether there was one."""
        if self.line is None or not self.trace.toggle(self.cursor):
            return False
        self.lines_changed()
        return True

    def _in_sight(self) -> NDArray[np.intp]:
        """Return the records on the screen."""
        top = round(self.scroll_offset.y)
        return self.trace.starts[top : top + self.size.height]

    @work(exclusive=True, group="ahead", exit_on_error=False)
    async def look_ahead(self) -> None:
        """Find the ULP distance of the rows on the screen, nearest to the cursor's row first."""
        wanted = [int(i) for i in self._in_sight() if self._comparison.state[i] == states.DIFFERS]
        for index in sorted(wanted, key=lambda i: abs(i - self.index)):
            row = self._records.at(index)
            if self._records.asked(index) or not row.comparable or row.elements > _AHEAD_ELEMENTS:
                continue
            await self._look_at(index)

    async def _look_at(self, index: int) -> None:
        try:
            found = await self._reader.run(lambda _: self._comparison.statistics(index))
        except Exception as error:  # becomes the state of the row
            self._records.fail(index, reason(error))
        else:
            self._records.learn(index, found)
        self.refresh_record(index)

    def refresh_record(self, index: int) -> None:
        """Draw a record's line again."""
        self._refresh_line(self.trace.line_of(index))
