"""The Textual application behind `bd walk`: theme, palette, global keys; the screens do the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from textual.app import App, SystemCommand
from textual.screen import Screen

from bisect_diverge.errors import UsageError
from bisect_diverge.tui import keys, states
from bisect_diverge.tui.columns import Source, of_records
from bisect_diverge.tui.commands import Commands
from bisect_diverge.tui.comparison import Comparison
from bisect_diverge.tui.reader import Reader
from bisect_diverge.tui.screens.walk import WalkScreen
from bisect_diverge.tui.widgets.too_small import HEIGHT, WIDTH

THEMES = {"dark": "textual-dark", "light": "textual-light"}
"""Short names of `--theme`; any of Textual's own names is a theme too."""


class WalkApp(App[None]):
    """Shows two compared runs.

    Args:
        comparison: The two runs; closed by the caller, after the app has ended.
        commands: How they were given on the command line.
        source: How phase, micro-batch and text of all records are read.
        theme: ``dark``, ``light`` or a name of one of Textual's themes.

    Raises:
        UsageError: if there is no such theme.
    """

    TITLE = "bd walk"
    CSS_PATH = "app.tcss"
    ESCAPE_TO_MINIMIZE = False
    # Textual declares these as if they were set per instance.
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (WIDTH, "-narrow"), (100, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-low"), (HEIGHT, "-short"), (20, "-tall")]  # noqa: RUF012

    def __init__(
        self,
        comparison: Comparison,
        commands: Commands,
        source: Source = of_records,
        theme: str = "dark",
    ) -> None:
        super().__init__()
        self.animation_level = "none"  # jumps are instant; and easier on screen readers
        name = THEMES.get(theme, theme)
        if name not in self.available_themes:
            names = " ".join([*THEMES, *sorted(self.available_themes)])
            raise UsageError(f"there is no theme {theme!r}", hint=f"themes: {names}")
        self.theme = name
        self.comparison = comparison
        self.commands = commands
        self.source = source
        self.reader = Reader()

    def on_mount(self) -> None:
        """Open the trace."""
        self.push_screen(WalkScreen(self.comparison, self.commands, self.reader, self.source))

    def get_css_variables(self) -> dict[str, str]:
        """Return the theme's variables and ours: ``$state-equal`` and so on; a theme may set them itself."""
        variables = super().get_css_variables()
        for look in states.LOOKS.values():
            variables.setdefault(f"state-{look.name}", variables.get(look.colour, variables["foreground"]))
        self.theme_variables = variables
        return variables

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Yield every key of the table by name, and the choice of a theme."""
        if isinstance(screen, WalkScreen):
            for key in keys.WALK:
                yield SystemCommand(key.name, key.group, getattr(screen, f"action_{key.action}"))
        yield SystemCommand("Theme", "Choose the colours", self.action_change_theme)

    def action_help_quit(self) -> None:
        """Answer ctrl+c, which people press to leave, with the key that does."""
        self.notify("q quits", timeout=2)


def walk(comparison: Comparison, commands: Commands, source: Source = of_records, theme: str = "dark") -> int:
    """Show two compared runs until the user quits; return the exit status."""
    app = WalkApp(comparison, commands, source, theme)
    try:
        app.run()
    finally:
        app.reader.close()
    return app.return_code or 0
