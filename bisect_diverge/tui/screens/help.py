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
    """One page over the trace."""

    CSS_PATH = "help.tcss"
    BINDINGS = keys.bindings(keys.HELP)

    def compose(self) -> ComposeResult:
        """Yield the page."""
        page = _Page(Static(Content("\n").join(page_lines()), markup=False), id="help")
        page.border_title = Content(" help ")
        yield page
        yield Footer(compact=True, show_command_palette=False)

    def action_close(self) -> None:
        """Go back to the trace."""
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


def page_lines() -> list[Content]:
    """Return the lines of the help."""
    out = [Content(_MEANING), Content("")]
    out += [Content(f"{glyph}  {meaning}") for glyph, meaning in states.LEGEND]
    for heading, table in keys.groups((*keys.WALK, keys.PALETTE)).items():
        out += [Content(""), Content.styled(heading, "bold")]
        out += [Content.assemble((f"{key.shown:<8} ", "$text-primary"), key.text) for key in table]
    return out
