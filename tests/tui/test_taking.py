"""What is taken away from the screen: exported files, the source in an editor."""

from __future__ import annotations

import json
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest

from bisect_diverge.tui import export, states
from bisect_diverge.tui.records import Records
from bisect_diverge.tui.source import Site, editor_command
from bisect_diverge.tui.trace import Trace
from tests.tui.fake import FakeComparison
from tests.tui.screens import press, remarks, screen, walking


def view(comparison: FakeComparison) -> export.View:
    """Return a view as it is at the start."""
    return export.View(comparison, Records(comparison), Trace(comparison.state), "bd diff runs/base runs/t16")


@pytest.fixture
def comparison() -> FakeComparison:
    """A comparison with every state."""
    odd = {261: states.ONLY_A, 262: states.ONLY_B, 263: states.IGNORED}
    return FakeComparison(270, states_at=odd, lost=[264])


def test_text(comparison: FakeComparison) -> None:
    """The text has the verdict, the command and the lines as they are folded."""
    lines = export.text(view(comparison)).splitlines()

    assert lines[2].startswith("≠ FIRST DIVERGENCE")
    assert "bd diff runs/base runs/t16" in lines
    assert "    … 260 equal records, steps 0–2" in lines
    assert [line[2] for line in lines[-10:]] == ["≠", "?", "?", "·", "!", "=", "≠", "≠", "≠", "≠"]


def test_markdown(comparison: FakeComparison) -> None:
    """The table has one line for each line of the trace."""
    text = export.markdown(view(comparison))

    assert "**≠ FIRST DIVERGENCE" in text
    assert "| ? | `r0/2/0/forward/model:transformer.h.1.attn.c_attn#0:output.0` | only in A |" in text
    assert "| = | | … 260 equal records, steps 0–2 |" in text


def test_json(comparison: FakeComparison) -> None:
    """The document holds what `bd diff --format json` prints, and the lines."""
    document = json.loads(export.as_json(view(comparison)))

    assert comparison.divergence.to_json() == document["divergence"]
    assert document["lines"][0] == {"state": "equal", "records": 260, "ignored": 0}
    assert document["lines"][5] == {"state": "unreadable", "address": None, "detail": "the file is cut off"}
    assert document["lines_left_out"] == 0


def test_a_long_export_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch, comparison: FakeComparison) -> None:
    """Nothing is cut off silently."""
    monkeypatch.setattr(export, "MOST_LINES", 5)

    assert export.text(view(comparison)).endswith("6 more lines not written; bd diff runs/base runs/t16 has them\n")
    assert export.markdown(view(comparison)).endswith("has them\n")
    assert json.loads(export.as_json(view(comparison)))["lines_left_out"] == 6


@pytest.mark.parametrize("suffix", export.SUFFIXES)
async def test_exporting(suffix: str, tmp_path: Path) -> None:
    """The suffix chooses the format; a name that is taken or has no known suffix is said and can be corrected."""
    async with walking(FakeComparison(), (80, 24)) as pilot:
        answer = screen(pilot).prompt.query_one("#answer")
        await press(pilot, "e")
        assert answer.value == "walk-step2.txt"
        answer.value = str(tmp_path / "view.pdf")
        await press(pilot, "enter")
        assert "the name has to end with one of .txt .md .json .svg" in remarks(pilot)
        answer.value = str(tmp_path / f"view{suffix}")
        await press(pilot, "enter")
        assert "FIRST DIVERGENCE" in (tmp_path / f"view{suffix}").read_text().replace("&#160;", " ") or suffix in (
            ".svg",
            ".json",
        )
        assert screen(pilot).trace_list.has_focus
        await press(pilot, "e")
        answer.value = str(tmp_path / f"view{suffix}")
        await press(pilot, "enter")
        assert any(text.endswith("is there already") for text in remarks(pilot))
        answer.value = str(tmp_path / "no" / "such.txt")
        await press(pilot, "enter")
        assert any("No such file" in text for text in remarks(pilot))
        await press(pilot, "escape")
        assert screen(pilot).trace_list.has_focus


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, ["vi", "+71", "model.py"]),
        ({"EDITOR": "nano"}, ["nano", "+71", "model.py"]),
        ({"EDITOR": "nano", "VISUAL": "code -n"}, ["code", "-n", "--wait", "--goto", "model.py:71"]),
        ({"VISUAL": "/usr/bin/hx"}, ["/usr/bin/hx", "model.py:71"]),
        ({"VISUAL": "ed"}, ["ed", "model.py"]),
    ],
)
def test_editors(variables: dict[str, str], expected: list[str]) -> None:
    """$VISUAL comes before $EDITOR, and each editor is told the line in its own way."""
    assert expected == editor_command(Site(Path("model.py"), 71), variables)


def test_sites(tmp_path: Path) -> None:
    """A site is file and line; what the file says there now is shown with it."""
    path = tmp_path / "a:b.py"
    path.write_text("one\n  two\n")

    assert Site(path, 2) == Site.parse(f"{path}:2")
    assert Site(path, 2).text() == "two"
    assert Site(path, 9).text() is None
    assert Site(tmp_path / "none.py", 1).text() is None
    assert Site.parse("") is None
    assert Site.parse("model.py") is None
    assert Site.parse("model.py:x") is None


async def test_opening_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """O hands the terminal to the editor; without source, file, editor or such a terminal it says so."""
    started: list[list[str]] = []
    monkeypatch.setenv("VISUAL", "vi")
    async with walking(FakeComparison(), (80, 24)) as pilot:
        await press(pilot, "o")
        assert "model.py is not here" in remarks(pilot)
        monkeypatch.chdir(tmp_path)
        Path("model.py").write_text("x\n")
        await press(pilot, "o")
        assert "this terminal cannot be handed to an editor" in remarks(pilot)

        monkeypatch.setattr(pilot.app, "suspend", nullcontext)
        monkeypatch.setattr(subprocess, "run", lambda command, check: started.append(command))
        await press(pilot, "o")
        assert started == [["vi", "+71", "model.py"]]
        monkeypatch.setattr(subprocess, "run", lambda command, check: Path("no such editor").read_text())
        await press(pilot, "o")
        assert any(text.endswith("set $EDITOR") for text in remarks(pilot))
        await press(pilot, "g", "o")
        assert "the source is not known here" in remarks(pilot)
