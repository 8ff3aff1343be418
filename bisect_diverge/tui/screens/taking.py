"""The part of the trace screen that takes something away: copies, exported files, the source line."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from textual import work
from textual.app import SuspendNotSupported
from textual.screen import Screen

from bisect_diverge.errors import BisectDivergeError
from bisect_diverge.tui import export
from bisect_diverge.tui.records import reason
from bisect_diverge.tui.source import editor_command
from bisect_diverge.tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from bisect_diverge.tui.commands import Commands
    from bisect_diverge.tui.comparison import Comparison
    from bisect_diverge.tui.records import Records
    from bisect_diverge.tui.widgets.pane import Pane
    from bisect_diverge.tui.widgets.trace_list import TraceList

_EXPORT = "export"


class Taking(Screen[None]):
    """Actions that copy, write or open what stands at the cursor."""

    comparison: Comparison
    commands: Commands
    records: Records
    trace_list: TraceList
    pane: Pane
    prompt: Prompt

    def say(self, text: str) -> None:
        """Show a short remark."""
        raise NotImplementedError

    def action_copy_address(self) -> None:
        """Copy the address at the cursor; of a folded stretch that of its first record."""
        index = self.trace_list.index
        record = None if index < 0 else self.records.at(index).record
        if record is None:
            self.say("no address here")
        else:
            self._copy(str(record.address))

    def action_copy_command(self) -> None:
        """Copy the command that prints the record; of a stretch or the first divergence, the comparison."""
        line = self.trace_list.line
        row = None if line is None or line.folded else self.records.at(line.index)
        if row is None or row.record is None or row.index == self.comparison.first:
            self._copy(self.commands.diff())
        else:
            self._copy(self.commands.show(row.record.address, in_a=row.a is not None))

    def _copy(self, text: str) -> None:
        self.app.copy_to_clipboard(text)
        self.say(f"sent to the terminal's clipboard: {text}")

    def action_export(self) -> None:
        """Ask for the name of a file."""
        step = int(self.comparison.step[self.trace_list.place]) if self.trace_list.index >= 0 else 0
        self.prompt.ask(_EXPORT, f"export to ({' '.join(export.SUFFIXES)})", f"walk-step{step}.txt")

    def on_prompt_answered(self, event: Prompt.Answered) -> None:
        """Write the file when its name is there."""
        if event.purpose == _EXPORT:
            self._export(event.text.strip())

    @work(exclusive=True, group="export", exit_on_error=False)
    async def _export(self, name: str) -> None:
        path = Path(name).expanduser()
        try:
            export.check(path, export.SUFFIXES)
            if path.suffix == ".svg":
                self.prompt.close()
                text = self.app.export_screenshot(title="bd walk")
            else:
                view = export.View(self.comparison, self.records, self.trace_list.trace, self.commands.diff())
                text = export.FORMATS[path.suffix](view)
            path.write_text(text, encoding="utf-8")
        except (OSError, BisectDivergeError) as error:
            self.say(reason(error))
            return
        self.prompt.close()
        self.trace_list.focus()
        self.say(f"written: {path}")

    def action_open_source(self) -> None:
        """Open the source line in the user's editor; the screen waits."""
        site = self.pane.site
        if site is None:
            self.say("the source is not known here")
        elif not site.path.exists():
            self.say(f"{site.path} is not here")
        else:
            self._edit(editor_command(site))

    def _edit(self, command: list[str]) -> None:
        problem = ""
        try:
            with self.app.suspend():
                try:
                    subprocess.run(command, check=False)
                except OSError as error:  # must not leave this block: the screen would not come back
                    problem = f"{command[0]}: {reason(error)}; set $EDITOR"
        except SuspendNotSupported:
            problem = "this terminal cannot be handed to an editor"
        if problem:
            self.say(problem)
