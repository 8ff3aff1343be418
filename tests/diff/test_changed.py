"""Generators on entry to a root, and parameters that were changed outside of an update."""

from pathlib import Path

import pytest

from bisect_diverge.model.divergence import DivergenceKind, Verdict
from tests.helpers.compare import compare_rows, first_address
from tests.helpers.runs import Row

PARAMETER = "3.weight"
Value = str | None


def step(
    number: int,
    *,
    state: str = "s",
    changed: Value = None,
    y: str = "y",
    after: str = "p",
    micro_batch: str = "0",
    draws: bool = False,
) -> list[tuple[str, str]]:
    """Return a step of a network with dropout: the generator on entry, a changed parameter, calls, an update.

    Args:
        number: Of the step.
        state: Of the generator on entry.
        changed: Value of the parameter where it was changed before the pass; None: it was not.
        y: Output of its module.
        after: Value of the parameter after the update.
        micro_batch: Of the pass.
        draws: Whether the module draws from the generator.
    """
    head = f"r0/{number}/{micro_batch}"
    rows = [(f"{head}/rng/model:#0:torch.cpu", f"{number} {state}")]
    if changed is not None:
        rows.append((f"{head}/forward/model:{PARAMETER}#0:param", changed))
    rows += [
        (f"{head}/forward/model:#0:input.0", f"{number} x"),
        (f"{head}/forward/model:3#0:input.0", f"{number} h"),
        (f"{head}/forward/model:3#0:output.0", f"{number} {y}"),
        *[(f"{head}/rng/model:3#0:torch.cpu", f"{number} drawn {state}")] * draws,
        (f"{head}/forward/model:#0:output.0", f"{number} {y} out"),
    ]
    if micro_batch == "0":
        rows += [
            (f"r0/{number}/-/optimizer/opt:{PARAMETER}#0:grad", f"{number} g {y}"),
            (f"r0/{number}/-/optimizer/opt:{PARAMETER}#0:param", f"{number} {after}"),
            (f"r0/{number}/-/rng/-:#0:torch.cpu", f"{number} end {state}"),
        ]
    return rows


START = [(f"r0/0/-/init/model:{PARAMETER}#0:param", "w"), ("r0/0/-/rng/-:#0:torch.cpu", "start")]
CHANGED = f"forward/model:{PARAMETER}#0:param"


def test_a_generator_that_moved_before_the_pass_is_a_difference_of_kind_rng(tmp_path: Path):
    """One stray draw shows on entry to the root, before any output differs."""
    a = [*START, *step(0), *step(1, draws=True)]
    b = [*START, *step(0), *step(1, state="moved", y="other", draws=True)]
    divergence = compare_rows(tmp_path, a, b).divergence

    assert divergence.kind is DivergenceKind.RNG
    assert divergence.is_origin is True
    assert list(map(str, divergence.origins_in_first_step)) == ["r0/1/0/rng/model:#0:torch.cpu"]


def test_a_call_that_draws_nothing_is_not_explained_by_the_generator_on_entry(tmp_path: Path):
    """The state on entry to a root is recorded always: it does not show that the root draws."""
    rows = step(0)
    a = [*START, *rows]
    b = [*START, *((where, "other" if where.endswith("model:#0:output.0") else value) for where, value in rows)]
    divergence = compare_rows(tmp_path, a, b).divergence

    assert first_address(compare_rows(tmp_path / "again", a, b)).endswith("model:#0:output.0")
    assert divergence.is_origin is True


def test_a_parameter_changed_to_another_value_is_where_the_runs_part(tmp_path: Path):
    """By which code it was changed is not recorded, so it is undetermined; what it went into is no origin."""
    a = [*START, *step(0), *step(1, changed="e1")]
    b = [*START, *step(0), *step(1, changed="e2", y="other")]
    divergence = compare_rows(tmp_path, a, b).divergence

    assert divergence.kind is DivergenceKind.COMPUTATION
    assert divergence.is_origin is None
    assert divergence.origin_reason == "it was changed between two updates, by code that is not recorded"
    assert str(divergence.first.address) == f"r0/1/0/{CHANGED}"
    assert divergence.origins_in_first_step == ()


@pytest.mark.parametrize("micro_batch", ["0", "e0"])
def test_a_parameter_that_one_run_changed_is_a_structure_difference(tmp_path: Path, micro_batch: str):
    """In a pass that both make, training or not, the change comes before what follows from it."""
    a = [*START, *step(0), *step(1, micro_batch=micro_batch)]
    b = [*START, *step(0), *step(1, changed="ema", y="other", micro_batch=micro_batch)]
    divergence = compare_rows(tmp_path, a, b).divergence

    assert divergence.kind is DivergenceKind.STRUCTURE
    assert divergence.structure == f"only B changed {PARAMETER} outside of an update"
    assert str(divergence.first.address) == f"r0/1/{micro_batch}/{CHANGED}"
    assert divergence.origins_in_first_step == ()


def test_a_parameter_put_back_after_an_evaluation_of_one_run_is_no_difference(tmp_path: Path):
    """B evaluates with an average and puts the weights back: they are what A had all along."""
    evaluation = step(1, changed="ema", y="average", micro_batch="e0")
    a = [*START, *step(0), *step(1), *step(2)]
    b = [*START, *step(0), *evaluation, *step(1, changed="0 p"), *step(2)]
    divergence = compare_rows(tmp_path, a, b).divergence

    assert divergence.verdict is Verdict.DIVERGED
    assert divergence.structure == "only B has evaluation pass e0 of model in step 1"


def test_a_parameter_that_was_made_equal_again_counts_as_equal(tmp_path: Path):
    """Both load the same checkpoint after a differing update: a later difference begins in the call itself."""
    a = [*START, *step(0), *step(1, changed="loaded")]
    b = [*START, *step(0, after="other"), *step(1, changed="loaded", y="other")]
    from bisect_diverge.diff.options import DiffOptions

    divergence = compare_rows(tmp_path, a, b, DiffOptions(from_step=1)).divergence

    assert str(divergence.first.address) == "r0/1/0/forward/model:3#0:output.0"
    assert divergence.is_origin is True


def test_differing_initial_weights_explain_the_first_outputs(tmp_path: Path):
    """In the step in which they are recorded, too."""
    a = [*START, *step(0)]
    b = [(START[0][0], "v"), START[1], *step(0, y="other")]
    divergence = compare_rows(tmp_path, a, b).divergence

    assert divergence.kind is DivergenceKind.INITIALIZATION
    assert list(map(str, divergence.origins_in_first_step)) == [START[0][0]]


def test_a_changed_parameter_is_no_call(tmp_path: Path):
    """It does not count as a module of its root, and its name is not a module's."""
    from bisect_diverge.report.run_overview import run_overview
    from bisect_diverge.store.reader import Run
    from tests.helpers.runs import write_run

    rows = [Row(*row) for row in (*START, *step(0, changed="w2"))]
    with Run(write_run(tmp_path / "a", rows)) as run:
        assert run_overview(run).ranks[0].roots == {"model": 2}
