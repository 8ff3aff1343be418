"""The trace screen on every size, in every colouring, on every kind of comparison."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bisect_diverge.tui import states
from tests.tui.fake import FakeComparison
from tests.tui.screens import GOLDENS, press, screen, settle, text_of, walking

SIZES = [(80, 24), (100, 30), (140, 40), (60, 15)]


@pytest.fixture(params=["dark", "light", "ansi-dark", "nocolor"])
def theme(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each of the colourings; returns the theme."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    if request.param == "nocolor":
        monkeypatch.setenv("NO_COLOR", "1")
        return "dark"
    return str(request.param)


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_every_size_shows_the_verdict_and_the_first_divergence(size: tuple[int, int], theme: str) -> None:
    """Verdict, steps, trace and footer fit from 60x15 on, whatever the colours."""
    odd = {300: states.ONLY_A, 301: states.ONLY_B, 302: states.IGNORED}

    async with walking(FakeComparison(states_at=odd, failing=[262]), size, theme) as pilot:
        text = text_of(pilot)

        assert "≠ " in text.splitlines()[1]
        assert "▶ ≠" in text
        assert "! " in text
        assert "q quit" in text.splitlines()[-1]
        assert all(len(line) <= size[0] for line in text.splitlines())


@pytest.mark.parametrize("size", [(59, 24), (80, 14), (30, 5)], ids=str)
async def test_a_small_terminal_gets_the_needed_size_and_the_way_out(size: tuple[int, int], theme: str) -> None:
    """Below 60x15 nothing is squeezed: the size that is needed and the command that prints the same."""
    async with walking(FakeComparison(), size, theme) as pilot:
        text = " ".join(text_of(pilot).split())

        assert (
            text == f"needs 60×15, is {size[0]}×{size[1]}; q quits, bd diff runs/base runs/t16 --from 3 prints the same"
        )


async def test_a_terminal_that_grows_gets_the_trace() -> None:
    """The screen follows the size of the terminal in both directions."""
    async with walking(FakeComparison(), (50, 10)) as pilot:
        await pilot.resize_terminal(100, 30)
        await settle(pilot)
        assert "FIRST DIVERGENCE" in text_of(pilot)
        await pilot.resize_terminal(40, 30)
        await settle(pilot)
        assert "is 40×30" in text_of(pilot)


CASES = {
    "empty": (FakeComparison(0, first=-1), "NOT COMPARABLE"),
    "one equal record": (FakeComparison(1, first=-1), "= EQUAL  1 record in 1 step"),
    "one record that differs": (FakeComparison(1, first=0), "FIRST DIVERGENCE  step 0 · data"),
    "nothing differs": (FakeComparison(500, first=-1), "… 500 equal records, steps 0–3"),
    "all differ": (FakeComparison(500, first=0, every=1000), "▶ ≠ data"),
    "first only in A": (FakeComparison(400, states_at={260: states.ONLY_A}), "▶ ? fwd"),
    "only in B": (FakeComparison(400, states_at={261: states.ONLY_B}), "only in B"),
    "digests only": (FakeComparison(400, kept=False), "only a digest was kept in A and B"),
    "unreadable tensor": (FakeComparison(400, failing=[260]), "! unreadable: read error at offset 4096"),
    "unreadable record": (FakeComparison(400, lost=[260]), "! record 260 of the trace: the file is cut off"),
    "several ranks": (FakeComparison(400, ranks=2), "r0 2/0"),
    "many steps": (FakeComparison(20_000, first=10_000), "steps 0–"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=str)
async def test_every_kind_of_comparison_has_a_screen(name: str, size: tuple[int, int]) -> None:
    """Whatever was recorded, the screen says what there is; all movements are harmless."""
    comparison, expected = CASES[name]

    async with walking(comparison, size) as pilot:
        if size[0] == 80 and "digest" in expected + name:
            await press(pilot, "enter")
        text = text_of(pilot)
        if size[0] == 120:
            assert expected in text
        if size[0] == 120:
            brackets = ("left_square_bracket", "right_square_bracket")
            await pilot.press(*"nNfsSmMdpgG", "space", *brackets, "enter", "escape")
            await settle(pilot)
            assert pilot.app.screen is screen(pilot)


def pane_text(text: str) -> str:
    """Return what stands in the pane beside the trace."""
    return "\n".join(line.partition("│")[2] for line in text.splitlines())


async def test_the_pane_compares_the_values_of_both_runs() -> None:
    """Min, max, mean, nan/inf and digest of A and B, the element statistics, the data flow and the source."""
    async with walking(FakeComparison()) as pilot:
        text = pane_text(text_of(pilot))

        for word in (
            "min ",
            "max ",
            "mean ",
            "nan/inf ",
            "digest ",
            "elements differ",
            "ULP",
            "in  =",
            "out ≠",
            "model.py:71",
        ):
            assert word in text


async def test_the_first_paint_reads_no_tensor() -> None:
    """The index is enough for the first picture: tensors are read afterwards."""
    comparison = FakeComparison()
    read: list[int] = []
    statistics = comparison.statistics
    comparison.statistics = lambda index: read.append(index) or statistics(index)  # type: ignore[method-assign]

    async with walking(comparison) as pilot:
        assert read
        assert {int(comparison.state[i]) for i in read} == {states.DIFFERS}
        del pilot


async def test_a_hidden_pane_reads_no_tensors() -> None:
    """On a narrow screen only the data flow is read, for the brackets; the tensors when the pane is opened."""
    comparison = FakeComparison()
    read: list[int] = []
    tensors = comparison.tensors
    comparison.statistics = lambda index: None  # type: ignore[method-assign]
    comparison.tensors = lambda index: read.append(index) or tensors(index)  # type: ignore[method-assign]

    async with walking(comparison, (80, 24)) as pilot:
        read.clear()
        await press(pilot, "j", "j")
        assert read == []
        assert screen(pilot).pane.flow is not None
        await press(pilot, "enter")
        assert read == [262]
        assert "min " in text_of(pilot)


async def test_the_mouse_does_what_keys_do() -> None:
    """A click moves the cursor, a second one on a folded stretch unfolds it, and the footer's keys can be clicked."""
    async with walking(FakeComparison(400), (120, 40)) as pilot:
        trace = screen(pilot).trace_list
        await pilot.click("#trace", offset=(10, 1))
        await settle(pilot)
        assert trace.line.folded
        await pilot.click("#trace", offset=(10, 1))
        await settle(pilot)
        assert len(trace.trace) == 400
        await pilot.click("#trace", offset=(10, 5))
        await settle(pilot)
        assert trace.index == 4
        await pilot.click("FooterKey")
        await settle(pilot)
        assert trace.index == 260


@pytest.mark.parametrize("size", [*SIZES, (120, 40)], ids=str)
async def test_titles_fit(size: tuple[int, int]) -> None:
    """Paths are cut at their starts, sentences are left out: no title is cut at its end."""
    comparison = FakeComparison()
    comparison.label_a = "/home/someone/experiments/transformers/2024-11/runs/base"
    comparison.label_b = "/home/someone/experiments/transformers/2024-11/runs/t16"

    async with walking(comparison, size) as pilot:
        lines = text_of(pilot).splitlines()
        assert "runs/base   B " in lines[0]
        assert "runs/t16 ─" in lines[0]
        assert not any("…─" in line for line in lines)
        await press(pilot, "p", "p", "p")
        assert "…─" not in text_of(pilot)


async def test_the_last_column_is_not_under_the_scroll_bar() -> None:
    """The unit of the largest distance that has room in the column is on the screen."""
    comparison = FakeComparison()
    found = comparison.statistics(260)
    assert found is not None
    comparison.statistics = lambda index: replace(found, max_ulp=11_947_676)  # type: ignore[method-assign]
    for size in ((60, 15), (80, 24), (100, 30), (120, 40)):
        async with walking(comparison, size) as pilot:
            assert "11 947 676 ULP" in text_of(pilot)


def luminance(colour: tuple[int, int, int]) -> float:
    """Return the relative luminance of a colour (WCAG 2.1)."""
    parts = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@pytest.mark.parametrize("name", ["dark", "light"])
async def test_every_row_can_be_read(name: str) -> None:
    """Every state stands out from its background, also under the cursor: contrast at least 3 to 1."""
    odd = {270: states.ONLY_A, 271: states.ONLY_B, 272: states.IGNORED}
    async with walking(FakeComparison(states_at=odd, failing=[262]), (120, 40), name) as pilot:
        trace = screen(pilot).trace_list
        for y in range(20):
            for segment in trace.render_line(y):
                style = segment.style
                if segment.text.strip() and style and style.color and style.bgcolor:
                    both = (luminance(style.color.get_truecolor()), luminance(style.bgcolor.get_truecolor()))
                    assert (max(both) + 0.05) / (min(both) + 0.05) >= 3, (y, segment)


async def test_a_list_of_a_million_records_folds_to_what_differs() -> None:
    """The list is virtual: its length is no matter."""
    async with walking(FakeComparison(1_000_000, first=999_000)) as pilot:
        assert "999 000" not in text_of(pilot)
        assert "… 998 998 equal records" in text_of(pilot)
        await press(pilot, "d", "G")
        assert screen(pilot).trace_list.index == 999_999


@pytest.mark.parametrize(
    ("name", "size", "keys"),
    [
        ("trace-120x40", (120, 40), ()),
        ("trace-80x24", (80, 24), ()),
        ("trace-60x15", (60, 15), ()),
        ("pane-80x24", (80, 24), ("enter",)),
        ("help-80x24", (80, 24), ("question_mark",)),
        ("search-100x30", (100, 30), ("slash", *"c_proj", "enter")),
    ],
)
async def test_golden(name: str, size: tuple[int, int], keys: tuple[str, ...], request: pytest.FixtureRequest) -> None:
    """The whole screen as text, as it was looked at and found good."""
    odd = {270: states.ONLY_A, 271: states.ONLY_B, 272: states.IGNORED}
    async with walking(FakeComparison(states_at=odd, failing=[262]), size) as pilot:
        await press(pilot, *keys)
        text = text_of(pilot)
    golden = GOLDENS / f"{name}.txt"
    if request.config.getoption("--update-goldens"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(text, encoding="utf-8")

    assert golden.read_text(encoding="utf-8") == text
