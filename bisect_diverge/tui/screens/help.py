"""The help: what the screen means, what the glyphs mean, and every key of the table."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from bisect_diverge.tui import keys, states

_MEANING = (
    "The trace holds every record of both runs in the order in which A made them. "
    "The first ≠ is where the runs stop being bit for bit the same. "
    "Stretches of equal records fold to one line."
)


class _Page(VerticalScroll, inherit_bindings=False):
    """The text; all keys are the screen's."""


class HelpScreen(ModalScreen[None]):
    """One page over the screen.

    Args:
        lines: What stands on it; None: the help of the trace.
        title: What stands over it.
    """

    CSS_PATH = "help.tcss"
    BINDINGS = keys.bindings(keys.HELP)

    def __init__(self, lines: list[Content] | None = None, title: str = "help") -> None:
        super().__init__()
        self._lines = page_lines() if lines is None else lines
        self._title = title

    def compose(self) -> ComposeResult:
        """Yield the page."""
        page = _Page(Static(Content("\n").join(self._lines), markup=False), id="help")
        page.border_title = Content(f" {self._title} ")
        yield page
        yield Footer(compact=True, show_command_palette=False)

    def action_close(self) -> None:
        """Go back."""
        self.dismiss()

    def action_up(self) -> None:
        """Scroll one line up."""
        self._scroll(-1)

    def action_down(self) -> None:
        """Scroll one line down."""
        self._scroll(1)

    def action_page_up(self) -> None:
        """Scroll one page up."""
        self._scroll(-self.size.height // 2)

    def action_page_down(self) -> None:
        """Scroll one page down."""
        self._scroll(self.size.height // 2)

    def _scroll(self, lines: int) -> None:
        self.query_one(_Page).scroll_relative(y=lines, animate=False)


def page_lines(
    meaning: str = _MEANING,
    legend: tuple[tuple[str, str], ...] = states.LEGEND,
    table: tuple[keys.Key, ...] = keys.WALK,
) -> list[Content]:
    """Return the lines of the help: what the screen and its glyphs mean, and every key."""
    out = [Content(meaning), Content("")]
    out += [Content(f"{glyph}  {text}") for glyph, text in legend]
    for heading, rows in keys.groups((*table, keys.PALETTE)).items():
        out += [Content(""), Content.styled(heading, "bold")]
        out += [Content.assemble((f"{key.shown:<8} ", "$text-primary"), key.text) for key in rows]
    return out
