"""A real search in a process of its own: watched to its end, stopped, left alone by its reader."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from bisect_diverge.cli import bisect as bisect_module
from bisect_diverge.errors import UsageError
from bisect_diverge.model.trial import BisectVerdict
from bisect_diverge.tui.app import BisectApp
from bisect_diverge.tui.bisection import Ended, Event, Finished, Note, Output, Result, event_of
from bisect_diverge.tui.commands import Commands
from bisect_diverge.tui.process import Process
from tests.helpers.command import bd, surroundings
from tests.tui.fake_search import DYNAMIC, THREADS, TRIALS, WORKERS, pair, result
from tests.tui.screens import text_of

SCRIPT = Path(__file__).parents[1] / "trial" / "training.py"


def test_events_survive_the_way_through_json() -> None:
    """What the search tells is what the screen gets; any other line is none of its events."""
    for bisection in (result(), pair(), result(taken_apart=((THREADS, (DYNAMIC, WORKERS)),))):
        line = json.dumps({"event": "result", "bisection": bisection.to_json()})
        assert event_of(line) == Result(bisection)
    assert event_of(json.dumps({"event": "finished", "trial": TRIALS[2].to_json()})) == Finished(TRIALS[2])
    assert event_of('{"event": "output", "line": "x"}') == Output("x")
    assert event_of('{"event": "note", "text": "x"}') == Note("x")
    for line in ("bd: no such run", "{}", "[]", '{"event": "new"}', '{"event": "finished", "trial": {}}'):
        assert event_of(line) is None


def test_the_screen_needs_a_terminal() -> None:
    """Elsewhere the command says what prints the same."""
    done = CliRunner().invoke(bisect_module.command, ["a", "b", "--ui", "tui"])

    assert isinstance(done.exception, UsageError)
    assert "bd bisect a b prints the same" in str(done.exception)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the script and the runs ``a`` and ``b``, of another rate."""
    place = tmp_path_factory.mktemp("runs")
    shutil.copy(SCRIPT, place)
    for name, flags in (("a", ()), ("b", ("--lr", "0.2"))):
        bd("record", "-o", name, "--", sys.executable, "training.py", "--out", f"{name}.pt", *flags, cwd=place)
    return place


@pytest.mark.slow
async def test_a_real_search_is_watched_to_its_end(folder: Path) -> None:
    """From the first trial to the proved cause."""
    commands = Commands(str(folder / "a"), str(folder / "b"))
    app = BisectApp(commands, Process((*commands.bisect(), "--fresh")))
    async with app.run_test(size=(120, 40)) as pilot:
        async with asyncio.timeout(200):
            while not app.bisect_screen.searching.over:
                await pilot.pause(0.1)
        await pilot.pause()
        text = text_of(pilot)

    found = app.bisect_screen.searching.result
    assert found is not None
    assert found.verdict is BisectVerdict.CAUSE
    assert app.bisect_screen.searching.status == 0
    assert "✗ cause" in text
    assert "✓ A repeats itself  ✓ B repeats itself" in text


@pytest.mark.slow
def test_a_search_that_nobody_reads_ends_with_its_trial(folder: Path, tmp_path: Path) -> None:
    """Whoever watches may be killed: the trial ends, its directory goes, the process too."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bisect_diverge", "bisect", "a", "b", "--fresh", "--progress", "json"],
        cwd=folder,
        env=surroundings(TMPDIR=str(tmp_path)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    while '"started"' not in process.stderr.readline():
        assert process.poll() is None
    process.stderr.close()

    assert process.wait(60) == 3
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_failing_search_says_why(tmp_path: Path) -> None:
    """The message of the command is the screen's."""
    told: queue.Queue[Event] = queue.Queue()
    process = Process(("bisect", str(tmp_path / "a"), str(tmp_path / "b")))
    process.start(told.put)
    ended = told.get(timeout=60)
    process.close()
    assert isinstance(ended, Ended)
    assert ended.status == 2
    assert "bd: " in ended.message
