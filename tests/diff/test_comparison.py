"""What the comparison tells of each row of the merged trace."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bisect_diverge.diff.comparison import Comparison
from bisect_diverge.diff.trace import RowState
from bisect_diverge.model.record import Flag
from tests.helpers.compare import compare_rows
from tests.helpers.runs import Row, training_rows

CHANGE = {"r0/1/0/forward/model:1#0:output.0": "x"}
ROWS = training_rows()
AT = {row.address: number for number, row in enumerate(ROWS)}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comparison]:
    """Return the comparison of two runs that diverge in step 1."""
    with compare_rows(tmp_path_factory.mktemp("runs"), ROWS, training_rows(change=CHANGE)) as comparison:
        yield comparison


def at(address: str) -> int:
    """Return the place in the trace of an address of step 1."""
    return AT[f"r0/1/{address}"]


def test_arrays_have_one_entry_for_each_row(result: Comparison):
    """All arrays are equally long and of the promised types."""
    n = len(ROWS)

    assert (len(result.row_a), len(result.row_b), len(result.state)) == (n, n, n)
    assert (result.row_a.dtype, result.row_b.dtype) == (np.int64, np.int64)
    assert (result.state.dtype, result.step.dtype, result.rank.dtype) == (np.uint8, np.int32, np.int32)
    assert result.step.tolist() == [int(row.address.split("/")[1]) for row in ROWS]


def test_labels_are_the_paths(result: Comparison):
    """Each side is named after its path."""
    assert result.label_a.endswith("/a")
    assert result.label_b.endswith("/b")


def test_first_is_the_place_of_the_first_divergence(result: Comparison):
    """The index leads to the record that the divergence names."""
    record, _ = result.pair(result.first)

    assert record is not None
    assert result.divergence.first is not None
    assert record.address == result.divergence.first.address
    assert result.state[result.first] == RowState.DIFFERS


def test_pair_returns_the_records_of_both_runs(result: Comparison):
    """Each side's record has its own digest."""
    a, b = result.pair(result.first)

    assert a is not None
    assert b is not None
    assert a.address == b.address
    assert a.digest != b.digest


def test_tensors_and_statistics_belong_to_the_row(result: Comparison):
    """The arrays are what was recorded, and the statistics are theirs."""
    a, b = result.tensors(result.first)

    assert a is not None
    assert b is not None
    np.testing.assert_array_equal(ROWS[result.first].array(), a)
    assert result.statistics(result.first) == result.divergence.tensor
    equal = result.statistics(0)
    assert equal is not None
    assert (equal.differing, equal.signature, equal.first_index) == (0, "equal", ())


@pytest.mark.parametrize(
    ("row", "producers"),
    [
        ("0/forward/model:#0:input.0", ["-/data/train:#0:batch.0"]),
        ("0/forward/model:0#0:input.0", ["-/data/train:#0:batch.0"]),
        ("0/forward/model:0#0:output.0", ["0/forward/model:0#0:input.0"]),
        ("0/forward/model:1#0:input.0", ["0/forward/model:0#0:output.0"]),
        ("0/forward/model:#0:output.0", ["0/forward/model:#0:input.0", "0/forward/model:1#0:output.0"]),
        ("0/forward/loss_fn:#0:input.0", ["0/forward/model:#0:output.0"]),
        ("0/forward/loss_fn:loss#0:value", ["0/forward/loss_fn:#0:output.0"]),
        ("0/backward/model:0#0:grad_output.0", ["0/backward/model:1#0:grad_output.0"]),
        ("0/backward/model:#0:grad_output.0", ["0/backward/loss_fn:#0:grad_output.0"]),
        ("-/optimizer/opt:1.weight#0:grad", ["0/backward/model:1#0:grad_output.0"]),
        ("-/optimizer/opt:1.weight#0:param", ["-/optimizer/opt:1.weight#0:grad"]),
        ("-/data/train:#0:batch.0", []),
        ("-/optimizer/opt:group0#0:lr", []),
        ("-/rng/-:#0:torch.cpu", []),
    ],
)
def test_producers_follow_the_data(result: Comparison, row: str, producers: list[str]):
    """A row's producers are what it was made from, in the forward, backward and update direction."""
    assert result.producers(at(row)) == [at(address) for address in producers]


def test_consumers_are_the_inverse_of_producers(result: Comparison):
    """A row is among the consumers of exactly its producers, within each step."""
    n = len(ROWS)
    made_from = {(made, source) for made in range(n) for source in result.producers(made)}
    made_into = {(made, source) for source in range(n) for made in result.consumers(source)}

    assert made_from == made_into


def test_consumers_of_a_residual_are_all_its_users(tmp_path: Path):
    """A tensor that two calls use has both as consumers."""
    rows = [
        ("r0/0/0/forward/model:0#0:output.0", "x"),
        ("r0/0/0/forward/model:1#0:input.0", "x", "", 0),
        ("r0/0/0/forward/model:2#0:input.0", "x", "", 1),
    ]
    with compare_rows(tmp_path, rows, rows) as comparison:
        assert comparison.consumers(0) == [1, 2]


def test_equal_scalars_are_not_edges(tmp_path: Path):
    """Two Python numbers that happen to be equal are not the same tensor."""
    scalar = int(Flag.SCALAR)
    rows = [
        Row("r0/0/0/forward/model:0#0:kwarg.scale", 1.0, flags=scalar),
        Row("r0/0/0/forward/model:1#0:kwarg.scale", 1.0, flags=scalar),
    ]
    with compare_rows(tmp_path, rows, rows) as comparison:
        assert comparison.producers(1) == []


def test_rows_of_one_run_alone_have_one_record(tmp_path: Path):
    """A row without partner stands behind its predecessor, with None on the other side."""
    a = [("r0/0/0/forward/m:0#0:input.0", "p"), ("r0/0/0/forward/m:2#0:input.0", "q")]
    b = [a[0], ("r0/0/0/forward/m:1#0:input.0", "r"), a[1]]
    with compare_rows(tmp_path, a, b) as comparison:
        assert comparison.state.tolist() == [RowState.EQUAL, RowState.ONLY_B, RowState.EQUAL]
        assert comparison.row_a.tolist() == [0, -1, 1]
        assert comparison.row_b.tolist() == [0, 1, 2]
        assert comparison.pair(1)[0] is None
        assert comparison.tensors(1)[0] is None
        assert comparison.statistics(1) is None
        assert comparison.first == 1


def test_tensors_kept_in_the_baseline_are_read_from_it(tmp_path: Path):
    """A B recorded against A has no copy of what is equal there."""
    address = "r0/0/0/forward/m:#0:input.0"
    b = [Row(address, "x", flags=int(Flag.IN_BASELINE))]
    with compare_rows(tmp_path, [(address, "x")], b, keep_bytes=0) as comparison:
        of_a, of_b = comparison.tensors(0)

        assert of_a is not None
        assert of_b is not None
        np.testing.assert_array_equal(of_a, of_b)


def test_ranks_follow_one_another(tmp_path: Path):
    """The traces of several ranks are joined, and indices lead to the right file."""
    a = [*training_rows(2), *training_rows(2, rank=1)]
    b = [*training_rows(2), *training_rows(2, rank=1, change={"r1/1/0/forward/model:0#0:output.0": "x"})]
    with compare_rows(tmp_path, a, b) as comparison:
        assert comparison.rank.tolist() == [0] * (len(a) // 2) + [1] * (len(a) // 2)
        assert comparison.divergence.first is not None
        assert comparison.divergence.first.address.rank == 1
        record, _ = comparison.pair(comparison.first)
        assert record is not None
        assert str(record.address) == "r1/1/0/forward/model:0#0:output.0"
        assert all(index >= len(a) // 2 for index in comparison.consumers(comparison.first))


def test_the_trace_of_incomparable_runs_is_empty(tmp_path: Path):
    """Without a common rank there are no rows and no first divergence."""
    with compare_rows(tmp_path, training_rows(1), training_rows(1, rank=1)) as comparison:
        assert (len(comparison.state), comparison.first) == (0, -1)
