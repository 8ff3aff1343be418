"""The Textual applications behind `bd walk` and `bd bisect --ui tui`; the screens do the work."""

from __future__ import annotations

from collections.abc import Callable

from bisect_diverge.tui.base import BaseApp
from bisect_diverge.tui.bisection import Search
from bisect_diverge.tui.columns import Source, of_records
from bisect_diverge.tui.commands import Commands
from bisect_diverge.tui.comparison import Comparison
from bisect_diverge.tui.process import Process
from bisect_diverge.tui.reader import Reader
from bisect_diverge.tui.screens.bisect import BisectScreen
from bisect_diverge.tui.screens.walk import WalkScreen
from bisect_diverge.tui.searching import Searching


class WalkApp(BaseApp):
    """Shows two compared runs.

    Args:
        comparison: The two runs; closed by the caller, after the app has ended.
        commands: How they were given on the command line.
        source: How phase, micro-batch and text of all records are read.
        theme: ``dark``, ``light`` or a name of one of Textual's themes.
        search: Makes the search of the key ``b``.

    Raises:
        UsageError: if there is no such theme.
    """

    TITLE = "bd walk"

    def __init__(
        self,
        comparison: Comparison,
        commands: Commands,
        source: Source = of_records,
        theme: str = "dark",
        search: Callable[[tuple[str, ...]], Search] = Process,
    ) -> None:
        super().__init__(theme)
        self.comparison = comparison
        self.commands = commands
        self.source = source
        self.search = search
        self.reader = Reader()

    def on_mount(self) -> None:
        """Open the trace."""
        self.push_screen(WalkScreen(self.comparison, self.commands, self.reader, self.source))

    def open_bisection(self) -> None:
        """Search the cause of the divergence, on a screen of its own."""
        command = self.commands.bisect()
        self.push_screen(BisectScreen(self.commands, self.search(command)))


class BisectApp(BaseApp):
    """Watches a search.

    Args:
        commands: How the two runs were given on the command line.
        search: The search; started by the screen, closed with it.
        theme: ``dark``, ``light`` or a name of one of Textual's themes.
    """

    TITLE = "bd bisect"

    def __init__(self, commands: Commands, search: Search, theme: str = "dark") -> None:
        super().__init__(theme)
        self.bisect_screen = BisectScreen(commands, search)

    def on_mount(self) -> None:
        """Open the screen; the app ends with it."""
        self.push_screen(self.bisect_screen, lambda _: self.exit())


def walk(comparison: Comparison, commands: Commands, source: Source = of_records, theme: str = "dark") -> int:
    """Show two compared runs until the user quits; return the exit status."""
    app = WalkApp(comparison, commands, source, theme)
    try:
        app.run()
    finally:
        app.reader.close()
    return app.return_code or 0


def watch(run_a: str, run_b: str, arguments: tuple[str, ...]) -> Searching:
    """Run ``bd bisect`` and show what it does until the user quits; return what came of it.

    Args:
        run_a: Path of the baseline.
        run_b: Path of the candidate.
        arguments: Options of the search.
    """
    commands = Commands(run_a, run_b, searched=arguments)
    search = Process(commands.bisect())
    app = BisectApp(commands, search)
    try:
        app.run()
    finally:
        search.close()
    return app.bisect_screen.searching
