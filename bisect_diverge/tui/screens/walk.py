"""The trace screen of `bd walk`: the verdict, the steps, the trace, and the pane at the cursor."""

from __future__ import annotations

import math
import time

from textual import events, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Footer

from bisect_diverge.tui import growth, keys, words
from bisect_diverge.tui.columns import Source
from bisect_diverge.tui.commands import Commands
from bisect_diverge.tui.comparison import Comparison
from bisect_diverge.tui.reader import Reader
from bisect_diverge.tui.records import Records
from bisect_diverge.tui.screens.finding import Finding
from bisect_diverge.tui.screens.help import HelpScreen
from bisect_diverge.tui.screens.taking import Taking
from bisect_diverge.tui.widgets.pane import Pane
from bisect_diverge.tui.widgets.prompt import Prompt
from bisect_diverge.tui.widgets.step_bar import StepBar
from bisect_diverge.tui.widgets.too_small import TooSmall
from bisect_diverge.tui.widgets.trace_list import TraceList
from bisect_diverge.tui.widgets.verdict_bar import VerdictBar

_ONLY_DIFFERING = ("only what differs and its inputs (d)", "differing only (d)", "≠ (d)")
"""What the title says of folded stretches, in ever fewer words."""


ASK_SECONDS = 8
"""So long a second press of a key that starts trials is waited for."""


class WalkScreen(Finding, Taking):
    """Walks through two compared runs.

    Args:
        comparison: The two runs.
        commands: How they were given on the command line.
        reader: The thread that reads tensors.
        source: How phase, micro-batch and text of all records are read.
    """

    CSS_PATH = "walk.tcss"
    AUTO_FOCUS = "#trace"
    KEYS = keys.WALK
    BINDINGS = keys.bindings(keys.WALK)

    def __init__(self, comparison: Comparison, commands: Commands, reader: Reader, source: Source) -> None:
        super().__init__()
        self.comparison = comparison
        self.commands = commands
        self.reader = reader
        self.columns_source = source
        self.records = Records(comparison)
        self.trace_list = TraceList(comparison, self.records, reader)
        self.pane = Pane(comparison, self.records, reader)
        self.steps = StepBar(comparison)
        self.prompt = Prompt()
        self._asked = -math.inf

    def compose(self) -> ComposeResult:
        """Yield the parts from top to bottom."""
        yield TooSmall(self.commands.diff())
        with Vertical(id="main"):
            yield VerdictBar(self.comparison)
            yield self.steps
            with Horizontal(id="body"):
                yield self.trace_list
                yield self.pane
            yield self.prompt
        yield Footer(compact=True)

    def on_mount(self) -> None:
        """Start what may come after the first paint."""
        self.keep_inputs()
        self._watch_growth()

    @work(group="growth", exit_on_error=False)
    async def _watch_growth(self) -> None:
        """Give the steps the height of their largest ULP distance."""
        async for step, distance in growth.distances(self.comparison, self.records, self.reader):
            self.steps.grow(step, distance)

    def on_resize(self, _: events.Resize) -> None:
        """Write the current size where the screen is too small; fit the trace's title."""
        self.query_one(TooSmall).refresh()
        self.call_after_refresh(self.write_title)

    def on_trace_list_moved(self, event: TraceList.Moved) -> None:
        """Let all parts follow the cursor."""
        line = self.trace_list.line
        if event.index >= 0:
            self.steps.step = int(self.comparison.step[self.trace_list.place])
        self.pane.show(line)
        self.write_title()

    def on_pane_read(self, event: Pane.Read) -> None:
        """Write into the list what the pane has found out."""
        self.trace_list.refresh_record(event.index)

    def write_title(self) -> None:
        """Say where the trace stands and what it shows."""
        parts = ["trace"]
        place = self.trace_list.place
        if place >= 0:
            record = self.records.at(place).record
            parts.append(f"step {int(self.comparison.step[place])}")
            if record is not None and record.address.micro_batch != "-":
                parts[-1] += f" mb {record.address.micro_batch}"
        parts += self.filters()
        only = self.trace_list.trace.only_differing
        kinds = _ONLY_DIFFERING if only else ("everything (d)", "all (d)")
        titles = [f" {words.SEPARATOR.join([*parts, kind])} " for kind in kinds]
        self.trace_list.border_title = Content(words.first_that_fits(self.trace_list.outer_size.width - 2, *titles))

    def action_up(self) -> None:
        """Move one line up."""
        self._scroll(-1)

    def action_down(self) -> None:
        """Move one line down."""
        self._scroll(1)

    def action_page_up(self) -> None:
        """Move one page up."""
        self._scroll(1 - max(2, self._scrolled.size.height))

    def action_page_down(self) -> None:
        """Move one page down."""
        self._scroll(max(2, self._scrolled.size.height) - 1)

    def action_top(self) -> None:
        """Move to the first line."""
        self._scroll(-len(self.trace_list.trace) - self.pane.virtual_size.height)

    def action_bottom(self) -> None:
        """Move to the last line."""
        self._scroll(len(self.trace_list.trace) + self.pane.virtual_size.height)

    def action_focus_trace(self) -> None:
        """Go back from the pane to the trace."""
        if self.pane.has_focus:
            self._fill(None)

    def action_focus_pane(self) -> None:
        """Go from the trace into the pane; where the pane has no room beside it, open it."""
        if not self.pane.display or self.has_class("-narrow", "-trace-in-full"):
            self._fill("-pane-in-full")
        self.pane.focus()

    def action_fold(self) -> None:
        """Unfold or fold the stretch at the cursor."""
        if self.pane.has_focus:
            self.action_page_down()
        elif not self.trace_list.toggle():
            self.say("only stretches of equal records fold")

    def action_open(self) -> None:
        """Open the pane in full; a folded stretch unfolds instead."""
        line = self.trace_list.line
        if line is not None and line.folded and not self.has_class("-pane-in-full"):
            self.trace_list.toggle()
        else:
            self._fill(None if self.has_class("-pane-in-full") else "-pane-in-full")

    def action_maximise(self) -> None:
        """Give the whole screen to the part in use, or give it back."""
        in_full = self.has_class("-pane-in-full") or self.has_class("-trace-in-full")
        self._fill(None if in_full else "-pane-in-full" if self.pane.has_focus else "-trace-in-full")

    def action_back(self) -> None:
        """Close the topmost thing: reading, then a maximised part, then the search."""
        if self.stop_reading() or self.pane.stop():
            return
        if self.has_class("-pane-in-full") or self.has_class("-trace-in-full") or self.pane.has_focus:
            self._fill(None)
        else:
            self.clear_search()

    def action_bisect(self) -> None:
        """Search the cause of the divergence; the key asks at first, since trials run the user's command."""
        now = time.monotonic()
        if now > self._asked + ASK_SECONDS:
            self._asked = now
            text = "b again: runs A's command some times over (bd bisect A B --plan says how often)"
            self.notify(text, timeout=ASK_SECONDS, markup=False)
            return
        self._asked = -math.inf
        self.app.open_bisection()  # type: ignore[attr-defined]

    def action_help(self) -> None:
        """Show the help."""
        self.app.push_screen(HelpScreen())

    def action_quit(self) -> None:
        """End the program."""
        self.app.exit()

    def say(self, text: str) -> None:
        """Show a short remark."""
        self.notify(text, timeout=2, markup=False)

    @property
    def _scrolled(self) -> TraceList | Pane:
        return self.pane if self.pane.has_focus else self.trace_list

    def _scroll(self, lines: int) -> None:
        if self.pane.has_focus:
            self.pane.scroll_relative(y=lines, animate=False)
        else:
            self.trace_list.move_to(self.trace_list.cursor + lines)

    def _fill(self, name: str | None) -> None:
        """Give screen and focus to one part, named by a class of the style sheet; None: both parts again."""
        for other in ("-pane-in-full", "-trace-in-full"):
            self.set_class(other == name, other)
        (self.pane if name == "-pane-in-full" else self.trace_list).focus()
