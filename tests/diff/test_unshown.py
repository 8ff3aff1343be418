"""What may have gone into a difference though no record shows it: the reason says so and claims no equality."""

from pathlib import Path

import numpy as np
import pytest

from bisect_diverge.diff.compare import compare
from bisect_diverge.diff.options import DiffOptions
from bisect_diverge.model.divergence import Divergence, DivergenceKind, Verdict
from bisect_diverge.model.record import Flag
from bisect_diverge.model.run import RunRecord
from bisect_diverge.store.reader import Run
from tests.helpers.runs import Row, write_run

GRAD = int(Flag.REQUIRES_GRAD)
X, Y = np.arange(6, dtype=np.float32), np.arange(3, dtype=np.float32)


def diverged(folder: Path, a: list[Row], b: list[Row], *, offset_b: int = 0, tied: bool = False) -> Divergence:
    """Return how two lists of rows differ; with `tied`, B's head.weight is its emb.weight."""
    aliases = RunRecord(aliases={"net:emb.weight": ["head.weight"]}) if tied else RunRecord()
    path_a, path_b = write_run(folder / "a", a), write_run(folder / "b", b, record=aliases)
    with compare(Run(path_a), Run(path_b), DiffOptions(offset_b=offset_b)) as result:
        return result.divergence


def settings(group: int = 0, decay: float = 0.1) -> Row:
    """Return a value of a parameter group."""
    return Row(f"r0/0/-/optimizer/opt:group{group}#0:weight_decay", decay, module_type="Settings")


def update(step: int, value: str, state: str = "m") -> list[Row]:
    """Return an update with an equal gradient."""
    return [
        Row(f"r0/{step}/-/optimizer/opt:w#0:grad", f"g{step}"),
        Row(f"r0/{step}/-/optimizer/opt:w#0:param", value),
        Row(f"r0/{step}/-/optimizer/opt:w#0:state.momentum_buffer", state),
    ]


def test_two_slices_of_one_table(tmp_path: Path):
    """Labels in the memory of equal inputs are data: they were not computed from the inputs."""

    def rows(y: np.ndarray) -> list[Row]:
        return [
            Row("r0/0/0/forward/net:#0:input.0", X),
            Row("r0/0/0/forward/net:#0:output.0", "out", flags=GRAD),
            Row("r0/0/0/forward/crit:#0:input.0", "out", source=1, flags=GRAD),
            Row("r0/0/0/forward/crit:#0:input.1", y, source=0),
        ]

    found = diverged(tmp_path, rows(Y), rows(Y + 1))
    assert (found.kind, found.is_origin) == (DivergenceKind.DATA, True)
    assert "out of the memory that r0/0/0/forward/net:#0:input.0 is of" in found.origin_reason


def test_the_same_tensor_is_no_slice(tmp_path: Path):
    """Where A compares with its very input, code between the two made another tensor of it in B."""

    def rows(y: np.ndarray) -> list[Row]:
        return [Row("r0/0/0/forward/net:#0:input.0", X), Row("r0/0/0/forward/crit:#0:input.1", y, source=0)]

    found = diverged(tmp_path, rows(X), rows(X[::-1]))
    assert found.kind is DivergenceKind.COMPUTATION
    assert "the code between the two differs" in found.origin_reason


def test_a_parameter_in_another_group(tmp_path: Path):
    """That the settings of an update are equal is not known where only one run has some of them."""
    a = [settings(), *update(0, "p")]
    found = diverged(tmp_path, a, [settings(), settings(1, 0.0), *update(0, "q")])
    assert found.is_origin is None
    assert "only B has r0/0/-/optimizer/opt:group1#0:weight_decay" in found.origin_reason
    assert "may be in another group" in found.origin_reason


def test_an_optimizer_that_was_not_restored(tmp_path: Path):
    """A resumed run shows what its optimizer holds after its first update only; the reason names what A had left."""
    b = [Row(r.address.replace("r0/1/", "r0/0/"), r.value) for r in update(1, "q", "n")]
    found = diverged(tmp_path, [*update(0, "p"), *update(1, "p1", "m1")], b, offset_b=1)
    assert found.is_origin is None
    assert "B begins in that step" in found.origin_reason
    assert "A's step 0 left state.momentum_buffer" in found.origin_reason


@pytest.mark.parametrize(("gradient", "says"), [(np.zeros(4, np.float32), "all zeros"), (Y, "its pass did not use")])
def test_no_gradient_beside_one(tmp_path: Path, gradient: np.ndarray, says: str):
    """A gradient of zeros is not one that the pass made."""
    none = Row("r0/0/-/optimizer/opt:w#0:grad", np.zeros(0, np.uint8), dtype="none")
    found = diverged(tmp_path, [none], [Row("r0/0/-/optimizer/opt:w#0:grad", gradient)])
    assert found.kind is DivergenceKind.GRADIENT
    assert found.is_origin is (True if says == "all zeros" else None)
    assert says in found.origin_reason


def test_an_output_that_is_not_differentiated(tmp_path: Path):
    """Frozen parameters show first where a gradient is missing."""

    def rows(flags: int) -> list[Row]:
        return [
            Row("r0/0/0/forward/net:0#0:input.0", X),
            Row("r0/0/0/forward/net:0#0:output.0", "h", flags=flags),
            Row("r0/0/0/forward/net:1#0:input.0", "h", source=1, flags=flags),
            Row("r0/0/0/forward/net:1#0:output.0", "o", flags=GRAD),
            Row("r0/0/0/backward/net:1#0:grad_output.0", "go"),
        ]

    a = [*rows(GRAD), Row("r0/0/0/backward/net:0#0:grad_output.0", "gh")]
    found = diverged(tmp_path, a, rows(0))
    assert found.kind is DivergenceKind.STRUCTURE
    assert "only in A is that output differentiated" in found.origin_reason


def test_a_tied_weight(tmp_path: Path):
    """A parameter that is another's in one run has a row of its own in the other only."""

    def rows(value: str, *weights: str) -> list[Row]:
        init = [Row(f"r0/0/-/init/net:{w}.weight#0:param", w, module_type="Parameter") for w in ("emb", *weights)]
        inside = Row("r0/0/0/forward/net:head#0:input.0", X), Row("r0/0/0/forward/net:head#0:output.0", value)
        return [*init, Row("r0/0/0/forward/net:#0:input.0", X), *inside]

    found = diverged(tmp_path, rows("o", "head"), rows("p"), tied=True)
    assert found.is_origin is False
    assert found.origin_reason == "its parameter or buffer head.weight is that of emb.weight in B only (shared)"


def generator(address: str, state: str) -> Row:
    """Return a state of torch's generator."""
    return Row(f"r0/{address}:torch.cpu", state, module_type="Generator")


@pytest.mark.parametrize("drawn", [True, False])
def test_passes_that_only_one_run_has_draw(tmp_path: Path, drawn: bool):
    """Whether B alone drew is known where A's state has not moved in between."""
    a = [generator("0/-/rng/-:#0", "s"), generator("1/0/rng/net:#0", "s" if drawn else "t")]
    b = [generator("0/-/rng/-:#0", "s"), generator("1/e0/rng/net:#0", "u"), generator("1/0/rng/net:#0", "v")]
    found = diverged(tmp_path, a, b)
    assert found.kind is DivergenceKind.RNG
    assert found.is_origin is (True if drawn else None)
    assert "the first is r0/1/e0/rng/net:#0:torch.cpu" in found.origin_reason


def test_training_in_evaluation_mode(tmp_path: Path):
    """A run that forgot to go back to training mode has gradients of an evaluation pass."""

    def rows(mode: str) -> list[Row]:
        return [
            Row("r0/0/0/forward/net:#0:input.0", X),
            Row(f"r0/1/{mode}/forward/net:#0:input.0", X),
            Row(f"r0/1/{mode}/forward/net:#0:output.0", mode, flags=GRAD),
            Row(f"r0/1/{mode}/backward/net:#0:grad_output.0", f"g{mode}"),
        ]

    notes = "\n".join(diverged(tmp_path, rows("0"), rows("e0")).notes)
    assert "B trains on passes in evaluation mode, the first at r0/1/e0/backward/net:#0:grad_output.0" in notes


def labels(target: np.ndarray | None, loss: float = 1.0) -> list[Row]:
    """Return a step whose loss function was given labels; None: they have no row."""
    rows = [Row("r0/0/0/forward/net:#0:input.0", X), Row("r0/0/0/forward/net:#0:output.0", "o", flags=GRAD)]
    rows += [] if target is None else [Row("r0/0/0/data/net:loss#0:input.target", target)]
    return [*rows, Row("r0/0/0/forward/net:loss#0:value", loss)]


def test_other_labels(tmp_path: Path):
    """Labels of a functional loss that differ are data, before the loss that they make."""
    found = diverged(tmp_path, labels(np.array([1, 2, 3])), labels(np.array([1, 3, 3]), 2.0))
    assert (found.kind, found.is_origin) == (DivergenceKind.DATA, True)
    assert str(found.first.address if found.first else "") == "r0/0/0/data/net:loss#0:input.target"
    assert "labels that the loss function was given" in found.origin_reason
    assert found.batches is not None
    assert found.batches.sentence == "1 of 3 numbers (labels, tokens, indices) differs, place by place"


def test_a_loss_of_equal_outputs(tmp_path: Path):
    """Options of a loss function enter no module; a generator that nobody draws from changes nothing of that."""
    idle = [generator("0/-/rng/-:#0", state) for state in "st"]
    found = diverged(tmp_path, [idle[0], *labels(None)], [idle[1], *labels(None, 2.0)])
    assert found.first is not None
    assert found.first.address.fqn == "loss"
    assert "options of a loss function enter no module" in found.origin_reason


def test_labels_that_one_run_shows_only(tmp_path: Path):
    """Whether labels have a row of their own depends on what else holds their memory: that is no difference."""
    found = diverged(tmp_path, labels(None), labels(np.array([1, 2, 3])))
    assert found.verdict is Verdict.EQUAL
    assert [row.reason for row in found.unpaired] == ["labels"]
