"""How a difference grows: per step, over the steps, and what of it digests alone tell."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bisect_diverge.diff import growth as growth_module
from bisect_diverge.diff.options import DiffOptions
from bisect_diverge.model.findings import Growth
from tests.helpers.compare import compare_rows

GROWTH = DiffOptions(growth=True)
PARAMETERS = {name: np.random.default_rng(n).standard_normal((8, 4)).astype(np.float32) for n, name in enumerate("uv")}


def run(steps: int, gap: Any = lambda step: 0.0) -> list[tuple]:
    """Return a training run whose parameter `u` is `gap(step)` of itself larger, and the loss with it."""
    rows: list[tuple] = [("r0/0/-/init/model:u#0:param", PARAMETERS["u"])]
    for step in range(steps):
        factor = np.float32(1 + gap(step))
        loss = np.float32(2 / (step + 1)) * (1 if gap(step) < 1e-3 else factor)
        rows.append((f"r0/{step}/0/forward/model:loss#0:value", np.array(loss, np.float32)))
        for name, value in PARAMETERS.items():
            rows.append((f"r0/{step}/-/optimizer/opt:{name}#0:grad", value * (factor if name == "u" else 1)))
        for name, value in PARAMETERS.items():
            rows.append((f"r0/{step}/-/optimizer/opt:{name}#0:param", value * (factor if name == "u" else 1)))
    return rows


def grown(folder: Path, a: list, b: list, **of_b: Any) -> Growth:
    """Return the growth of two runs."""
    found = compare_rows(folder, a, b, GROWTH, **of_b).divergence.growth
    assert found is not None
    return found


def test_distances_and_rate_of_a_growing_difference(tmp_path: Path):
    """Doubling each step from step 2 on: relative distance, ULP, the loss that follows later, the factor."""
    found = grown(tmp_path, run(12), run(12, lambda step: 1e-5 * 2.0**step if step > 1 else 0.0))
    first = found.steps[0]
    share = np.linalg.norm(PARAMETERS["u"]) / np.hypot(*(np.linalg.norm(value) for value in PARAMETERS.values()))

    assert [step.step for step in found.steps] == list(range(2, 12))
    assert (first.parameters.records, first.parameters.differing) == (2, 1)
    assert first.parameters.relative_l2 == pytest.approx(4e-5 * share, rel=0.01)
    assert first.gradients.relative_l2 == first.parameters.relative_l2
    assert first.parameters.max_ulp is not None
    assert 300 < first.parameters.max_ulp < 700  # 4e-5 / 2**-24 to 4e-5 / 2**-23
    assert (first.loss.differing, first.loss.max_ulp, first.loss.relative_l2) == (0, 0, 0.0)
    assert found.loss_first_differs == 7
    assert found.rate is not None
    assert (found.rate.of, found.rate.steps) == ("parameters", 10)
    assert found.rate.low <= 2.0 <= found.rate.high or found.rate.factor == pytest.approx(2.0, rel=0.01)
    assert not found.dies_out
    assert found.without_values == ""


def test_a_difference_that_dies_out(tmp_path: Path):
    """The last steps are equal again."""
    found = grown(tmp_path, run(9), run(9, lambda step: 1e-4 if 2 <= step < 5 else 0.0))

    assert found.dies_out
    assert found.equal_again_at == 5
    assert found.steps[-1].parameters.relative_l2 == 0.0


def test_digests_alone_give_counts_and_the_loss(tmp_path: Path):
    """A loss is one number, which is always kept; how far parameters are apart is not known, and that is said."""
    found = grown(tmp_path, run(5), run(5, lambda step: 0.01), keep_bytes=0)

    assert [step.parameters.differing for step in found.steps] == [1] * 5
    assert all(step.parameters.relative_l2 is None for step in found.steps)
    assert found.steps[0].loss.relative_l2 == pytest.approx(0.01, rel=0.01)
    assert found.rate is not None
    assert found.rate.of == "loss"
    assert found.without_values == (
        "only digests were kept of parameters and gradients at 5 of 5 steps: only counts are known there"
    )


def test_of_very_many_steps_a_choice_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The number of steps shown and that of elements read are bounded; first and last step are always there."""
    monkeypatch.setattr(growth_module, "STEPS_SHOWN", 12)
    monkeypatch.setattr(growth_module, "ELEMENTS_READ", 1)
    found = grown(tmp_path, run(30), run(30, lambda step: 1e-3))
    known = [step.step for step in found.steps if step.parameters.relative_l2 is not None]

    assert len(found.steps) == 12
    assert len(known) == growth_module.FEWEST_STEPS
    assert (known[0], known[-1]) == (0, 29)
    assert found.without_values == "parameters and gradients were read at 8 of 12 steps"


def test_other_shapes_and_nan_are_no_distance(tmp_path: Path):
    """What cannot be subtracted is unknown, never a number, and JSON can hold the result."""
    address = "r0/0/-/optimizer/opt:u#0:param"
    for number, value in enumerate((np.ones(3, np.float32), np.full((8, 4), np.nan, np.float32), np.ones(2, "<f8"))):
        found = grown(tmp_path / str(number), [(address, PARAMETERS["u"])], [(address, value)])

        assert found.steps[0].parameters.differing == 1
        assert found.steps[0].parameters.relative_l2 is None
        assert found.rate is None


def test_growth_is_read_only_when_asked_for(tmp_path: Path):
    """Tensors are not touched for an answer that nobody wants."""
    result = compare_rows(tmp_path, run(4), run(4, lambda step: 0.01))

    assert result.divergence.growth is None
    assert result.growth() is not None


def test_equal_runs_have_no_growth(tmp_path: Path):
    """There is nothing to follow."""
    result = compare_rows(tmp_path, run(2), run(2), GROWTH)

    assert result.divergence.growth is None
    assert result.growth() is None


def test_ranks_are_taken_together(tmp_path: Path):
    """A step's distance is over all ranks, also where one of them is equal."""
    other_rank = [(address.replace("r0/", "r1/"), value) for address, value in run(4)]
    alone = grown(tmp_path / "0", run(4), run(4, lambda step: 0.01))
    found = grown(tmp_path / "1", run(4) + other_rank, run(4, lambda step: 0.01) + other_rank)

    assert [step.parameters.records for step in found.steps] == [4] * 4
    assert [step.parameters.differing for step in found.steps] == [1] * 4
    of_one, of_both = alone.steps[0].parameters.relative_l2, found.steps[0].parameters.relative_l2
    assert of_one is not None
    assert of_both == pytest.approx(of_one / np.sqrt(2))


def test_a_divergence_of_structure_grows_too(tmp_path: Path):
    """From the step of a record without partner on, whatever differs is followed."""
    more = [("r0/0/0/forward/model:fc#0:output.0", "x")]
    a, b = [*more, *run(5)], [*more, *run(5, lambda step: 0.01 if step > 2 else 0.0)]
    b.insert(2, ("r0/0/0/forward/model:fc#0:output.1", "y"))
    found = grown(tmp_path, a, b)

    assert [step.parameters.differing for step in found.steps] == [0, 0, 0, 1, 1]
    assert not found.dies_out
