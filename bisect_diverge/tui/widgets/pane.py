"""The pane at the cursor: what the record is, how A and B differ, the data flow, the source line."""

from __future__ import annotations

from dataclasses import dataclass

from textual import work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from bisect_diverge.tui import describe, numbers, words
from bisect_diverge.tui.comparison import Comparison
from bisect_diverge.tui.numbers import Values
from bisect_diverge.tui.reader import Reader
from bisect_diverge.tui.records import Records, Row, reason
from bisect_diverge.tui.source import Site
from bisect_diverge.tui.trace import Line


@dataclass(frozen=True, slots=True)
class Flow:
    """The neighbours of a record in the data flow."""

    producers: tuple[int, ...] = ()
    """What it was computed from."""
    consumers: tuple[int, ...] = ()
    """What was computed from it."""


class Pane(VerticalScroll, inherit_bindings=False):
    """Shows the line at the cursor; values and data flow follow when the reader has them.

    Args:
        comparison: The two runs.
        records: Their records.
        reader: The thread that reads tensors.
    """

    @dataclass
    class Read(Message):
        """More is known of a record: its line in the list has to be drawn again."""

        index: int
        """The record."""

    def __init__(self, comparison: Comparison, records: Records, reader: Reader) -> None:
        super().__init__(id="pane")
        self._comparison = comparison
        self._records = records
        self._reader = reader
        self._line: Line | None = None
        self._values: Values | None = None
        self._remark = ""
        self.flow: Flow | None = None
        """Neighbours of the record shown; None until they are known."""
        self.site: Site | None = None
        """Source line of the record shown."""
        self.reading = False
        """Whether something is still being read."""

    def compose(self) -> ComposeResult:
        """Yield the three sections."""
        for name, title in (
            ("record", "at the cursor"),
            ("flow", "data flow   [ back   ] on"),
            ("source", "source   o opens it"),
        ):
            section = Static(id=name, markup=False)
            section.border_title = Content(f" {title} ")
            yield section

    def show(self, line: Line | None) -> None:
        """Show a line of the trace."""
        self.workers.cancel_group(self, "pane")
        self._line, self._values, self._remark = line, None, ""
        self.flow, self.site, self.reading = None, None, False
        self.scroll_home(animate=False)
        row = self._row
        if row is not None and row.record is not None:
            self.site = Site.parse(row.record.site)
            self._start(row)
        self._update("source", describe.source(self.site))
        self.draw()

    def on_show(self) -> None:
        """Read the tensors that were not read while the pane was hidden."""
        row = self._row
        if row is not None and row.readable and self._values is None and not self.reading and not self._remark:
            self._start(row)

    def _start(self, row: Row) -> None:
        self.reading = True
        self._read(row)

    def stop(self) -> bool:
        """Give up reading; return whether something was being read."""
        if not self.reading:
            return False
        self.workers.cancel_group(self, "pane")
        self.reading, self._remark = False, "reading stopped (esc)"
        self.draw()
        return True

    def on_resize(self) -> None:
        """Fit the table and the names."""
        self.draw()

    def draw(self) -> None:
        """Write what is known of the line."""
        row = self._row
        self.query_one("#flow").display = self.query_one("#source").display = row is not None
        self._update("record", self._record(row))
        if self.flow is not None:
            producers, consumers = self.flow.producers, self.flow.consumers
            self._update("flow", describe.links(producers, consumers, self._records, self._room))
        else:
            self._update("flow", [Content("reading …" if self.reading else self._remark or "unknown")])

    @property
    def _row(self) -> Row | None:
        """The record shown; None for a folded stretch and an empty list."""
        line = self._line
        return None if line is None or line.folded else self._records.at(line.index)

    @property
    def _room(self) -> int:
        """Cells of a line of text."""
        return max(20, self.size.width - 3)

    def _record(self, row: Row | None) -> list[Content]:
        if row is None:
            line = self._line
            return [Content("no record here")] if line is None else describe.stretch(line, self._comparison)
        out = [*describe.head(row, self._comparison), Content("")]
        if row.record is None:
            return out
        if self._values is not None:
            return [*out, *describe.values(row, self._values, self._room)]
        if row.readable:
            return [*out, Content(self._remark or "reading the tensors …")]
        return [*out, *describe.values_without_tensors(row, self._room)]

    @work(exclusive=True, group="pane", exit_on_error=False)
    async def _read(self, row: Row) -> None:
        """Read first the data flow, which is quick, then the tensors, unless nobody would see them."""
        if self.flow is None:
            await self._read_flow(row.index)
        if row.readable and self.display:
            await self._read_values(row)
        self.reading = False
        self.draw()
        self.post_message(self.Read(row.index))

    async def _read_flow(self, index: int) -> None:
        comparison = self._comparison
        try:
            self.flow = await self._reader.run(
                lambda _: Flow(tuple(comparison.producers(index)), tuple(comparison.consumers(index)))
            )
        except Exception as error:  # shown where the answer would stand
            self._remark = f"! unreadable: {words.plain(reason(error))}"
        self.draw()

    async def _read_values(self, row: Row) -> None:
        try:
            found = await self._reader.run(lambda stopped: numbers.measure(self._comparison, row, stopped))
        except Exception as error:  # becomes the state of the row
            self._records.fail(row.index, reason(error))
        else:
            self._values = found
            self._records.learn(row.index, found.statistics)

    def _update(self, name: str, body: list[Content]) -> None:
        self.query_one(f"#{name}", Static).update(Content("\n").join(body))
