"""What the pane says of a record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from textual.content import Content

from bisect_diverge.model.record import Flag
from bisect_diverge.numerics.summary import Summary
from bisect_diverge.tui import describe, states
from bisect_diverge.tui.numbers import Values
from bisect_diverge.tui.records import Records, Row
from bisect_diverge.tui.source import Site
from tests.tui.fake import FakeComparison

SUMMARY = Summary(numel=64, minimum=-1.0, maximum=2.0, mean=0.25, nan=0, inf=1)


def text(lines: list[Content]) -> list[str]:
    """Return lines as plain text, without blanks at their ends."""
    return [line.plain.rstrip() for line in lines]


@pytest.fixture
def comparison() -> FakeComparison:
    """A comparison whose first divergence is record 260."""
    return FakeComparison(400, lost=[300], kept=False)


@pytest.fixture
def row(comparison: FakeComparison) -> Row:
    """Its first divergence."""
    return Records(comparison).at(260)


def test_the_head_names_the_record(row: Row, comparison: FakeComparison) -> None:
    """Name and type, moment and call, slot and shape, state, and at the first divergence the origin."""
    assert text(describe.head(row, comparison)) == [
        "model:transformer.h.1.ln_1   LayerNorm",
        "step 2 · micro-batch 0 · forward · call 0",
        "output.0 · float32 [4, 16, 8]",
        "≠ differs",
        "everything that went into it is equal",
    ]


def test_what_is_special_about_a_record_is_said(row: Row, comparison: FakeComparison) -> None:
    """Flags of either side, and another dtype or shape."""
    assert row.a is not None
    assert row.b is not None
    of_b = replace(row.b, flags=Flag.SKIPPED | Flag.ON_DEVICE, shape=(3,))
    odd = Row(261, states.DIFFERS, replace(row.a, flags=Flag.HOOKED), of_b)
    head = text(describe.head(odd, comparison))

    assert "≠ differs: f32[4,16,8] → f32[3]" in head
    assert "the module has hooks of its own, which may replace this output" in head
    assert "the update was skipped by GradScaler" in head
    assert "its digest was made on an accelerator" in head
    none = Values(None, None, None, ())
    assert "no comparison by element: dtype or shape differ" in text(describe.values(odd, none, 40))


def test_without_tensors_the_digests_are_compared(row: Row) -> None:
    """And the value, where there is exactly one."""
    assert text(describe.values_without_tensors(row, 46)) == [
        "        A               B",
        "digest  aaaa…aaaa       bbbb…bbbb       ≠",
        "",
        "only a digest was kept in A and B",
    ]
    assert row.a is not None
    assert row.b is not None
    one = replace(row, a=replace(row.a, value=2.5, kept=True), b=replace(row.b, value=2.75))
    lines = text(describe.values_without_tensors(one, 46))
    assert lines[1] == "value   2.5             2.75            ≠"
    assert lines[-1] == "only a digest was kept in B"


def test_one_tensor_is_described_too(row: Row) -> None:
    """Where only one run kept it, its numbers stand alone."""
    lines = text(describe.values(row, Values(SUMMARY, None, None, ()), 46))

    assert lines[1:5] == [
        "min     -1              -",
        "max     2               -",
        "mean    0.25            -",
        "nan/inf 0 / 1           -",
    ]
    assert lines[-1] == "only a digest was kept in B"


def test_equal_and_unequal_numbers_are_told_apart_by_value(row: Row) -> None:
    """Numbers that look the same in few digits but are not are marked as different."""
    other = replace(SUMMARY, maximum=2.0 + 1e-12, minimum=None)
    lines = text(describe.values(row, Values(SUMMARY, other, None, ()), 30))

    assert lines[1].split() == ["min", "-1", "-", "≠"]
    assert lines[2].split() == ["max", "2", "2", "≠"]
    assert lines[3].split() == ["mean", "0.25", "0.25", "="]


def test_elements(row: Row) -> None:
    """How many differ, where the first is, how far they are apart, and what that looks like."""
    found = FakeComparison().statistics(260)
    assert found is not None
    statistics = replace(found, max_rel=3e-7, first_index=(0, 1, 2))
    histogram = (("0", 487), ("1", 0), ("2-3", 25))
    lines = text(describe.values(row, Values(SUMMARY, SUMMARY, statistics, histogram), 46))

    assert lines[-6:] == [
        "25 of 512 elements differ",
        "the first at [0, 1, 2]",
        "at most 2 ULP",
        "|Δ| ≤ 2.4e-07   relative ≤ 3e-07",
        "ULP  0: 487  1: 0  2-3: 25",
        "pattern: reduction-order?",
    ]
    bare = replace(statistics, max_abs=None, max_ulp=None, signature="")
    lines = text(describe.values(row, Values(SUMMARY, SUMMARY, bare, ()), 46))
    assert lines[-1] == "the first at [0, 1, 2]"


def test_numbers_of_elements_fit_the_pane(row: Row) -> None:
    """Large ones become compact; no line is broken inside a number."""
    found = FakeComparison().statistics(260)
    assert found is not None
    statistics = replace(found, max_ulp=2**63, differing=1_234_567_890, numel=12_345_678_901)
    histogram = tuple((label, 1_234_567_890) for label in ("0", "1", "2-3", "4-15", "16+"))
    many = replace(SUMMARY, nan=1_234_567)
    lines = text(describe.values(row, Values(many, SUMMARY, statistics, histogram), 34))

    assert all(len(line) <= 36 for line in lines)
    assert "1.2e9 of 1.2e10 differ" in lines
    assert "at most 9.2e18 ULP" in lines
    assert "nan/inf 1.2e6 / 1   0 / 1       ≠" in lines
    assert [line for line in lines if "1.2e9" in line and ":" in line] == [
        "ULP  0: 1.2e9  1: 1.2e9",
        "     2-3: 1.2e9  4-15: 1.2e9",
        "     16+: 1.2e9",
    ]


def test_long_data_flows_say_what_they_leave_out(comparison: FakeComparison) -> None:
    """Eight neighbours are listed; one that cannot be read is one of them."""
    lines = text(describe.links([300, *range(255, 265)], [], Records(comparison), 60))

    assert lines[0] == "in  ! the file is cut off"
    assert lines[-1] == "in  … 3 more"
    assert text(describe.links([], [], Records(comparison), 60)) == ["none known"]


def test_the_source(tmp_path: Path) -> None:
    """Where, and what the file says there now."""
    path = tmp_path / "m.py"
    path.write_text("a\n  b()  \n")

    assert text(describe.source(None)) == ["not known"]
    assert text(describe.source(Site(path, 2))) == [f"{path}:2", "> b()"]
    assert text(describe.source(Site(path, 3))) == [f"{path}:3", "this line is not here"]
