"""Rows that are left in the file are indexed like those read into memory."""

from pathlib import Path

import numpy as np
import pytest

from bisect_diverge.diff.compare import compare
from bisect_diverge.diff.options import DiffOptions
from bisect_diverge.store import rows as stored
from bisect_diverge.store.reader import Run, RunFile
from tests.helpers.runs import training_rows, write_run


@pytest.fixture
def left_in_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the rows of any recording in its file, and read them in small pieces."""
    monkeypatch.setattr(stored, "IN_MEMORY", 0)
    monkeypatch.setattr(stored, "BLOCK", 7)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a recording of 60 rows and more."""
    return write_run(tmp_path_factory.mktemp("rows") / "a", training_rows(3)) / "rank-00000.h5"


INDICES = [
    "digest0",
    "step",
    0,
    -1,
    np.int64(9),
    np.s_[:],
    np.s_[3:20],
    np.s_[-5:],
    np.s_[20:3],
    np.s_[::3],
    np.array([30, 2, 2, 29, -1, 8]),
    np.zeros(0, np.int64),
    [4, 5],
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_is_that_of_an_array(path: Path, left_in_file: None, monkeypatch: pytest.MonkeyPatch, index: object):
    """By column, row, slice and row numbers."""
    lazy = RunFile(path).events
    monkeypatch.setattr(stored, "IN_MEMORY", 1 << 20)
    whole = RunFile(path).events

    assert isinstance(lazy, stored.StoredRows)
    assert isinstance(whole, np.ndarray)
    assert len(lazy) == len(whole)
    for found, expected in ((lazy[index], whole[index]), (lazy[lazy["phase"] == 2], whole[whole["phase"] == 2])):
        assert (found.dtype, found.shape, found.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())
    with pytest.raises(IndexError):
        lazy[len(whole)]


CHANGE = {"r0/1/0/forward/model:1#0:output.0": "x"}


@pytest.mark.parametrize("options", [DiffOptions(), DiffOptions(ignore=("*:1#*",), growth=True, heat=True)])
def test_a_comparison_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: DiffOptions):
    """Of runs in the same order and of runs that are not."""
    paths = [
        write_run(tmp_path / name, rows)
        for name, rows in (
            ("a", training_rows()),
            ("b", training_rows(change=CHANGE)),
            ("c", training_rows(blocks=3, change=CHANGE)),
        )
    ]

    def answers() -> list[dict]:
        return [compare(Run(paths[0]), Run(other), options).divergence.to_json() for other in paths[1:]]

    in_memory = answers()
    monkeypatch.setattr(stored, "IN_MEMORY", 0)
    monkeypatch.setattr(stored, "BLOCK", 7)

    assert answers() == in_memory
