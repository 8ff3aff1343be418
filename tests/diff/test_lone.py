"""Records without partner: which can be the first divergence, and which are only listed."""

from dataclasses import replace
from pathlib import Path

import pytest

from bisect_diverge.model.address import Address, Phase
from bisect_diverge.model.coverage import INSIDE_COMPILED
from bisect_diverge.model.divergence import DivergenceKind, Side, Verdict
from bisect_diverge.model.run import RecordOptions, RunRecord
from tests.helpers.compare import compare_rows, first_address
from tests.helpers.runs import Row, training_rows

INPUT = ("r0/0/0/forward/model:#0:input.0", "x")
OUTPUT = ("r0/0/0/forward/model:#0:output.0", "y")


def call(fqn: str, micro_batch: str = "0", phase: str = "forward", value: str = "") -> list[tuple[str, str]]:
    """Return input and output of one call."""
    head = f"r0/0/{micro_batch}/{phase}/model:{fqn}#0"
    return [(f"{head}:input.0", f"in {fqn} {value}"), (f"{head}:output.0", f"out {fqn} {value}")]


def test_a_module_that_one_run_skips_is_a_structure_difference(tmp_path: Path):
    """A call of a training pass without partner, between paired ones, is the first divergence."""
    a = [INPUT, *call("0"), *call("1"), *call("2"), OUTPUT]
    b = [INPUT, *call("0"), *call("2"), OUTPUT]
    divergence = compare_rows(tmp_path, a, b).divergence

    assert divergence.kind is DivergenceKind.STRUCTURE
    assert divergence.first is not None
    assert divergence.first.side is Side.A
    assert str(divergence.first.address) == "r0/0/0/forward/model:1#0:input.0"


def test_a_missing_call_comes_after_an_earlier_difference(tmp_path: Path):
    """A paired row that differs earlier is the first divergence."""
    a = [INPUT, *call("0"), *call("1"), *call("2"), OUTPUT]
    b = [INPUT, *call("0", value="other"), *call("2"), OUTPUT]

    assert first_address(compare_rows(tmp_path, a, b)) == "r0/0/0/forward/model:0#0:input.0"


def test_the_inside_of_a_compiled_module_is_opaque(tmp_path: Path):
    """Below a root that shows no inside in B nothing is missing; equal outputs are equal."""
    start = ("r0/0/-/rng/-:#0:torch.cpu", "before")
    a = [start, INPUT, *call("0"), *call("0.fc"), OUTPUT, ("r0/0/0/forward/model:loss#0:value", "l")]
    a += [("r0/0/0/backward/model:0#0:grad_output.0", "g"), ("r0/0/0/rng/model:0#0:torch.cpu", "s")]
    b = [start, INPUT, OUTPUT, ("r0/0/0/rng/model:#0:torch.cpu", "s"), ("r0/0/0/forward/model:loss#0:value", "l")]
    divergence = compare_rows(tmp_path, a, b).divergence

    assert divergence.verdict is Verdict.EQUAL
    assert any("shows no inside have" in note and note.startswith("7 records") for note in divergence.notes)
    counted = RunRecord(coverage={INSIDE_COMPILED: 1})
    notes = compare_rows(tmp_path / "counted", a, b, record=counted).divergence.notes
    assert any("shows no inside (a compiled region) have" in note for note in notes)


def test_a_compiled_submodule_is_opaque_too(tmp_path: Path):
    """Only what lies below the compiled call is left out; a real difference elsewhere is found."""
    a = [INPUT, *call("0"), *call("0.fc"), *call("1"), *call("2"), OUTPUT]
    b = [INPUT, *call("0"), *call("1"), OUTPUT]

    assert first_address(compare_rows(tmp_path, a, b)) == "r0/0/0/forward/model:2#0:input.0"


def test_the_output_of_a_compiled_module_is_still_judged(tmp_path: Path):
    """An opaque call whose inputs and parameters are equal is an origin as a whole."""
    a = [INPUT, *call("0"), OUTPUT]
    b = [INPUT, ("r0/0/0/forward/model:#0:output.0", "other")]
    divergence = compare_rows(tmp_path, a, b).divergence

    assert divergence.is_origin is True
    assert "only one run shows its inside" in divergence.origin_reason


def test_evaluation_passes_are_never_first_while_something_else_differs(tmp_path: Path):
    """A validation pass of B alone is listed; the later difference is the first divergence."""
    a = [INPUT, *call("0"), OUTPUT]
    b = [*call("0", "e0"), INPUT, *call("0", value="other"), OUTPUT]
    result = compare_rows(tmp_path, a, b)

    assert first_address(result) == "r0/0/0/forward/model:0#0:input.0"
    assert any("evaluation mode" in note for note in result.divergence.notes)


def test_an_evaluation_pass_is_first_where_nothing_else_differs(tmp_path: Path):
    """If all paired records are equal, the extra pass is what differs."""
    result = compare_rows(tmp_path, [INPUT, OUTPUT], [INPUT, OUTPUT, *call("0", "e0")])

    assert result.divergence.kind is DivergenceKind.STRUCTURE
    assert first_address(result) == "r0/0/e0/forward/model:0#0:input.0"


def test_extra_evaluation_passes_do_not_move_training_passes(tmp_path: Path):
    """G2: training passes are paired with training passes, whatever runs between them."""
    step = [INPUT, *call("0"), OUTPUT]
    evaluation = [("r0/0/e0/forward/model:#0:input.0", "v")]
    second = [(address.replace("/0/0/", "/0/1/"), f"{value} second") for address, value in step]
    divergence = compare_rows(tmp_path, [*step, *second], [*step, *evaluation, *second]).divergence

    assert divergence.compared.differing == 0


def test_recomputation_in_one_run_only_is_never_first_while_something_else_differs(tmp_path: Path):
    """Activation checkpointing adds rows without changing the computation."""
    rows = [INPUT, *call("0"), OUTPUT]
    late = [("r0/0/-/optimizer/opt:0.w#0:param", "a")]
    b = [*rows, *call("0", phase="recompute"), ("r0/0/-/optimizer/opt:0.w#0:param", "b")]
    result = compare_rows(tmp_path, [*rows, *late], b)

    assert first_address(result) == "r0/0/-/optimizer/opt:0.w#0:param"
    assert any("checkpointing" in note for note in result.divergence.notes)


def test_a_wrapper_is_never_first_while_something_else_differs(tmp_path: Path):
    """A call around calls that both runs have is listed as such."""
    a = [INPUT, *call("block"), *call("block.fc"), OUTPUT]
    b = [INPUT, *call("block.fc"), ("r0/0/0/forward/model:#0:output.0", "other")]
    result = compare_rows(tmp_path, a, b)

    assert first_address(result) == "r0/0/0/forward/model:#0:output.0"
    assert any("around calls" in note for note in result.divergence.notes)


def test_the_inside_of_a_skipped_call_is_listed_apart(tmp_path: Path):
    """The skipped call itself is first; what it would have called is counted as inside of it."""
    a = [INPUT, *call("0"), *call("1"), *call("1.fc"), OUTPUT]
    b = [INPUT, *call("0"), OUTPUT]
    result = compare_rows(tmp_path, a, b)

    assert first_address(result) == "r0/0/0/forward/model:1#0:input.0"
    assert any("2 records inside calls that only one run has" in note for note in result.divergence.notes)


def test_rows_outside_of_passes_wait_for_everything_else(tmp_path: Path):
    """An optimizer state that one run lacks is first only where nothing else differs."""
    rows = [INPUT, OUTPUT]
    state = [("r0/0/-/optimizer/opt:0.w#0:state.max_exp_avg_sq", "s")]
    result = compare_rows(tmp_path, [*rows, *state], rows)

    assert result.divergence.kind is DivergenceKind.STRUCTURE
    assert first_address(result) == state[0][0]


def test_modules_that_were_not_asked_for_are_not_missing(tmp_path: Path):
    """A run recorded with --modules lacks the other modules on purpose."""
    rows = [INPUT, *call("0"), *call("1"), OUTPUT]
    record = RunRecord(options=RecordOptions(modules=("1",)))
    result = compare_rows(tmp_path, rows, call("1"), record=record)

    assert result.divergence.verdict is Verdict.EQUAL_SO_FAR
    assert "--modules" in result.divergence.limited
    assert any("--modules" in note for note in result.divergence.notes)


def limited_to_1(rows: list[Row]) -> list[Row]:
    """Return what a run recorded with ``--modules 1 '1.*'`` holds of some rows."""
    kept: dict[int, Row] = {}
    for number, row in enumerate(rows):
        address = Address.parse(row.address)
        if address.fqn in ("1", "1.weight", "group0", "loss") or address.phase in (Phase.DATA, Phase.RNG):
            kept[number] = row
    numbers = {old: new for new, old in enumerate(kept)}
    return [replace(row, source=numbers.get(row.source, -1)) for row in kept.values()]


LIMITED = RunRecord(options=RecordOptions(modules=("1", "1.*")))


def test_parameters_that_were_not_asked_for_are_not_missing(tmp_path: Path):
    """Initial values, gradients, parameters and states are left out by --modules too."""
    rows = training_rows()
    for number, (a, b) in enumerate(((rows, limited_to_1(rows)), (limited_to_1(rows), limited_to_1(rows)))):
        divergence = compare_rows(tmp_path / str(number), a, b, record=LIMITED).divergence

        assert divergence.first is None
        assert divergence.verdict is (Verdict.EQUAL if number else Verdict.EQUAL_SO_FAR)


def test_a_difference_in_what_was_asked_for_is_found(tmp_path: Path):
    """--modules excuses what it excludes, and nothing else."""
    change = {"r0/1/0/forward/model:1#0:output.0": "x"}
    b = limited_to_1(training_rows(change=change))

    assert first_address(compare_rows(tmp_path, training_rows(), b, record=LIMITED)) == next(iter(change))


def test_a_call_that_was_asked_for_and_is_missing_is_a_structure_difference(tmp_path: Path):
    """A module that the globs include has to be there."""
    a = [INPUT, *call("0"), *call("1"), *call("1.fc"), *call("2"), OUTPUT]
    record = RunRecord(options=RecordOptions(modules=("1*", "2")))
    b = [*call("1.fc"), *call("2")]

    divergence = compare_rows(tmp_path, a, b, record=record).divergence
    assert divergence.verdict is Verdict.DIVERGED


def later(rows: list, step: int, micro_batch: int = 0, value: str = "") -> list:
    """Return rows of step 0 and micro-batch 0 at another place, with other values."""
    return [
        (address.replace("r0/0/0/", f"r0/{step}/{micro_batch}/").replace("r0/0/-", f"r0/{step}/-"), f"{text}{value}")
        for address, text in rows
    ]


PASS = [("r0/0/0/rng/model:#0:torch.cpu", "s"), INPUT, *call("0"), OUTPUT]
UPDATE = [("r0/0/-/optimizer/opt:group0#0:lr", "lr"), ("r0/0/-/optimizer/opt:0.w#0:param", "p")]
ONE_STEP = [*PASS, *UPDATE]
TWO_STEPS = [*ONE_STEP, *later(ONE_STEP, 1, value=" 1")]

STRUCTURES = {
    "B made no update in step 1": (TWO_STEPS, TWO_STEPS[: -len(UPDATE)]),
    "only A has step 1": (TWO_STEPS, ONE_STEP),
    "only B has micro-batch 1 of model in step 0": (ONE_STEP, [*PASS, *later(PASS, 0, 1, " more"), *UPDATE]),
    "B made no update in step 0 where A did: its micro-batch 1 has the input of A's step 1": (
        TWO_STEPS,
        [*PASS, *later(PASS, 0, 1, " 1"), *UPDATE],
    ),
    "B made an extra update in step 0: its step 1 has the input of A's micro-batch 1": (
        [*PASS, *later(PASS, 0, 1, " 1"), *UPDATE],
        TWO_STEPS,
    ),
    "B made an extra update by opt in step 0": (
        ONE_STEP,
        [*ONE_STEP, *((address.replace("#0", "#1"), value) for address, value in UPDATE)],
    ),
    "only A made an update by opt2 in step 0": (
        [*ONE_STEP, *((address.replace("opt:", "opt2:"), value) for address, value in UPDATE)],
        ONE_STEP,
    ),
    "only B has evaluation pass e0 of model in step 0": (
        ONE_STEP,
        [*PASS, *((address.replace("/0/0/", "/0/e0/"), value) for address, value in PASS), *UPDATE],
    ),
}


@pytest.mark.parametrize("sentence", list(STRUCTURES))
def test_what_one_run_does_alone_is_a_sentence(tmp_path: Path, sentence: str):
    """An update, a step, a micro-batch or a pass that one run has says what it is."""
    divergence = compare_rows(tmp_path, *STRUCTURES[sentence]).divergence

    assert divergence.kind is DivergenceKind.STRUCTURE
    assert divergence.structure == sentence


def test_an_extra_output_is_a_structure_difference(tmp_path: Path):
    """A module that returns one tensor more in one run differs in structure."""
    extra = [("r0/0/0/forward/model:0#0:output.1", "aux")]
    a = [INPUT, *call("0"), *extra, OUTPUT]

    assert first_address(compare_rows(tmp_path, a, [INPUT, *call("0"), OUTPUT])) == extra[0][0]
