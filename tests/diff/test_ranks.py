"""Runs of several ranks."""

from pathlib import Path

from bisect_diverge.diff.compare import compare
from bisect_diverge.model.divergence import Divergence, Verdict
from bisect_diverge.model.run import RunRecord
from bisect_diverge.store.reader import Run
from tests.helpers.compare import compare_rows, first_address
from tests.helpers.runs import Row, training_rows, write_run


def both(**changes: dict[str, str]) -> list[Row]:
    """Return rows of two ranks; `rank0` and `rank1` are changes of each."""
    return [*training_rows(2, change=changes.get("rank0")), *training_rows(2, rank=1, change=changes.get("rank1"))]


def divergence_of(folder: Path, b: list[Row], world_size: int = 2) -> Divergence:
    """Return the divergence of two distributed runs."""
    record = RunRecord(world_size=world_size)
    runs = [Run(write_run(folder / name, rows, record=record)) for name, rows in (("a", both()), ("b", b))]
    with compare(*runs) as comparison:
        return comparison.divergence


def test_the_earliest_step_counts_then_the_lowest_rank(tmp_path: Path):
    """A later difference on rank 0 does not hide an earlier one on rank 1."""
    b = both(rank0={"r0/1/-/data/train:#0:batch.0": "x"}, rank1={"r1/0/0/forward/model:1#0:output.0": "x"})

    assert first_address(compare_rows(tmp_path, both(), b)) == "r1/0/0/forward/model:1#0:output.0"


def test_a_summed_gradient_is_explained_by_another_rank(tmp_path: Path):
    """Rank 0's gradient differs because rank 1's batch does: it is no origin."""
    b = both(rank0={"r0/0/-/optimizer/opt:0.weight#0:grad": "sum"}, rank1={"r1/0/-/data/train:#0:batch.0": "other"})
    divergence = divergence_of(tmp_path, b)

    assert divergence.first is not None
    assert str(divergence.first.address) == "r0/0/-/optimizer/opt:0.weight#0:grad"
    assert divergence.is_origin is False
    assert "r1/0/-/data/train:#0:batch.0" in divergence.origin_reason


def test_a_summed_gradient_is_undetermined_while_a_rank_is_missing(tmp_path: Path):
    """With a rank that was not recorded, its share is not known."""
    change = {"r0/0/-/optimizer/opt:0.weight#0:grad": "sum"}
    divergence = divergence_of(tmp_path, both(rank0=change), world_size=3)

    assert divergence.is_origin is None


def test_a_summed_gradient_is_an_origin_where_all_ranks_are_equal_before(tmp_path: Path):
    """All backward passes are equal on all ranks: the reduction, or the backward pass, begins it."""
    change = {"r0/0/-/optimizer/opt:0.weight#0:grad": "sum"}
    divergence = divergence_of(tmp_path, both(rank0=change))

    assert divergence.is_origin is True


def test_ranks_of_one_run_only_are_noted(tmp_path: Path):
    """Common ranks are compared, the others named."""
    divergence = compare_rows(tmp_path, both(), training_rows(2)).divergence

    assert divergence.verdict is Verdict.EQUAL
    assert "only A has rank 1: not compared" in divergence.notes


def test_a_second_process_of_a_rank_is_noted(tmp_path: Path):
    """Further files of one rank are not compared."""
    a, b = (write_run(tmp_path / name, training_rows(1)) for name in "ab")
    (b / "rank-00000.1.h5").write_bytes((b / "rank-00000.h5").read_bytes())
    divergence = compare(Run(a), Run(b)).divergence

    assert divergence.verdict is Verdict.EQUAL
    assert any("rank-00000.1.h5" in note for note in divergence.notes)
