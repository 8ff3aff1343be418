"""The part of the trace screen that chooses what the trace shows: the phase, the search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from textual import work
from textual.message import Message
from textual.screen import Screen

from bisect_diverge.model.address import Phase
from bisect_diverge.tui import words
from bisect_diverge.tui.columns import Columns, Source
from bisect_diverge.tui.records import reason
from bisect_diverge.tui.trace import following
from bisect_diverge.tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from bisect_diverge.tui.comparison import Comparison
    from bisect_diverge.tui.reader import Reader, Stopped
    from bisect_diverge.tui.widgets.trace_list import TraceList

_SEARCH = "search"


class Filtering(Screen[None]):
    """Actions that need phase, micro-batch or text of all records, and the reading of these."""

    @dataclass
    class Progress(Message):
        """More of the addresses has been read."""

        share: float
        """0 to 1."""

        def can_replace(self, message: Message) -> bool:
            """Let only the newest of a flood of these through."""
            return isinstance(message, Filtering.Progress)

    comparison: Comparison
    reader: Reader
    trace_list: TraceList
    prompt: Prompt

    columns_source: Source
    """How the columns are read."""

    _columns: Columns | None = None
    _progress: float | None = None
    _phase: Phase | None = None
    _query: str = ""
    _matches: NDArray[np.intp] | None = None

    def say(self, text: str) -> None:
        """Show a short remark."""
        raise NotImplementedError

    def write_title(self) -> None:
        """Say where the trace stands and what it shows."""
        raise NotImplementedError

    def filters(self) -> list[str]:
        """Return what else the trace's title says: phase, search, what is being read."""
        out = [] if self._phase is None else [f"{self._phase} only (p)"]
        if self._matches is not None:
            found = words.plural(len(self._matches), "match", "matches")
            out.append(f"/{words.plain(self._query)}: {found} (n N)")
        if self._progress is not None:
            out.append(f"reading addresses {self._progress:.0%}, esc stops")
        return out

    def action_phase(self) -> None:
        """Show the records of the next phase only; after the last one all again."""
        self._with_columns(self._next_phase)

    def _next_phase(self, found: Columns) -> None:
        order = [None, *found.phases()]
        self._show_phase(order[(order.index(self._phase) + 1) % len(order)])

    def clear_phase(self) -> None:
        """Show all phases."""
        if self._phase is not None:
            self._show_phase(None)

    def _show_phase(self, phase: Phase | None) -> None:
        self._phase = phase
        found = self._columns
        self.trace_list.trace.include(None if phase is None or found is None else found.of_phase(phase))
        if self._query:
            self._search(self._query)
        self.trace_list.lines_changed()
        self.trace_list.show_near_top()

    def action_search(self) -> None:
        """Ask for the words to search for."""
        self.prompt.ask(_SEARCH, "/", self._query)

    def on_prompt_answered(self, event: Prompt.Answered) -> None:
        """Search when the words are there."""
        if event.purpose == _SEARCH:
            self.prompt.close()
            self.trace_list.focus()
            if event.text:
                self._with_columns(lambda _: self._search_and_go(event.text))
            else:
                self.clear_search()

    def on_prompt_cancelled(self, event: Prompt.Cancelled) -> None:
        """Forget the search, give the keys back to the list."""
        self.trace_list.focus()
        if event.purpose == _SEARCH:
            self.clear_search()

    def clear_search(self) -> bool:
        """End the search; return whether there was one."""
        if self._matches is None:
            return False
        self._query, self._matches = "", None
        self.write_title()
        return True

    def _search(self, text: str) -> None:
        if self._columns is None:
            return
        found = self._columns.matching(text)
        self._query = text
        self._matches = np.intersect1d(found, self.trace_list.trace.rows, assume_unique=True)

    def _search_and_go(self, text: str) -> None:
        self._search(text)
        self.write_title()
        matches = self._matches
        if matches is None or not len(matches):
            self.say(f"nothing matches {text}")
            return
        target = following(matches, self.trace_list.place - 1)
        self.trace_list.go_to(target if target >= 0 else int(matches[0]))

    def _with_columns(self, then: Callable[[Columns], None]) -> None:
        """Do something that needs the columns: at once, or when they have been read."""
        if self._columns is not None:
            then(self._columns)
        else:
            self._read_columns(then)

    @work(exclusive=True, group="columns", exit_on_error=False)
    async def _read_columns(self, then: Callable[[Columns], None]) -> None:
        def job(stopped: Stopped) -> Columns:
            return self.columns_source(self.comparison, stopped, self._tell_progress)

        self._progress = 0.0
        try:
            self._columns = await self.reader.run(job)
        except Exception as error:  # said instead of shown
            self.say(f"the addresses cannot be read: {reason(error)}")
            return
        finally:
            self._progress = None
        self.write_title()
        then(self._columns)

    def _tell_progress(self, share: float) -> None:
        """Called in the reader's thread, from which only messages may be sent."""
        self.post_message(self.Progress(share))

    def on_filtering_progress(self, event: Progress) -> None:
        """Show how far the reading is; what arrives after it ended is late news."""
        if self._progress is not None:
            self._progress = event.share
            self.write_title()

    def stop_reading(self) -> bool:
        """Give up reading the columns; return whether they were being read."""
        if self._progress is None:
            return False
        self.workers.cancel_group(self, "columns")
        self._progress = None
        self.write_title()
        return True
