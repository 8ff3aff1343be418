"""What stands on a terminal that is too small: how large it has to be, and the way out."""

from __future__ import annotations

from textual.app import RenderResult
from textual.content import Content
from textual.widget import Widget

from bisect_diverge.tui import words

WIDTH, HEIGHT = 60, 15
"""The smallest terminal the trace screen fits on."""


class TooSmall(Widget):
    """One line; shown instead of everything else.

    Args:
        command: The command that prints the same result.
    """

    def __init__(self, command: str) -> None:
        super().__init__(id="too-small")
        self._command = words.plain(command)

    def render(self) -> RenderResult:
        """Return the needed and the current size and the way out."""
        size = self.app.size
        text = f"needs {WIDTH}×{HEIGHT}, is {size.width}×{size.height}; q quits"
        return Content(f"{text}, {self._command} prints the same")
