"""The part of the bisect screen that moves in its tables, and takes something away from them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from textual.content import Content
from textual.screen import Screen

from bisect_diverge.errors import BisectDivergeError
from bisect_diverge.report.bisection_commands import trial_command
from bisect_diverge.report.bisection_json import bisection_json
from bisect_diverge.report.trial_text import trial_text
from bisect_diverge.report.words import whole
from bisect_diverge.tui import export, words
from bisect_diverge.tui.records import reason
from bisect_diverge.tui.screens.help import HelpScreen
from bisect_diverge.tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from bisect_diverge.model.trial import Unit
    from bisect_diverge.tui.commands import Commands
    from bisect_diverge.tui.searching import Searching
    from bisect_diverge.tui.widgets.table import Table

SUFFIXES = (".txt", ".json")
"""What the name of an exported report may end with."""
_ALL = 1_000_000


def value_of(value: str | None) -> str:
    """Return a setting's value as it is shown."""
    return words.plain(whole(value))


class Reporting(Screen[None]):
    """Actions on the selected row, and on the report."""

    commands: Commands
    searching: Searching
    units: Table
    trials: Table
    prompt: Prompt

    def say(self, text: str) -> None:
        """Show a short remark."""
        self.notify(text, timeout=3, markup=False)

    @property
    def _table(self) -> Table:
        return self.units if self.units.has_focus else self.trials

    def action_up(self) -> None:
        """Move one row up."""
        self._table.move(-1)

    def action_down(self) -> None:
        """Move one row down."""
        self._table.move(1)

    def action_page_up(self) -> None:
        """Move one page up."""
        self._table.move(1 - max(2, self._table.size.height))

    def action_page_down(self) -> None:
        """Move one page down."""
        self._table.move(max(2, self._table.size.height) - 1)

    def action_top(self) -> None:
        """Move to the first row."""
        self._table.move(-_ALL)

    def action_bottom(self) -> None:
        """Move to the last row."""
        self._table.move(_ALL)

    def action_focus_units(self) -> None:
        """Go to the settings."""
        self.units.focus()

    def action_focus_trials(self) -> None:
        """Go to the trials."""
        self.trials.focus()

    def _swapped(self) -> tuple[Unit, ...] | None:
        """Return what the selected trial moves; None where there is no trial."""
        at = self.trials.cursor_row
        if at < len(self.searching.trials):
            return self.searching.trials[at].swapped
        running = self.searching.running
        return running[min(at - len(self.searching.trials), len(running) - 1)] if running else None

    def _command(self, swapped: tuple[Unit, ...]) -> str:
        return shlex.join(trial_command(swapped, self.commands.run_a, self.commands.run_b))

    def action_open(self) -> None:
        """Show the selected trial, or the selected setting, in full."""
        if self.units.has_focus:
            rows = self.searching.rows()
            if rows:
                unit, glyph, text = rows[min(self.units.cursor_row, len(rows) - 1)]
                sides = [f"{name} {value_of(value)}" for name, value in (("A", unit.a), ("B", unit.b))]
                self._page([f"{unit.layer} {words.plain(unit.knob)}", *sides, "", f"{glyph} {text}"], "setting")
            return
        swapped = self._swapped()
        if swapped is None:
            self.say("no trial yet")
            return
        at = self.trials.cursor_row
        if at < len(self.searching.trials):
            trial = self.searching.trials[at]
            lines, title = trial_text(trial, with_b=True).split("\n"), f"trial {trial.n}"
        else:
            lines, title = ["it runs still", "", *self.searching.output], "the running trial"
        self._page([*lines, "", "to run it again:", self._command(swapped)], title)

    def action_open_verdict(self) -> None:
        """Show the verdict in full, on a page that scrolls."""
        self._page(self.searching.verdict(self.commands.run_a, self.commands.run_b), "verdict")

    def _page(self, lines: list[str], title: str) -> None:
        self.app.push_screen(HelpScreen([Content(line) for line in lines], title))

    def action_copy_verdict(self) -> None:
        """Copy the verdict: with an answer its whole first part, before that what is proved."""
        lines = self.searching.verdict(self.commands.run_a, self.commands.run_b)
        ends = next((n for n, line in enumerate(lines) if n and not line.startswith(" ")), len(lines))
        self._copy("\n".join(lines[:ends] if self.searching.result is not None else lines))

    def action_copy_command(self) -> None:
        """Copy the command that runs the selected trial again."""
        swapped = self._swapped()
        self.say("no trial yet") if swapped is None else self._copy(self._command(swapped))

    def _copy(self, text: str) -> None:
        self.app.copy_to_clipboard(text)
        self.say(f"sent to the terminal's clipboard: {text}")

    def action_export(self) -> None:
        """Ask for the name of a file."""
        self.prompt.ask("export", f"export to ({' '.join(SUFFIXES)})", "bisection.txt")

    def on_prompt_cancelled(self) -> None:
        """Give the keys back."""
        self.trials.focus()

    def on_prompt_answered(self, event: Prompt.Answered) -> None:
        """Write the file when its name is there."""
        path = Path(event.text.strip()).expanduser()
        try:
            export.check(path, SUFFIXES)
            path.write_text(self._report(path.suffix), encoding="utf-8")
        except (OSError, BisectDivergeError) as error:
            self.say(reason(error))
            return
        self.prompt.close()
        self.trials.focus()
        self.say(f"written: {path}")

    def _report(self, suffix: str) -> str:
        if suffix == ".json":
            return bisection_json(self.searching.bisection()) + "\n"
        return self.searching.report(self.commands.run_a, self.commands.run_b)
