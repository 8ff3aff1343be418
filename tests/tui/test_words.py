"""How records, verdicts and steps are written."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from bisect_diverge.model.address import Address
from bisect_diverge.model.divergence import Compared, Divergence, Place, Side, Verdict
from bisect_diverge.model.record import Flag, TensorRecord
from bisect_diverge.tui import states, words
from bisect_diverge.tui.comparison import Comparison
from bisect_diverge.tui.records import Records, Row
from bisect_diverge.tui.trace import Line
from bisect_diverge.tui.widgets import verdict_bar
from bisect_diverge.tui.widgets.step_bar import Steps
from tests.tui.fake import FakeComparison

RECORD = TensorRecord(
    row=0,
    address=Address.parse("r0/3/1/forward/model:blocks.2.attn#1:output.0"),
    module_type="Attention",
    site="train.py:41",
    dtype="float32",
    shape=(4, 64),
    digest="0" * 32,
    flags=Flag(0),
    value=float("nan"),
    source=-1,
    kept=True,
)


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("model:h.10.attn.c_proj", 22, "model:h.10.attn.c_proj"),
        ("model:h.10.attn.c_proj", 21, "…h.10.attn.c_proj"),
        ("model:h.10.attn.c_proj", 14, "…attn.c_proj"),
        ("model:h.10.attn.c_proj", 5, "…proj"),
        ("optimizer:head.weight", 12, "…head.weight"),
        ("model:norm1.running_mean", 16, "…m1.running_mean"),
        ("model:norm12.running_mean", 15, "…running_mean"),
        ("/home/someone/runs/base", 12, "…runs/base"),
        ("averyverylongname", 6, "…gname"),
        ("模型.模型.层", 6, "…层"),
        ("a.b", 0, ""),
    ],
)
def test_names_are_cut_at_their_start(text: str, width: int, expected: str) -> None:
    """The end of a name tells more than its start; it is cut between two names where one is near."""
    assert words.shorten_left(text, width) == expected


@given(st.text(max_size=40), st.integers(0, 30))
def test_everything_fits(text: str, width: int) -> None:
    """Whatever the text and its width in cells, a cell of the list is exactly as wide as it has to be."""
    clean = words.plain(text)

    assert cell_len(words.fit(clean, width)) == width
    assert cell_len(words.shorten_left(clean, width)) <= width
    assert clean.isprintable()


@pytest.mark.parametrize(
    ("slot", "width", "expected"),
    [
        ("output.0", 12, "output.0"),
        ("state.exp_avg", 13, "state.exp_avg"),
        ("state.exp_avg", 12, "…exp_avg"),
        ("state.exp_avg_sq", 12, "…exp_avg_sq"),
        ("state.momentum_buffer", 12, "momen…buffer"),
        ("input.attention_mask", 12, "input…n_mask"),
        ("output.attention_mask", 12, "outpu…n_mask"),
        ("input.attention_mask", 0, ""),
    ],
)
def test_slots_are_cut_in_their_middle(slot: str, width: int, expected: str) -> None:
    """Where a slot starts and where it ends both tell it from others; `state.` does not."""
    assert words.shorten_slot(slot, width) == expected


@given(st.text(max_size=40), st.integers(0, 30))
def test_short_slots_fit(slot: str, width: int) -> None:
    """Whatever the slot."""
    assert cell_len(words.shorten_slot(words.plain(slot), width)) <= width


@pytest.mark.parametrize("width", [59, 71, 79])
def test_slots_of_an_optimizer_look_different(width: int) -> None:
    """The name is cut before the slot, so that the two moments of Adam are told apart at every width."""
    rests = []
    for slot in ("state.exp_avg", "state.exp_avg_sq", "state.max_exp_avg_sq"):
        address = replace(RECORD.address, root="optimizer", fqn="h.10.attn.c_proj.weight", call=0, slot=slot)
        record = replace(RECORD, address=address)
        rests.append(words.Layout(width, 5).cells(Row(0, states.EQUAL, record, record), None, ranks=False)[1])

    assert len(set(rests)) == 3
    assert all(cell_len(rest) == width - 4 and "weight " in rest for rest in rests)
    assert "exp_avg_sq" in rests[1]
    assert "max_exp_avg_sq" in rests[2]


@pytest.mark.parametrize(
    ("number", "room", "expected"),
    [(0, 1, "0"), (49_152, 6, "49 152"), (49_152, 5, "4.9e4"), (1_671_430_144, 12, "1.7e9"), (2**63, 7, "9.2e18")],
)
def test_numbers_are_exact_where_they_fit(number: int, room: int, expected: str) -> None:
    """Else two digits and the power of ten."""
    assert words.compact(number, room) == expected


def test_two_paths_share_the_room() -> None:
    """A short one leaves its cells to the long one; both are cut at their starts."""
    assert words.shorten_both("a", "/long/path/runs/b", 18) == ("a", "/long/path/runs/b")
    assert words.shorten_both("/long/path/runs/a", "b", 18) == ("/long/path/runs/a", "b")
    assert words.shorten_both("/long/path/runs/a", "/long/path/runs/b", 19) == ("…runs/a", "…path/runs/b")


def test_what_a_terminal_would_act_on_is_replaced() -> None:
    """An escape or a bidirectional mark in a name must not reach the screen."""
    assert words.plain("a\x1b[31m\u202eb\ud800") == "a\ufffd[31m\ufffdb\ufffd"


def test_addresses() -> None:
    """Root, FQN and call; what is empty or 0 is left out."""
    assert words.name_of(RECORD.address) == "model:blocks.2.attn#1"
    assert words.name_of(replace(RECORD.address, fqn="", call=0)) == "model"
    assert words.slot_of(RECORD.address) == "output.0"
    assert words.step_of(RECORD.address, ranks=True) == "r0 3/1"
    assert words.moment(RECORD.address) == "step 3 · micro-batch 1 · forward"
    assert words.moment(replace(RECORD.address, micro_batch="-")) == "step 3 · forward"


def test_the_last_column() -> None:
    """What is known of a record in few characters: its type, its value, how it differs, why it has no partner."""
    found = FakeComparison().statistics(260)
    assert found is not None
    one = replace(RECORD, shape=(), value=2.5)
    other = replace(RECORD, dtype="bfloat16")
    for state, a, b, statistics, expected in (
        (states.EQUAL, RECORD, RECORD, None, "f32[4,64]"),
        (states.EQUAL, one, one, None, "2.5"),
        (states.DIFFERS, RECORD, RECORD, None, "f32[4,64]"),
        (states.DIFFERS, RECORD, RECORD, found, "2 ULP"),
        (states.DIFFERS, RECORD, RECORD, replace(found, max_ulp=None, differing=3), "3 of 512"),
        (states.DIFFERS, one, replace(one, value=2.75), None, "2.5 → 2.75"),
        (states.DIFFERS, RECORD, other, None, "f32[4,64] → bf16[4,64]"),
        (states.ONLY_A, RECORD, None, None, "only in A"),
        (states.ONLY_B, None, RECORD, None, "only in B"),
        (states.IGNORED, RECORD, RECORD, None, "ignored"),
    ):
        assert words.detail_of(Row(0, state, a, b), statistics) == expected
    assert words.detail_of(Row(0, states.UNREADABLE, None, None, "cut off"), None) == "cut off"


def test_the_last_column_keeps_its_units() -> None:
    """Numbers become compact before their unit is cut off."""
    found = FakeComparison().statistics(260)
    assert found is not None
    one = replace(RECORD, shape=(), value=2.302585092)
    large = replace(RECORD, shape=(512, 1024, 1024))
    for a, b, statistics, expected in (
        (RECORD, RECORD, replace(found, max_ulp=11_947_676), "11 947 676 ULP"),
        (RECORD, RECORD, replace(found, max_ulp=1_671_430_144), "1.7e9 ULP"),
        (RECORD, RECORD, replace(found, max_ulp=2**63), "9.2e18 ULP"),
        (RECORD, RECORD, replace(found, max_ulp=None, differing=20_055, numel=32_768), "2.0e4 of 3.3e4"),
        (one, replace(one, value=2.302604), None, "Δ 1.9e-05"),
        (RECORD, replace(RECORD, dtype="bfloat16"), None, "f32 → bf16"),
        (RECORD, large, None, "other shape"),
    ):
        detail = words.detail_of(Row(0, states.DIFFERS, a, b), statistics, 14)
        assert detail == expected
        assert cell_len(detail) <= 14


def test_folded_stretches() -> None:
    """How many records of which kind, and which steps."""
    assert words.fold_of(Line(0, 9, 1204, 0), 0, 2) == "… 1 204 equal records, steps 0–2"
    assert words.fold_of(Line(0, 9, 10, 3), 4, 4) == "… 7 equal records, 3 ignored, step 4"
    assert words.fold_of(Line(0, 9, 10, 10), 4, 4) == "… 10 ignored, step 4"


@pytest.mark.parametrize("width", range(40, 130, 7))
def test_rows_are_as_wide_as_the_list(width: int) -> None:
    """Glyph, space and rest fill the line behind the cursor's column."""
    comparison = FakeComparison(300, lost=[263])
    records = Records(comparison)
    for index in range(255, 270):
        _, rest = words.Layout(width, 5).cells(records.at(index), None, ranks=False)
        assert cell_len(rest) == width - 4


def test_verdicts() -> None:
    """Each verdict is a sentence of its own."""
    compared = Compared(steps=10, records=5490)
    for verdict, expected in (
        (Verdict.EQUAL, "= EQUAL  5 490 records in 10 steps, bit for bit the same"),
        (Verdict.EQUAL_SO_FAR, "= EQUAL SO FAR  5 490 records in 10 steps, bit for bit"),
        (Verdict.NOT_COMPARABLE, "? NOT COMPARABLE  the runs share no record"),
        (Verdict.DIVERGED, "≠ DIVERGED"),
    ):
        first, second = verdict_bar.lines(
            Divergence(verdict=verdict, compared=compared, notes=("generator unused",)), 100
        )
        assert first == expected
        assert second.strip() in ("generator unused", "a run is unfinished or limited")


@pytest.mark.parametrize("width", [58, 78, 98, 118])
def test_the_verdict_fits(width: int) -> None:
    """Both lines have room at every width; the name is cut, facts are left out whole."""
    for comparison in (FakeComparison(), FakeComparison(kept=False), FakeComparison(states_at={260: states.ONLY_A})):
        first, second = verdict_bar.lines(comparison.divergence, width)
        assert max(cell_len(first), cell_len(second)) <= width
        assert "…" not in second


def bar(comparison: Comparison, room: int, distance: dict[int, float] | None = None) -> str:
    """Return the glyphs of a step bar."""
    steps = Steps.of(comparison)
    known = np.full(len(steps.total), -1.0)
    for place, value in (distance or {}).items():
        known[place] = value
    return steps.glyphs(steps.cells(room), known) if len(steps.total) else ""


def test_steps() -> None:
    """One glyph a step: equal, the first that differs, the share that differs."""
    comparison = FakeComparison(1260, first=400, every=3)

    assert bar(comparison, 80) == "===≠▆▆▆▆▆▆"
    assert bar(comparison, 5) == "=≠▆▆▆"
    assert bar(comparison, 0) == ""
    assert bar(FakeComparison(0), 80) == ""


def test_steps_grow_with_the_distance() -> None:
    """Where ULP distances are known their logarithm is the height; where not, only that the step differs."""
    comparison = FakeComparison(1260, first=400)

    assert bar(comparison, 80, {3: 1, 4: 1, 5: 100, 6: 10_000, 8: 0}) == "===≠▁▅█≠▁≠"


def test_steps_without_partner_or_not_compared() -> None:
    """Every state of a step has its glyph."""
    odd = dict.fromkeys(range(126), states.IGNORED) | {126: states.ONLY_B}

    assert bar(FakeComparison(378, first=-1, states_at=odd), 80) == "·?="


def test_the_verdict_says_why_a_record_without_inputs_is_an_origin() -> None:
    """What is fed in from outside has no inputs that could be equal."""
    first = Address.parse("r0/0/0/forward/model:#0:input.0")
    place = Place(address=first, side=Side.BOTH, module_type="", site="")
    reasons = {
        "it is fed in from outside: no recorded tensor is known to have gone into it": "it is fed in from outside",
        "its 1 input and everything recorded inside that call are equal": "its inputs are equal",
    }
    for reason, said in reasons.items():
        found = Divergence(verdict=Verdict.DIVERGED, first=place, is_origin=True, origin_reason=reason)
        assert verdict_bar.lines(found, 80)[1].startswith(f"  {said}")
