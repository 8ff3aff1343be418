"""The program around the screen: `bd walk` itself, its themes, what it imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from bisect_diverge.cli import walk as walk_module
from bisect_diverge.cli.main import _bd
from bisect_diverge.cli.walk import command
from bisect_diverge.errors import NotComparableError, UsageError
from bisect_diverge.tui import app as app_module
from bisect_diverge.tui.app import WalkApp, walk
from bisect_diverge.tui.commands import Commands
from bisect_diverge.tui.comparison import Comparison
from tests.helpers.runs import training_rows, write_run
from tests.tui.fake import FakeComparison
from tests.tui.screens import COMMANDS, text_of, walking


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str]:
    """Two small recorded runs that part in step 1."""
    change = {"r0/1/0/forward/model:1#0:output.0": "other"}
    a = write_run(tmp_path / "a", training_rows())
    b = write_run(tmp_path / "b", training_rows(change=change))
    return str(a), str(b)


def test_without_a_terminal_the_way_out_is_named(runs: tuple[str, str]) -> None:
    """A pipe or a CI job gets one message, exit status 2, and the command that works there."""
    done = subprocess.run(
        [sys.executable, "-m", "bisect_diverge", "walk", *runs],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )

    assert done.returncode == 2
    assert done.stdout == ""
    assert (
        f"bd: bd walk needs a terminal\n  bd diff {runs[0]} {runs[1]} prints the same result anywhere\n" == done.stderr
    )


def test_walk_opens_the_comparison(runs: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The options are those of `bd diff`, and they stand in the command that the screen copies."""
    seen: list[tuple[Comparison, Commands, str]] = []

    def fake_walk(comparison: Comparison, commands: Commands, source: object, theme: str) -> int:
        assert comparison.first >= 0
        seen.append((comparison, commands, theme))
        return 0

    monkeypatch.setattr(walk_module, "_on_terminal", lambda: True)
    monkeypatch.setattr(app_module, "walk", fake_walk)
    options = ["--ignore", "*:lr", "--from", "1", "--map", "model=model"]
    done = CliRunner().invoke(_bd, ["tui", *runs, *options, "--theme", "light"])

    assert done.exit_code == 0, done.output
    assert f"bd diff {runs[0]} {runs[1]} --ignore '*:lr' --from 1 --map model=model" == seen[0][1].diff()
    assert seen[0][2] == "light"


def test_walk_refuses_what_cannot_be_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Like `bd diff`: one message that says why, before any screen is opened."""
    monkeypatch.setattr(walk_module, "_on_terminal", lambda: True)
    a, b = write_run(tmp_path / "a", training_rows()), write_run(tmp_path / "b", [])
    done = CliRunner().invoke(command, [str(a), str(b)])

    assert isinstance(done.exception, NotComparableError)


async def test_the_screen_shows_real_runs(runs: tuple[str, str]) -> None:
    """The differ's comparison drives the same screen as the fake."""
    from bisect_diverge.diff.compare import compare
    from bisect_diverge.store.reader import Run

    with Run(runs[0]) as a, Run(runs[1]) as b:
        async with walking(compare(a, b)) as pilot:  # type: ignore[arg-type]
            text = text_of(pilot)

            assert "≠ FIRST DIVERGENCE  step 1 · micro-batch 0 · forward · model:1 · output.0" in text
            assert "its inputs are equal" in text
            assert "▶ ≠ fwd  1/0  model:1" in text
            assert "elements differ" in text
            assert "in  = model:1  input.0" in text


def test_a_theme_that_is_not_there_is_a_usage_error() -> None:
    """The message lists the themes."""
    with pytest.raises(UsageError, match="there is no theme 'pink'\n  themes: dark light"):
        WalkApp(FakeComparison(), COMMANDS, theme="pink")


def test_walk_waits_for_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files may be closed when `walk` has returned, however the app ended."""

    def failing(app: WalkApp) -> None:
        raise RuntimeError

    monkeypatch.setattr(WalkApp, "run", lambda app: None)
    assert walk(FakeComparison(), COMMANDS) == 0
    monkeypatch.setattr(WalkApp, "run", failing)
    with pytest.raises(RuntimeError):
        walk(FakeComparison(), COMMANDS)


@pytest.mark.parametrize("module", ["bisect_diverge.cli.main", "bisect_diverge.cli.walk", "bisect_diverge.cli.diff"])
def test_nothing_but_the_screen_imports_textual(module: str) -> None:
    """`bd --help` and `bd diff` stay quick; and the screen needs no torch."""
    code = f"import sys, {module}; assert not {{'textual', 'torch', 'h5py'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    code = "import sys, bisect_diverge.tui.app; assert not {'torch', 'click'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
