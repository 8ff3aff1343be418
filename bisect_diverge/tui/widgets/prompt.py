"""One line of input at the foot of the screen: the search, or the name of a file to export to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Label


class Prompt(Horizontal):
    """Hidden until something is asked."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "cancel", show=False)]

    @dataclass
    class Answered(Message):
        """Enter was pressed."""

        purpose: str
        """What was asked for."""
        text: str
        """The answer."""

    @dataclass
    class Cancelled(Message):
        """Esc was pressed."""

        purpose: str
        """What was asked for."""

    def __init__(self) -> None:
        super().__init__(id="prompt")
        self._purpose = ""

    def compose(self) -> ComposeResult:
        """Yield the question and its answer."""
        yield Label(id="question", markup=False)
        yield Input(id="answer", compact=True, select_on_focus=False)

    def ask(self, purpose: str, question: str, value: str = "") -> None:
        """Show the line and put the cursor into it."""
        self._purpose = purpose
        self.query_one(Label).update(question)
        answer = self.query_one(Input)
        answer.value = value
        answer.cursor_position = len(value)
        self.add_class("-asking")
        answer.focus()

    def close(self) -> None:
        """Hide the line."""
        self.remove_class("-asking")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Hand the answer up; whoever asked closes the line, or leaves it open to be corrected."""
        event.stop()
        self.post_message(self.Answered(self._purpose, event.value))

    def action_cancel(self) -> None:
        """Close the line without an answer."""
        self.close()
        self.post_message(self.Cancelled(self._purpose))
