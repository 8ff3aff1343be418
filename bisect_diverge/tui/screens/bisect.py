"""The bisect screen: a search that runs elsewhere, what it has proved, what it has tried, and how to stop it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Footer, Static

from bisect_diverge.report.words import moment, place
from bisect_diverge.tui import keys, searching, words
from bisect_diverge.tui.bisection import Event, Output, Search
from bisect_diverge.tui.commands import Commands
from bisect_diverge.tui.screens.help import HelpScreen, page_lines
from bisect_diverge.tui.screens.reporting import Reporting, value_of
from bisect_diverge.tui.searching import OUTCOMES, Searching, swap_of
from bisect_diverge.tui.widgets.prompt import Prompt
from bisect_diverge.tui.widgets.table import Table
from bisect_diverge.tui.widgets.too_small import TooSmall

_MEANING = (
    "The search runs A's command again and again with some settings taken from B, and compares the bits. "
    "A setting is a cause when A with only it changed has B's bits, and B with only it put back has A's. "
    "Closing the screen ends the search; its trials are kept, and the next search begins with them."
)
_STYLE = {"✓": "$text-success", "✗": "bold $text-error", "≠": "$state-differs", "!": "$text-warning"}


class BisectScreen(Reporting):
    """Watches a search.

    Args:
        commands: How the two runs were given on the command line.
        search: The search; started when the screen opens, closed with it.
        clock: Seconds.
    """

    CSS_PATH = "bisect.tcss"
    AUTO_FOCUS = "#trials"
    KEYS = keys.BISECT
    BINDINGS = keys.bindings(keys.BISECT)
    HEADS: ClassVar = (("layer", "setting", "A", "B", "result so far"), ("#", "moved", "time", "outcome"))

    @dataclass
    class Happened(Message):
        """The search has told something."""

        event: Event

    def __init__(self, commands: Commands, search: Search, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.commands, self.search = commands, search
        self.searching = Searching(asked=commands.asked())
        self.units = Table("units", "settings that differ", self.HEADS[0], (13, 30, 14, 14))
        self.trials = Table("trials", "trials", self.HEADS[1], (3, 40, 8))
        self.prompt = Prompt()
        self._clock, self._began, self._elapsed = clock, clock(), 0.0
        self._stopping = ""

    def compose(self) -> ComposeResult:
        """Yield the parts from top to bottom."""
        yield TooSmall(f"bd bisect {self.commands.run_a} {self.commands.run_b}")
        with Vertical(id="main"):
            yield Static(id="head", markup=False)
            with Container(id="tables"):
                yield self.units
                yield self.trials
            yield Static(id="verdict", markup=False)
            yield Static(id="output", markup=False)
            yield self.prompt
        yield Footer(compact=True)

    def on_mount(self) -> None:
        """Start the search."""
        self.search.start(self._tell)
        self.set_interval(1.0, self._tick)
        self._began = self._clock()

    def _tell(self, event: Event) -> None:
        """Hand an event from the reading thread to the screen."""
        with suppress(RuntimeError):  # the loop has ended, and nobody is interested any more
            self.post_message(self.Happened(event))

    def on_unmount(self) -> None:
        """End the search however the screen ends."""
        self.search.close()

    def on_resize(self) -> None:
        """Fit what stands in lines."""
        self.query_one(TooSmall).refresh()
        self.call_after_refresh(self.write)

    def on_bisect_screen_happened(self, message: Happened) -> None:
        """Take an event and show it."""
        self.searching.take(message.event)
        if isinstance(message.event, Output):
            self._write_output()
        else:
            self.write()

    def _tick(self) -> None:
        self._write_head()

    def write(self) -> None:
        """Write all parts."""
        state = self.searching
        rows = state.rows()
        self.units.show(
            [(str(u.layer), *map(value_of, (u.knob, u.a, u.b)), f"{glyph} {text}") for u, glyph, text in rows],
            {number for number, row in enumerate(rows) if row[1] == "✗"},
        )
        trials: list[tuple[str, ...]] = []
        for trial in state.trials:
            glyph, text = OUTCOMES[trial.outcome]
            why = f": {words.plain(trial.reason)}" if trial.reason else ""
            seconds = "journal" if trial.reused else f"{trial.seconds:.1f} s"
            trials.append((str(trial.n), swap_of(trial.swapped, state.units), seconds, f"{glyph} {text}{why}"))
        trials += [
            (self._number(later), swap_of(moved, state.units), "", "▸ running")
            for later, moved in enumerate(state.running)
        ]
        self.trials.show(trials)
        self._write_head()
        self._write_verdict()
        self._write_output()

    def _number(self, later: int = 0) -> str:
        """Return the number that a running trial will have if the `later` that were started before it end first."""
        return str(max((trial.n for trial in self.searching.trials), default=0) + 1 + later)

    def _write_head(self) -> None:
        state, head = self.searching, self.query_one("#head", Static)
        if not state.over:
            self._elapsed = self._clock() - self._began
        room = head.size.width - 2
        a, b = words.shorten_both(
            words.plain(self.commands.run_a), words.plain(self.commands.run_b), max(16, room - 22)
        )
        head.border_title = Content(f" bd bisect   A {a}   B {b} ")
        minutes, seconds = divmod(int(self._elapsed), 60)
        count = len(state.trials) + len(state.running)
        facts = [f"trial {count} of about {max(state.most, count)}"] if count else []
        start = words.SEPARATOR.join([*facts, f"{minutes}:{seconds:02}", ""])
        first = "" if state.over else "looking for the first divergence"
        if state.first is not None:
            where = f"≠ {moment(state.first)}, {place(state.first)}"
            first = words.first_that_fits(room - len(start), f"first divergence: {where}", where)
        controls = [(f"  {glyph} {text}", _STYLE.get(glyph, "")) for glyph, text in state.controls()] if count else []
        line = words.fit(start + first if first else start.rstrip(words.SEPARATOR), room).rstrip()
        head.update(Content.assemble((f" {self._doing()}", "bold"), *controls, "\n ", line))

    def _doing(self) -> str:
        state = self.searching
        if state.over:
            if state.result is None:
                return "✗ failed" if not self._stopping else "stopped"
            return "finished" if state.result.finished else "stopped early"
        return self._stopping or ("running" if state.units or state.untestable else "comparing the runs")

    def _write_verdict(self) -> None:
        lines = self.searching.verdict(self.commands.run_a, self.commands.run_b)
        panel = self.query_one("#verdict", Static)
        cut = len(lines) > panel.size.height > 0
        title = "verdict" if self.searching.over else "verdict so far"
        panel.border_title = Content(f" {title} · v shows all " if cut else f" {title} ")
        glyph = "" if self.searching.result is not None or not self.searching.over else "$text-error"
        room = max(1, panel.size.width - 2)
        fitted = [words.fit(f" {line}", room).rstrip() for line in lines[: max(1, panel.size.height)]]
        panel.update(
            Content.assemble((fitted[0], f"bold {glyph}".strip()), "".join(f"\n{line}" for line in fitted[1:]))
        )

    def _write_output(self) -> None:
        panel = self.query_one("#output", Static)
        running = len(self.searching.running)
        number = self._number(running - 1)
        panel.border_title = Content(f" trial {number} · output " if running else " output of the last trial ")
        height, room = max(1, panel.size.height), max(1, panel.size.width - 2)
        panel.update(
            Content("\n".join(words.fit(f" {line}", room).rstrip() for line in self.searching.output[-height:]))
        )

    def action_stop(self) -> None:
        """Stop after the running trial; a second time: now."""
        if self._stopping:
            self.action_stop_now()
        elif not self.searching.over:
            self._stopping = "stopping after this trial"
            self.search.stop()
            self._write_head()

    def action_stop_now(self) -> None:
        """Stop now, once."""
        if not self.searching.over and self._stopping != "stopping now":
            self._stopping = "stopping now"
            self.search.stop_now()
            self._write_head()

    def action_help(self) -> None:
        """Show the help."""
        self.app.push_screen(HelpScreen(page_lines(_MEANING, searching.LEGEND, keys.BISECT)))

    @work(group="close", exclusive=True, exit_on_error=False)
    async def action_close(self) -> None:
        """End the search and go back."""
        if not self.searching.over:
            self._stopping = "stopping now"
            self._write_head()
            self.say("the search ends; the journal keeps its trials, the next search goes on from there")
        await asyncio.to_thread(self.search.close)
        self.dismiss()
