"""Starts the trace screen on a fake and reads what stands on it; the one place here that looks inside Textual."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from textual.pilot import Pilot
from textual.worker import WorkerCancelled

from bisect_diverge.tui.app import WalkApp
from bisect_diverge.tui.commands import Commands
from bisect_diverge.tui.screens.walk import WalkScreen
from tests.tui.fake import FakeComparison

GOLDENS = Path(__file__).parent.parent / "golden" / "tui"
COMMANDS = Commands("runs/base", "runs/t16", ("--from", "3"))


@asynccontextmanager
async def walking(
    comparison: FakeComparison, size: tuple[int, int] = (120, 40), theme: str = "dark"
) -> AsyncIterator[Pilot[None]]:
    """Yield the running app when it has come to rest."""
    app = WalkApp(comparison, COMMANDS, theme=theme)
    try:
        async with app.run_test(size=size) as pilot:
            await settle(pilot)
            yield pilot
    finally:
        app.reader.close()


async def settle(pilot: Pilot[None]) -> None:
    """Wait until nothing is being read any more."""
    await pilot.pause()
    while not all(worker.is_finished for worker in pilot.app.workers):
        with suppress(WorkerCancelled):
            await pilot.app.workers.wait_for_complete()
        await pilot.pause()


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Press keys one after the other and wait for what each starts."""
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


def screen(pilot: Pilot[None]) -> WalkScreen:
    """Return the trace screen."""
    found = pilot.app.screen_stack[1]
    assert isinstance(found, WalkScreen)
    return found


def text_of(pilot: Pilot[None]) -> str:
    """Return what stands on the terminal, without colours and without blanks at the ends of lines."""
    strips = pilot.app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips) + "\n"


def remarks(pilot: Pilot[None]) -> list[str]:
    """Return the short remarks shown so far that have not timed out."""
    return [notification.message for notification in pilot.app._notifications]
