"""Phase, micro-batch and text of all records, from real files and record by record."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bisect_diverge.diff.compare import compare
from bisect_diverge.model.address import Phase
from bisect_diverge.store.reader import Run
from bisect_diverge.tui.columns import Columns, of_files, of_records
from bisect_diverge.tui.reader import StoppedError
from tests.helpers.runs import training_rows, write_run
from tests.tui.fake import FakeComparison


def texts(columns: Columns) -> list[str]:
    """Return the text of each record."""
    return [columns.texts[number] for number in columns.text]


def test_files_and_records_say_the_same(tmp_path: Path) -> None:
    """Whole columns out of the index hold what the records hold, on every rank and on both sides."""
    rows_a = [row for rank in range(2) for row in training_rows(rank=rank)]
    rows_b = [row for row in rows_a if "grad_output" not in row.address]
    rows_b[5:5] = training_rows(1, blocks=3)[3:4]
    a, b = write_run(tmp_path / "a", rows_a), write_run(tmp_path / "b", rows_b)

    with Run(a) as run_a, Run(b) as run_b:
        comparison = compare(run_a, run_b)
        fast = of_files(run_a, run_b)(comparison, lambda: False, lambda _: None)
        slow = of_records(comparison, lambda: False, lambda _: None)

    assert set(comparison.state) >= {0, 2}
    assert np.array_equal(slow.phase, fast.phase)
    assert np.array_equal(slow.micro_batch, fast.micro_batch)
    assert texts(slow) == texts(fast)


def test_what_cannot_be_read_matches_nothing() -> None:
    """One lost record does not end the search in the others."""
    columns = of_records(FakeComparison(50, lost=[3]), lambda: False, lambda _: None)

    assert columns.phase[3] == 255
    assert texts(columns)[3] == ""
    assert len(columns.matching("/")) + len(columns.matching("nowhere")) == 49
    assert Phase.DATA in columns.phases()


def test_capitals_count_when_there_are_some() -> None:
    """`layernorm` finds LayerNorm, `LAYERnorm` does not."""
    columns = of_records(FakeComparison(50), lambda: False, lambda _: None)

    assert len(columns.matching("LayerNorm"))
    assert columns.matching("LayerNorm").tolist() == columns.matching("layernorm").tolist()
    assert columns.matching("LAYERnorm").tolist() == []
    assert columns.of_phase(Phase.FORWARD)[columns.matching("forward/")].all()


def test_reading_stops_when_nobody_waits(tmp_path: Path) -> None:
    """Both ways look whether they are still wanted."""
    path = write_run(tmp_path / "a", training_rows())
    with pytest.raises(StoppedError):
        of_records(FakeComparison(50), lambda: True, lambda _: None)
    with Run(path) as run, pytest.raises(StoppedError):
        of_files(run, run)(FakeComparison(50), lambda: True, lambda _: None)


def test_no_records_no_columns() -> None:
    """An empty trace can be searched like any other."""
    columns = of_records(FakeComparison(0, first=-1), lambda: False, lambda _: None)

    assert columns.matching("x").tolist() == []
    assert columns.phases() == []
