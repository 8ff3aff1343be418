"""Measures how long `bd walk` takes from its imports to its first picture, and how quick its actions are.

python benchmarks/walk_first_paint.py [RECORDS] [WIDTHxHEIGHT]

The comparison is invented (tests/tui/fake.py): what is measured is the screen, not the reading of the index.
Target: 0.5 s on 1 000 000 records.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from bisect_diverge.tui.app import WalkApp
from bisect_diverge.tui.commands import Commands
from bisect_diverge.tui.screens.walk import WalkScreen
from tests.tui.fake import FakeComparison

ACTIONS = ("n", "d", "G", "g", "d", "f", "s", "pagedown", "space")


async def measure(comparison: FakeComparison, size: tuple[int, int]) -> None:
    """Print the time to the first picture that has rows, and that of each action until it is drawn."""
    start = time.perf_counter()
    app = WalkApp(comparison, Commands("a", "b"))
    async with app.run_test(size=size) as pilot:
        while not (isinstance(app.screen, WalkScreen) and app.screen.trace_list.size.height):
            await asyncio.sleep(0)
        await asyncio.wait_for(_drawn(app.screen), 30)
        print(f"first paint   {1e3 * (time.perf_counter() - start):7.0f} ms")
        await app.workers.wait_for_complete()
        for key in ACTIONS:
            start = time.perf_counter()
            await pilot.press(key)
            print(f"{key:13} {1e3 * (time.perf_counter() - start):7.0f} ms (with Pilot's own waits)")
    app.reader.close()


async def _drawn(screen: WalkScreen) -> None:
    """Return when the screen has been painted once with everything on it."""
    painted = asyncio.Event()
    screen.call_after_refresh(painted.set)
    await painted.wait()


def folding(comparison: FakeComparison) -> None:
    """Print the time that the array work takes by itself."""
    from bisect_diverge.tui.trace import Trace

    start = time.perf_counter()
    trace = Trace(comparison.state)
    print(f"folding       {1e3 * (time.perf_counter() - start):7.1f} ms, {len(trace)} lines")
    start = time.perf_counter()
    trace.show_only_differing(False)
    print(f"unfolding all {1e3 * (time.perf_counter() - start):7.1f} ms, {len(trace)} lines")


def main() -> None:
    records = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    width, _, height = (sys.argv[2] if len(sys.argv) > 2 else "120x40").partition("x")
    comparison = FakeComparison(records, first=records // 10, layers=12)
    folding(comparison)
    asyncio.run(measure(comparison, (int(width), int(height))))


if __name__ == "__main__":
    main()
