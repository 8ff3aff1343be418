"""The table of modules and steps."""

from pathlib import Path

from bisect_diverge.diff.options import DiffOptions
from tests.helpers.compare import compare_rows
from tests.helpers.runs import training_rows

CHANGE = {"r0/1/0/forward/model:1#0:output.0": "x"}


def test_each_module_has_a_line_and_each_step_a_column(tmp_path: Path):
    """Parameters, gradients and optimizer state count for the module that owns them."""
    a, b = training_rows(), training_rows(change=CHANGE)
    heat = compare_rows(tmp_path, a, b, DiffOptions(heat=True)).divergence.heat

    assert heat is not None
    assert heat.steps == ((0, 0), (1, 1), (2, 2))
    assert heat.modules == (
        "model:0",
        "model:1",
        "generators",
        "train",
        "model",
        "loss_fn",
        "loss_fn:loss",
        "opt:group0",
    )
    line = heat.modules.index("model:1")
    # init; input, output, grad_output, grad, param, state in each step
    assert heat.compared[line] == (7, 6, 6)
    assert heat.differing[line] == (0, 5, 6)
    assert heat.fraction(line, 0) == 0.0
    assert heat.fraction(line, 1) == 5 / 6
    assert sum(map(sum, heat.compared)) == len(a)


def test_steps_share_columns_and_least_lines_are_left_out(tmp_path: Path):
    """A table of any run fits a page."""
    result = compare_rows(tmp_path, training_rows(10), training_rows(10, change=CHANGE))
    heat = result.heat(columns=3, lines=2)

    assert heat.steps == ((0, 3), (4, 6), (7, 9))
    assert len(heat.modules) == 2
    assert "model:1" in heat.modules
    assert heat.left_out == 6
    assert result.divergence.heat is None


def test_a_cell_without_pairs_has_no_fraction(tmp_path: Path):
    """Not compared is not equal."""
    heat = compare_rows(tmp_path, training_rows(2), training_rows(2)).heat()
    line = heat.modules.index("generators")
    alone = compare_rows(tmp_path / "more", training_rows(2), training_rows(2), DiffOptions(from_step=1)).heat()

    assert heat.fraction(line, 0) == 0.0
    assert alone.steps == ((1, 1),)
    assert all(alone.fraction(number, 0) is not None for number in range(len(alone.modules)))
