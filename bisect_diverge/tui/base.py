"""What every Textual application here has: theme, palette, sizes, and the answer to ctrl+c."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from textual.app import App, SystemCommand
from textual.screen import Screen

from bisect_diverge.errors import UsageError
from bisect_diverge.tui import keys, states
from bisect_diverge.tui.widgets.too_small import HEIGHT, WIDTH

THEMES = {"dark": "textual-dark", "light": "textual-light"}
"""Short names of `--theme`; any of Textual's own names is a theme too."""


class BaseApp(App[None]):
    """An application of screens whose keys stand in a table.

    Args:
        theme: ``dark``, ``light`` or a name of one of Textual's themes.

    Raises:
        UsageError: if there is no such theme.
    """

    CSS_PATH = "app.tcss"
    ESCAPE_TO_MINIMIZE = False
    # Textual declares these as if they were set per instance.
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (WIDTH, "-narrow"), (100, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-low"), (HEIGHT, "-short"), (20, "-tall")]  # noqa: RUF012

    def __init__(self, theme: str = "dark") -> None:
        super().__init__()
        self.animation_level = "none"  # jumps are instant; and easier on screen readers
        name = THEMES.get(theme, theme)
        if name not in self.available_themes:
            names = " ".join([*THEMES, *sorted(self.available_themes)])
            raise UsageError(f"there is no theme {theme!r}", hint=f"themes: {names}")
        self.theme = name

    def get_css_variables(self) -> dict[str, str]:
        """Return the theme's variables and ours: ``$state-equal`` and so on; a theme may set them itself."""
        variables = super().get_css_variables()
        for look in states.LOOKS.values():
            variables.setdefault(f"state-{look.name}", variables.get(look.colour, variables["foreground"]))
        self.theme_variables = variables
        return variables

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Yield every key of the screen's table by name, and the choice of a theme."""
        table: tuple[keys.Key, ...] = getattr(screen, "KEYS", ())
        for key in table:
            yield SystemCommand(key.name, key.group, getattr(screen, f"action_{key.action}"))
        yield SystemCommand("Theme", "Choose the colours", self.action_change_theme)

    def action_help_quit(self) -> None:
        """Answer ctrl+c, which people press to leave, with the key that does."""
        self.notify("q quits", timeout=2)
