"""The bisect screen on every size, in every colouring, for every way in which a search can end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bisect_diverge.tui import keys
from bisect_diverge.tui.bisection import Event, Finished, Note, Started, Unrecorded, event_of
from bisect_diverge.tui.screens.bisect import BisectScreen
from bisect_diverge.tui.searching import Searching
from tests.tui.fake import FakeComparison
from tests.tui.fake_search import (
    DONE,
    FAILED,
    INTERRUPTED,
    MIDDLE,
    NOTHING,
    PAIR,
    PLAN,
    THREADS,
    TRIALS,
    WORKERS,
    FakeSearch,
    bisect_screen,
    bisecting,
    trial,
)
from tests.tui.screens import GOLDENS, press, remarks, screen, settle, text_of, walking

SIZES = [(80, 24), (100, 30), (140, 40), (60, 15)]
CASES: dict[str, tuple[tuple[Event, ...], str, str]] = {
    "begin": ((), "nothing proved yet", "comparing the runs"),
    "middle": (MIDDLE, "✓ A repeats itself", "running"),
    "done": (DONE, "cause: hardware OMP_NUM_THREADS: 8 -> 16", "finished"),
    "failed": (FAILED, "bd: nothing lies at runs/t16", "✗ failed"),
    "interrupted": (INTERRUPTED, "inconclusive: the search did not come to its end", "stopped early"),
    "nothing": (NOTHING, "A and B do not differ: there is nothing to bisect", "finished"),
    "pair": (PAIR, "cause: hardware OMP_NUM_THREADS: 8 -> 16 together with", "finished"),
}


@pytest.fixture(params=["dark", "light", "nocolor"])
def theme(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the colourings; returns the theme."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    if request.param == "nocolor":
        monkeypatch.setenv("NO_COLOR", "1")
        return "dark"
    return str(request.param)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", CASES)
async def test_every_state_fits_every_size(name: str, size: tuple[int, int], theme: str) -> None:
    """The head says how it stands, the panel what is proved; nothing is wider than the terminal."""
    events, verdict, state = CASES[name]

    async with bisecting(FakeSearch(*events), size, theme) as pilot:
        text = text_of(pilot)

        assert verdict[: size[0] - 4] in text
        assert state in "\n".join(text.splitlines()[:3])
        assert "q back" in text.splitlines()[-1]
        assert all(len(line) <= size[0] for line in text.splitlines())


@pytest.mark.parametrize(
    ("name", "size"), [("middle", (80, 24)), ("middle", (120, 40)), ("done", (80, 24)), ("done", (120, 40))], ids=str
)
async def test_goldens(name: str, size: tuple[int, int], request: pytest.FixtureRequest) -> None:
    """The screen as text; --update-goldens writes it anew."""
    golden = GOLDENS / f"bisect-{name}-{size[0]}x{size[1]}.txt"
    async with bisecting(FakeSearch(*CASES[name][0]), size) as pilot:
        text = text_of(pilot)
    if request.config.getoption("--update-goldens"):
        golden.write_text(text, encoding="utf-8")

    assert golden.read_text(encoding="utf-8") == text


async def test_a_small_terminal_gets_the_needed_size() -> None:
    """As everywhere: the size and the command that prints the same."""
    async with bisecting(FakeSearch(*DONE), (50, 10)) as pilot:
        assert "needs 60×15, is 50×10" in " ".join(text_of(pilot).split())


async def test_results_grow_with_the_trials() -> None:
    """What is said of a setting follows the trials; the answer replaces it."""
    search = FakeSearch(*MIDDLE)
    async with bisecting(search) as pilot:
        state = bisect_screen(pilot).searching
        found = {unit.knob: text for unit, _, text in state.rows()}
        assert found == {
            "OMP_NUM_THREADS": "running",
            "MKL_DYNAMIC": "not tested",
            "MKL_CBWR": "inert: no resolved value moved with it",
            "argv.--workers": "no effect so far",
            "MKL": "untestable: it comes with the interpreter",
        }
        search.tell(Finished(TRIALS[3]))
        search.tell(Started(TRIALS[4].swapped))
        await settle(pilot)
        text = text_of(pilot)
        assert "≠ alone makes B" in text
        assert "A with only OMP_NUM_THREADS changed has B's bits (trial 4)" in text
        assert "B - OMP_NUM_THREADS" in text
        search.tell(Finished(TRIALS[4]))
        await settle(pilot)
        assert "B with only OMP_NUM_THREADS put back has A's bits (trial 5)" in text_of(pilot)
        for event in DONE[-2:]:
            search.tell(event)
        await settle(pilot)
        assert {unit.knob: text for unit, _, text in state.rows()}["OMP_NUM_THREADS"] == "cause"


async def test_trials_that_run_together_are_all_shown() -> None:
    """With several at a time each has its row; one that ends takes away its own."""
    search = FakeSearch(*MIDDLE)
    async with bisecting(search) as pilot:
        search.tell(Started((WORKERS,)))
        await settle(pilot)
        text = text_of(pilot)
        assert text.count("▸ running") >= 2
        assert "A + argv.--workers" in text
        assert "trial 5 of about 6" in text
        await press(pilot, "G", "enter")
        assert "bd trial runs/base --set configuration.argv.--workers=@B" in text_of(pilot)
        await press(pilot, "escape")
        search.tell(Finished(trial(4, WORKERS)))
        await settle(pilot)
        assert bisect_screen(pilot).searching.running == [(THREADS,)]


async def test_the_verdict_opens_in_full() -> None:
    """Its panel has few lines, and says which key shows all; the page scrolls."""
    async with bisecting(FakeSearch(*DONE), (80, 24)) as pilot:
        assert "verdict · v shows all" in text_of(pilot)
        await press(pilot, "v")
        text = text_of(pilot)
        assert "B with only this put back = A" in text
        assert "innocent (tested)" in text
        await press(pilot, "escape")
        assert pilot.app.screen is bisect_screen(pilot)


async def test_what_the_search_says_beside_its_trials_is_shown() -> None:
    """A script that has changed is worth knowing before the answer."""
    search = FakeSearch(PLAN, Note("train.py has changed since A was recorded"))
    async with bisecting(search) as pilot:
        assert "train.py has changed since A was recorded" in text_of(pilot)


async def test_stopping_after_the_trial_then_now() -> None:
    """One `s` ends it after the trial, a second one now; a search that is over is left alone."""
    search = FakeSearch(*MIDDLE)
    async with bisecting(search, (80, 24)) as pilot:
        await press(pilot, "s")
        assert "stopping after this trial" in text_of(pilot)
        await press(pilot, "s", "S", "s")
        assert "stopping now" in text_of(pilot)
        assert search.asked == ["start", "stop", "stop now"]
        for event in INTERRUPTED[-2:]:
            search.tell(event)
        await settle(pilot)
        assert "stopped early" in text_of(pilot)
    over = FakeSearch(*DONE)
    async with bisecting(over) as pilot:
        await press(pilot, "s", "S")
        assert over.asked == ["start"]


@pytest.mark.parametrize("key", ["q", "escape"])
async def test_closing_ends_the_search_and_asks_nothing(key: str) -> None:
    """The process is ended before the app is."""
    search = FakeSearch(*MIDDLE)
    async with bisecting(search) as pilot:
        await press(pilot, key)
        assert any("the journal keeps its trials" in text for text in remarks(pilot))
    assert search.asked[:2] == ["start", "close"]


async def test_an_app_that_ends_otherwise_ends_the_search_too() -> None:
    """ctrl+q goes past the screen's keys."""
    search = FakeSearch(*MIDDLE)
    async with bisecting(search) as pilot:
        pilot.app.exit()
    assert "close" in search.asked


async def test_walk_opens_it_and_goes_on_behind_it() -> None:
    """The key `b` searches with the runs of the comparison; q comes back to the trace, which still works."""
    search = FakeSearch(*MIDDLE)
    commands: list[tuple[str, ...]] = []
    async with walking(FakeComparison(400), (100, 30)) as pilot:
        pilot.app.search = lambda command: commands.append(command) or search  # type: ignore[attr-defined]
        await press(pilot, "b")
        assert commands == []
        assert any("b again" in remark for remark in remarks(pilot))
        await press(pilot, "b")
        await settle(pilot)
        assert isinstance(pilot.app.screen, BisectScreen)
        assert commands == [("bisect", "runs/base", "runs/t16")]
        await press(pilot, "q")
        assert pilot.app.screen is screen(pilot)
        await press(pilot, "j")
        assert "▶ " in text_of(pilot)
    assert search.asked[:2] == ["start", "close"]


async def test_the_selected_trial_and_setting_open_in_full() -> None:
    """It shows what is known of the row, and the command that runs the trial again."""
    async with bisecting(FakeSearch(*DONE), (100, 30)) as pilot:
        await press(pilot, "g", "j", "j", "j", "enter")
        text = text_of(pilot)
        assert "B's bits: this change makes B out of A" in text
        assert "bd trial runs/base --set hardware.OMP_NUM_THREADS=@B --b runs/t16" in text
        await press(pilot, "escape", "h", "g", "enter")
        assert "✗ cause" in text_of(pilot)
        await press(pilot, "escape")
        assert pilot.app.screen is bisect_screen(pilot)


async def test_the_running_trial_opens_with_its_output() -> None:
    """Escapes in it do nothing to the terminal."""
    async with bisecting(FakeSearch(*MIDDLE), (100, 30)) as pilot:
        await press(pilot, "G", "enter")
        text = text_of(pilot)
        assert "it runs still" in text
        assert "step 2 | loss 4.1172 \ufffd[31m" in text


async def test_copying() -> None:
    """One key takes the verdict with its proof, the other the command of the selected trial."""
    async with bisecting(FakeSearch(*DONE), (100, 30)) as pilot:
        await press(pilot, "y")
        assert pilot.app.clipboard.startswith("cause: hardware OMP_NUM_THREADS: 8 -> 16\n  A with only this changed")
        assert "innocent" not in pilot.app.clipboard
        await press(pilot, "g", "Y")
        assert pilot.app.clipboard == "bd trial runs/base --b runs/t16"
    async with bisecting(FakeSearch(PLAN), (80, 24)) as pilot:
        await press(pilot, "Y", "enter")
        assert remarks(pilot) == ["no trial yet", "no trial yet"]


@pytest.mark.parametrize("events", [DONE, MIDDLE], ids=["done", "middle"])
async def test_exporting(events: tuple[Event, ...], tmp_path: Path) -> None:
    """The report as text or JSON, partial while the search runs; a bad name can be corrected."""
    async with bisecting(FakeSearch(*events), (80, 24)) as pilot:
        answer = bisect_screen(pilot).prompt.query_one("#answer")
        await press(pilot, "e")
        answer.value = str(tmp_path / "report.pdf")  # type: ignore[attr-defined]
        await press(pilot, "enter")
        assert "the name has to end with one of .txt .json" in remarks(pilot)
        for suffix in (".json", ".txt"):
            answer.value = str(tmp_path / f"report{suffix}")  # type: ignore[attr-defined]
            await press(pilot, "enter", "e")
        await press(pilot, "escape", "j")
    document = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert document["finished"] == (events is DONE)
    assert document["trials"][0]["outcome"] == "=A"
    assert "OMP_NUM_THREADS" in (tmp_path / "report.txt").read_text(encoding="utf-8") or events is MIDDLE


async def test_help_palette_and_footer_come_from_the_table() -> None:
    """All keys are in the help and in the palette; the footer has six."""
    assert sum(bool(key.footer) for key in keys.BISECT) <= 6
    async with bisecting(FakeSearch(*DONE), (100, 30)) as pilot:
        names = [command.title for command in pilot.app.get_system_commands(bisect_screen(pilot))]
        assert names == [*(key.name for key in keys.BISECT), "Theme"]
        await press(pilot, "question_mark")
        shown = str(pilot.app.screen.query("Static").first().render())
        assert all(key.text in shown for key in keys.BISECT)


@pytest.mark.parametrize("key", [name for key in keys.BISECT for name in key.keys if key.action != "close"])
async def test_every_key_leaves_a_screen_that_works(key: str) -> None:
    """Pressed in the middle of a search, each key is answered."""
    async with bisecting(FakeSearch(*MIDDLE), (80, 24)) as pilot:
        await press(pilot, key)
        if pilot.app.screen is not bisect_screen(pilot) or key == "e":
            await press(pilot, "escape")
        await press(pilot, "g", "j")
        assert bisect_screen(pilot).trials.cursor_row == 1 or bisect_screen(pilot).units.cursor_row == 1


def test_an_unrecorded_run_is_shown_while_it_lasts() -> None:
    """It is no trial, so only this says why nothing else happens."""
    event = event_of(json.dumps({"event": "unrecorded", "of": "B"}))
    assert event == Unrecorded("B")
    state = Searching()
    state.take(event)
    assert state.verdict("a", "b")[0] == "running B unrecorded: does recording change it?"
    state.take(Started(()))
    assert state.verdict("a", "b")[0] == "nothing proved yet"
