"""Every key of the trace screen, and everything that is made from the table of keys."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bisect_diverge.tui import keys, states
from bisect_diverge.tui.screens.bisect import BisectScreen
from bisect_diverge.tui.screens.help import HelpScreen
from bisect_diverge.tui.screens.walk import WalkScreen
from tests.tui.fake import FakeComparison
from tests.tui.screens import press, remarks, screen, settle, text_of, walking

DOCS = Path(__file__).parents[2] / "docs" / "keys.md"
SENT_BY_EVERY_TERMINAL = re.compile(
    r"[a-zA-Z0-9]|f\d+|up|down|left|right|home|end|page(up|down)|space|enter|escape|slash|question_mark|\w+_square_bracket"
)


def test_the_page_of_keys_is_made_from_the_table(request: pytest.FixtureRequest) -> None:
    """docs/keys.md is generated: --update-goldens writes it anew."""
    if request.config.getoption("--update-goldens"):
        DOCS.write_text(keys.markdown(), encoding="utf-8")

    assert DOCS.read_text(encoding="utf-8") == keys.markdown()


def test_no_key_is_bound_twice_and_every_terminal_sends_it() -> None:
    """Letters, digits, function keys, arrows, space, enter; nothing with ctrl or alt of our own."""
    for table in (keys.WALK, keys.BISECT, keys.HELP):
        names = [name for key in table for name in key.keys]

        assert len(names) == len(set(names))
        assert all(SENT_BY_EVERY_TERMINAL.fullmatch(name) for name in names)


def test_the_footer_has_at_most_six_entries() -> None:
    """A seventh would be cut off at 60 columns."""
    assert sum(bool(key.footer) for key in keys.WALK) == 6


def test_every_action_of_the_table_is_there() -> None:
    """A row of the table without its action would be a key that does nothing."""
    assert [key.action for key in keys.WALK if not hasattr(WalkScreen, f"action_{key.action}")] == []
    assert [key.action for key in keys.BISECT if not hasattr(BisectScreen, f"action_{key.action}")] == []
    assert [key.action for key in keys.HELP if not hasattr(HelpScreen, f"action_{key.action}")] == []


@pytest.mark.parametrize(
    "key", [name for key in keys.WALK for name in key.keys if key.action not in {"quit", "bisect"}]
)
async def test_every_key_leaves_a_screen_that_works(key: str) -> None:
    """Pressed at the start, each key is answered and the cursor can still be moved."""
    async with walking(FakeComparison(400), (80, 24)) as pilot:
        await press(pilot, key)
        await pilot.press("escape", "escape", "j")
        await settle(pilot)

        assert pilot.app.screen is screen(pilot)
        assert "▶ " in text_of(pilot)


async def test_moving() -> None:
    """Arrows and j k move by lines, pages by the height of the list, g and G to the ends."""
    async with walking(FakeComparison(1000), (80, 24)) as pilot:
        trace = screen(pilot).trace_list
        start = trace.cursor
        await press(pilot, "j", "down", "k")
        assert start + 1 == trace.cursor
        await press(pilot, "pagedown")
        assert start + trace.size.height == trace.cursor
        await press(pilot, "pageup", "up")
        assert start == trace.cursor
        await press(pilot, "G")
        assert len(trace.trace) - 1 == trace.cursor
        await press(pilot, "home")
        assert trace.cursor == 0


async def test_differences() -> None:
    """Keys n and N go from difference to difference, f and 0 to the first; at the ends a remark says so."""
    async with walking(FakeComparison(400, first=260, every=5), (80, 24)) as pilot:
        trace = screen(pilot).trace_list
        assert trace.index == 260
        await press(pilot, "n", "n", "n", "n", "n")
        assert trace.index == 266  # 265 is equal
        await press(pilot, "N")
        assert trace.index == 264
        await press(pilot, "G", "f")
        assert trace.index == 260
        await press(pilot, "N")
        assert "no difference before this" in remarks(pilot)
        await press(pilot, "g", "0")
        assert trace.index == 260


async def test_steps_and_micro_batches() -> None:
    """Keys s and S go by steps, m and M by micro-batches; both to the first line of the group."""
    async with walking(FakeComparison(600, first=0, every=1000), (80, 24)) as pilot:
        trace, comparison = screen(pilot).trace_list, screen(pilot).comparison
        await press(pilot, "s", "s")
        assert (comparison.step[trace.index], comparison.step[trace.index - 1]) == (2, 1)
        await press(pilot, "S")
        assert (comparison.step[trace.index], comparison.step[trace.index - 1]) == (1, 0)
        await press(pilot, "m", "m")
        record = comparison.pair(trace.index)[0]
        assert record is not None
        assert (record.address.micro_batch, record.address.slot) == ("1", "input.0")
        await press(pilot, "M", "M")
        record = comparison.pair(trace.index)[0]
        assert record is not None
        assert record.address.micro_batch == "-"
        await press(pilot, "G", "s")
        assert "no step after this" in remarks(pilot)


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (120, 40)], ids=str)
async def test_a_jump_leaves_room_below_the_cursor(size: tuple[int, int]) -> None:
    """What a key leads to stands near the top third, not on the last line; what is in sight does not scroll."""
    async with walking(FakeComparison(1200, first=260, every=1000), size) as pilot:
        trace = screen(pilot).trace_list
        await press(pilot, "n")
        assert trace.scroll_offset.y == 0
        for keys_pressed in (["s"], ["s"], ["m"], ["m"], ["M"], ["S"], ["G", "S"], ["g", "pagedown", "s"]):
            await press(pilot, *keys_pressed)
            assert trace.cursor - trace.scroll_offset.y <= trace.size.height // 2, keys_pressed
        await press(pilot, "G", "f", "G", "g", "s", "G", "f")
        assert trace.cursor == 3
        await press(pilot, "G", "pageup", "slash", *"wte", "enter", "N")
        assert trace.cursor - trace.scroll_offset.y <= trace.size.height // 2


async def test_a_search_shows_what_follows_a_match() -> None:
    """A match out of sight comes near the top third, also where a fold hid it."""
    async with walking(FakeComparison(600, first=500), (80, 24)) as pilot:
        trace = screen(pilot).trace_list
        await press(pilot, "g", "slash", *"lm_head", "enter", "n", "n", "n")
        assert trace.cursor - trace.scroll_offset.y <= trace.size.height // 2


async def test_data_flow() -> None:
    """The brackets follow the data flow, first of all to a record that differs; folded ones are unfolded."""
    async with walking(FakeComparison(400), (80, 24)) as pilot:
        trace = screen(pilot).trace_list
        await press(pilot, "right_square_bracket")
        assert trace.index == 261
        await press(pilot, "left_square_bracket")
        assert trace.index == 260
        await press(pilot, "left_square_bracket", "left_square_bracket")
        assert trace.index == 256
        assert not trace.line.folded
        await press(pilot, "d", "g", "left_square_bracket")
        assert "no input is known" in remarks(pilot)


async def test_folding() -> None:
    """Space unfolds one stretch and folds it again, d all of them; the inputs of the first divergence stay."""
    async with walking(FakeComparison(400), (80, 24)) as pilot:
        trace = screen(pilot).trace_list
        await press(pilot, "g")
        assert (trace.line.index, trace.line.last, trace.line.count) == (0, 257, 258)
        await press(pilot, "space")
        assert len(trace.trace) == 400
        await press(pilot, "j", "space")
        assert (trace.cursor, trace.line.count) == (0, 258)
        await press(pilot, "d")
        assert len(trace.trace) == 400
        assert "everything (d)" in text_of(pilot)
        await press(pilot, "d", "f", "space")
        assert len(trace.trace) == 143
        assert "only stretches of equal records fold" in remarks(pilot)


async def test_phases() -> None:
    """Key p shows one phase after the other and then all again."""
    async with walking(FakeComparison(400, first=0, every=1000), (80, 24)) as pilot:
        for phase, glyph in (
            ("data", "data"),
            ("forward", "fwd"),
            ("backward", "bwd"),
            ("optimizer", "opt"),
            ("rng", "rng"),
        ):
            await press(pilot, "p")
            text = text_of(pilot)
            assert f"{phase} only (p)" in text
            assert {glyph} == {line[4:8].strip() for line in text.splitlines()[7:-1] if line.strip()}
        await press(pilot, "p")
        assert "only (p)" not in text_of(pilot)


async def test_the_phase_stays_at_the_step() -> None:
    """Whatever a filter hides, the cursor stays at its step, and comes back to its record."""
    async with walking(FakeComparison(800, first=130, every=1000), (80, 24)) as pilot:
        trace, comparison = screen(pilot).trace_list, screen(pilot).comparison
        await press(pilot, "s", "s", "s", "j", "j", "j")
        index, step = trace.index, int(comparison.step[trace.index])
        assert step == 4
        for _ in range(5):
            await press(pilot, "p")
            assert f"trace · step {step} " in text_of(pilot)
            assert f"↑ step {step}" in text_of(pilot)
        await press(pilot, "p")
        assert index == trace.index


async def test_a_phase_that_folds_to_one_line_keeps_the_step() -> None:
    """The stretch may begin in the first step; the cursor still stands for the record it came from."""
    odd = dict.fromkeys((126 * n for n in range(7)), states.EQUAL)
    async with walking(FakeComparison(800, first=0, every=1000, states_at=odd), (80, 24)) as pilot:
        trace = screen(pilot).trace_list
        await press(pilot, "s", "s", "s", "j", "p")
        assert trace.line.folded
        assert "trace · step 3 " in text_of(pilot)
        await press(pilot, "space")
        assert int(screen(pilot).comparison.step[trace.index]) == 3


async def test_unfolding_everything_does_not_move_the_cursor() -> None:
    """Neither on the screen nor in the trace."""
    async with walking(FakeComparison(1200, first=500), (80, 24)) as pilot:
        trace = screen(pilot).trace_list
        await press(pilot, *"nnnnnnnn")
        before = trace.index, trace.cursor - trace.scroll_offset.y
        await press(pilot, "d")
        assert before == (trace.index, trace.cursor - trace.scroll_offset.y)
        await press(pilot, "d")
        assert before == (trace.index, trace.cursor - trace.scroll_offset.y)


async def test_search() -> None:
    """/ searches, enter keeps it, n and N go through the matches, also folded ones, esc ends it."""
    async with walking(FakeComparison(600), (80, 24)) as pilot:
        trace = screen(pilot).trace_list
        await press(pilot, "g", "slash", *"wte", "enter")
        assert "/wte: " in text_of(pilot)
        assert "wte" in str(screen(pilot).comparison.pair(trace.index)[0].address)
        first = trace.index
        await press(pilot, "n", "n", "N", "N")
        assert first == trace.index
        await press(pilot, "N")
        assert "no match before this" in remarks(pilot)
        await press(pilot, "escape")
        assert "/wte: " not in text_of(pilot)
        await press(pilot, "f", "slash", *"nowhere", "enter")
        assert "nothing matches nowhere" in remarks(pilot)
        await press(pilot, "slash", "escape")
        assert "matches" not in screen(pilot).trace_list.border_title
        await press(pilot, "slash", *"LayerNorm", "enter")
        assert screen(pilot).comparison.pair(trace.index)[0].module_type == "LayerNorm"


async def test_the_pane_in_full() -> None:
    """Enter opens the pane in full, the moving keys then scroll it, esc closes it; z opens what is in use."""
    for size in ((80, 24), (120, 40)):
        async with walking(FakeComparison(), size) as pilot:
            await press(pilot, "enter")
            assert "at the cursor" in text_of(pilot)
            assert not screen(pilot).trace_list.display
            await press(pilot, "j", "G", "g", "pagedown", "space", "escape")
            assert screen(pilot).trace_list.has_focus
            await press(pilot, "l")
            assert screen(pilot).pane.has_focus
            await press(pilot, "h")
            assert screen(pilot).trace_list.has_focus
            await press(pilot, "z")
            assert "FIRST DIVERGENCE" not in text_of(pilot)
            await press(pilot, "z")
            assert "≠ " in text_of(pilot).splitlines()[1]


async def test_copying() -> None:
    """Key y copies the address, Y the command: of one record, of the comparison at the first divergence."""
    async with walking(FakeComparison(states_at={261: states.ONLY_B}), (80, 24)) as pilot:
        await press(pilot, "Y")
        assert pilot.app.clipboard == "bd diff runs/base runs/t16 --from 3"
        await press(pilot, "j", "y")
        address = "r0/2/0/forward/model:transformer.h.1.attn.c_attn#0:output.0"
        assert address == pilot.app.clipboard
        await press(pilot, "Y")
        assert f"bd show runs/t16 '{address}'" == pilot.app.clipboard
        await press(pilot, "j", "Y")
        assert pilot.app.clipboard.startswith("bd show runs/base ")
        assert any(text.startswith("sent to the terminal's clipboard: ") for text in remarks(pilot))


async def test_help() -> None:
    """? and f1 show every key of the table, and esc goes back."""
    async with walking(FakeComparison(), (100, 30)) as pilot:
        await press(pilot, "f1", "down", "up", "pagedown", "pageup")
        shown = "\n".join(str(line) for line in pilot.app.screen.query("Static").first().render().split("\n"))
        for key in (*keys.WALK, keys.PALETTE):
            assert key.text in shown
        await press(pilot, "escape")
        assert pilot.app.screen is screen(pilot)


async def test_palette() -> None:
    """ctrl+p offers every action by name; choosing one does it."""
    async with walking(FakeComparison(), (100, 30)) as pilot:
        names = [command.title for command in pilot.app.get_system_commands(screen(pilot))]
        assert [*(key.name for key in keys.WALK), "Theme"] == names
        await press(pilot, "ctrl+p", *"to the last line", "enter", "enter")
        await settle(pilot)
        assert len(screen(pilot).trace_list.trace) - 1 == screen(pilot).trace_list.cursor


async def test_quitting() -> None:
    """Key q ends the program; ctrl+c says that it does; esc never does."""
    async with walking(FakeComparison(), (80, 24)) as pilot:
        await press(pilot, "escape", "escape", "ctrl+c")
        assert "q quits" in remarks(pilot)
        await pilot.press("q")
        assert pilot.app.return_code == 0


async def test_a_phase_filter_never_hides_where_a_key_leads() -> None:
    """The first divergence takes the filter away; the brackets say that it is in the way; esc leaves it."""
    async with walking(FakeComparison(400), (80, 24)) as pilot:
        trace = screen(pilot).trace_list
        await press(pilot, "p", "j", "right_square_bracket")
        assert any("data" in text and "p goes on" in text for text in remarks(pilot))
        await press(pilot, "slash", *"batch", "enter", "p")
        assert "forward only (p) · /batch: 0 matches" in text_of(pilot)
        await press(pilot, "n")
        assert "no match after this" in remarks(pilot)
        await press(pilot, "escape", "f")
        assert trace.index == 260
        await press(pilot, "slash", "enter")
        assert "matches" not in text_of(pilot)


async def test_an_equal_comparison_has_no_first_divergence() -> None:
    """The key says so."""
    async with walking(FakeComparison(400, first=-1), (80, 24)) as pilot:
        await press(pilot, "f", "n")
        assert remarks(pilot) == ["nothing differs", "no difference after this"]
