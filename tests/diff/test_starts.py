"""A window of steps (``--steps``) against a run that was under way before: its first rows have partners too."""

from pathlib import Path

import pytest

from bisect_diverge.diff.compare import compare
from bisect_diverge.diff.options import DiffOptions
from bisect_diverge.model.divergence import Divergence, DivergenceKind, Verdict
from bisect_diverge.model.run import RecordOptions, RunRecord
from bisect_diverge.store.reader import Run
from tests.helpers.runs import Row, training_rows, write_run

OPTIMIZER, FROZEN, BUFFER = "0.weight", "1.weight", "1.mean"


def rows_of(steps: int = 4) -> list[Row]:
    """Return a run with a weight that is updated, one that is not, and a buffer that moves."""
    rows = [row for row in training_rows(steps) if f"opt:{FROZEN}" not in row.address]
    rows.insert(0, Row(f"r0/0/-/init/model:{BUFFER}#0:buffer", "mean at first"))
    for step in range(steps):
        at = next(n for n, row in enumerate(rows) if row.address == f"r0/{step}/-/rng/-:#0:torch.cpu" and n > 4)
        rows.insert(at, Row(f"r0/{step}/-/optimizer/model:{BUFFER}#0:buffer", f"mean after {step}"))
    return [Row(row.address, row.value, flags=row.flags) for row in rows]  # edges by digest: rows have moved


def latest(rows: list[Row], name: str, step: int) -> str:
    """Return the value of a weight before the passes of a step."""
    found = [
        row.value
        for row in rows
        if f":{name}#0:" in row.address
        and row.address.rpartition(":")[2] in ("param", "buffer")
        and int(row.address.split("/")[1]) < step
    ]
    return str(found[-1])


def window(rows: list[Row], begin: int, **changed: str) -> list[Row]:
    """Return what `--steps BEGIN:` records of a run; `changed` has other values of initial rows, by slot."""
    starts = [(OPTIMIZER, "param"), (FROZEN, "param"), (BUFFER, "buffer")]
    init = [
        Row(f"r0/{begin}/-/init/model:{name}#0:{slot}", changed.get(name, latest(rows, name, begin)))
        for name, slot in starts
    ]
    return init + [row for row in rows if int(row.address.split("/")[1]) >= begin]


def judged(folder: Path, a: list[Row], b: list[Row], of_a: int = 0, of_b: int = 0, offset: int = 0) -> Divergence:
    """Return the comparison of two runs; `of_a` and `of_b` are the first steps that were recorded."""
    records = [RunRecord(options=RecordOptions(steps=(begin, None) if begin else None)) for begin in (of_a, of_b)]
    runs = [
        Run(write_run(folder / name, rows, record=record))
        for name, rows, record in zip("ab", (a, b), records, strict=True)
    ]
    with compare(*runs, DiffOptions(offset_b=offset)) as comparison:
        return comparison.divergence


@pytest.mark.parametrize("late", ["a", "b"])
def test_a_window_of_an_equal_run_is_equal_with_its_first_weights(tmp_path: Path, late: str):
    """What a window begins with is compared with what the whole run had by then; nothing of it is left over."""
    whole = rows_of()
    part = window(whole, 2)
    found = judged(tmp_path, *((part, whole, 2, 0) if late == "a" else (whole, part, 0, 2)))

    assert found.verdict is Verdict.EQUAL
    assert found.compared.records == len(part)
    assert found.compared.steps == 2
    assert found.compared.only_in_a == (0 if late == "a" else len(whole) - len(part))


@pytest.mark.parametrize("late", ["a", "b"])
@pytest.mark.parametrize("name", [OPTIMIZER, FROZEN, BUFFER])
def test_other_weights_of_a_window_are_blamed_and_no_module(tmp_path: Path, name: str, late: str):
    """An updated weight, a frozen one and a buffer are each found where the window begins; before it nobody knows."""
    whole = rows_of()
    part = window(whole, 2, **{name: "other"})
    found = judged(tmp_path, *((part, whole, 2, 0) if late == "a" else (whole, part, 0, 2)))

    assert found.kind is DivergenceKind.INITIALIZATION
    assert found.first is not None
    assert str(found.first.address).startswith(f"r0/2/-/init/model:{name}#0:")
    assert found.is_origin is None
    assert f"{late.upper()}'s recording begins in mid-run" in found.origin_reason


def test_two_windows_that_begin_at_different_steps(tmp_path: Path):
    """The later one is compared with what the earlier one had by then."""
    whole = rows_of(5)
    found = judged(tmp_path, window(whole, 1), window(whole, 3, **{OPTIMIZER: "other"}), 1, 3)

    assert found.first is not None
    assert str(found.first.address) == f"r0/3/-/init/model:{OPTIMIZER}#0:param"


def test_a_window_of_a_resumed_run(tmp_path: Path):
    """With an offset the weights of a window are those of A's step before it, not those before B's begin."""
    whole = rows_of(5)
    part = [
        Row(f"r0/{int(row.address.split('/')[1]) - 1}/{row.address.split('/', 2)[2]}", row.value)
        for row in window(whole, 3)
    ]
    found = judged(tmp_path, whole, part, 0, 2, offset=1)

    assert found.verdict is Verdict.EQUAL
    assert found.compared.records == len(part)


def test_a_change_that_the_first_pass_of_the_window_finds(tmp_path: Path):
    """The whole run has a row for weights changed between two updates; for a window they are its first weights."""
    whole = rows_of()
    at = next(n for n, row in enumerate(whole) if row.address == "r0/2/0/forward/model:#0:input.0")
    changed = [*whole[:at], Row(f"r0/2/0/forward/model:{FROZEN}#0:param", "loaded"), *whole[at:]]
    part = window(whole, 2, **{FROZEN: "loaded"})

    assert judged(tmp_path, changed, part, 0, 2).verdict is Verdict.EQUAL


def test_an_offset_is_proposed_from_the_first_step_of_a_window(tmp_path: Path):
    """A window that begins at its step 1 with A's weights after step 2 is resumed by 2; a plain window by nothing."""
    whole = rows_of(5)
    later = [
        Row(f"r0/{int(row.address.split('/')[1]) - 2}/{row.address.split('/', 2)[2]}", row.value)
        for row in window(whole, 3)
    ]
    assert any("--offset-b 2" in note for note in judged(tmp_path / "1", whole, later, 0, 1).notes)
    plain = window(whole, 3, **{FROZEN: "other"})
    assert not any("--offset-b" in note for note in judged(tmp_path / "2", whole, plain, 0, 3).notes)
