"""A candidate that was resumed from a checkpoint of the baseline."""

from pathlib import Path

from bisect_diverge.diff.options import DiffOptions
from bisect_diverge.model.divergence import DivergenceKind, Verdict
from tests.helpers.compare import compare_rows, first_address
from tests.helpers.runs import Row, training_rows


def resumed(rows: list[Row], at: int, **changes: str) -> list[Row]:
    """Return what a run resumed at the beginning of a step records: that state as its start, then the steps."""
    before = {row.address: row.value for row in rows if row.address.startswith(f"r0/{at - 1}/")}
    start = []
    for row in rows[:3]:
        slot = row.address.rpartition("#")[0].rpartition(":")[2]
        ended = (
            f"r0/{at - 1}/-/optimizer/opt:{slot}#0:param"
            if "init" in row.address
            else f"r0/{at - 1}/-/rng/-:#0:torch.cpu"
        )
        start.append(Row(row.address, changes.get(row.address, before[ended])))
    offset = next(number for number, row in enumerate(rows) if row.address.startswith(f"r0/{at}/"))
    later = []
    for row in rows[offset:]:
        _, step, rest = row.address.split("/", 2)
        source = row.source - offset + len(start) if row.source >= offset else -1
        later.append(Row(f"r0/{int(step) - at}/{rest}", row.value, row.dtype, source, row.flags))
    return start + later


def test_a_resumed_run_is_equal_with_its_offset(tmp_path: Path):
    """B's steps are A's later ones, and what B started from is A's state at that point."""
    rows = training_rows(4)
    result = compare_rows(tmp_path, rows, resumed(rows, 2), DiffOptions(offset_b=2))

    assert result.divergence.verdict is Verdict.EQUAL, result.divergence
    assert result.divergence.compared.only_in_b == 0
    assert result.divergence.compared.steps == 2  # the state at the end of the one before is what B starts from


def test_an_offset_is_proposed(tmp_path: Path):
    """Where B's first parameters are A's after a step, the note names the option."""
    rows = training_rows(4)
    result = compare_rows(tmp_path, rows, resumed(rows, 2))

    assert result.divergence.kind is DivergenceKind.INITIALIZATION
    assert any("--offset-b 2" in note for note in result.divergence.notes)
    assert result.divergence.offset_b == result.divergence.to_json()["offset_b"] == 2


def test_no_offset_is_proposed_for_another_initialization(tmp_path: Path):
    """Other weights that A never had are just other weights."""
    change = {"r0/0/-/init/model:0.weight#0:param": "x"}
    result = compare_rows(tmp_path, training_rows(), training_rows(change=change))

    assert not any("--offset-b" in note for note in result.divergence.notes)


def test_a_generator_that_was_not_restored_is_found(tmp_path: Path):
    """The state B started with is compared with A's at the end of the step before."""
    rows = training_rows(4)
    b = resumed(rows, 2, **{"r0/0/-/rng/-:#0:torch.cpu": "fresh"})
    result = compare_rows(tmp_path, rows, b, DiffOptions(offset_b=2))

    assert result.divergence.kind is DivergenceKind.RNG
    assert first_address(result) == "r0/2/-/rng/-:#0:torch.cpu"


def test_a_generator_that_was_not_restored_is_the_origin_and_says_why(tmp_path: Path):
    """Resumed at step 6 from a checkpoint without generator state: first, origin and list name step 6."""
    rows = training_rows(8)
    b = resumed(rows, 6, **{"r0/0/-/rng/-:#0:torch.cpu": "fresh"})
    divergence = compare_rows(tmp_path, rows, b, DiffOptions(offset_b=6)).divergence

    assert divergence.first is not None
    assert divergence.first.address.step == 6
    assert divergence.is_origin is True
    assert "A's step 5 left" in divergence.origin_reason
    assert "checkpoint did not restore" in divergence.origin_reason
    assert "seeded" not in divergence.origin_reason
    assert list(map(str, divergence.origins_in_first_step)) == ["r0/6/-/rng/-:#0:torch.cpu"]


def test_what_a_resumed_run_starts_from_can_be_ignored_by_its_address(tmp_path: Path):
    """The address that is printed is the one that --ignore takes."""
    rows = training_rows(8)
    b = resumed(rows, 6, **{"r0/0/-/rng/-:#0:torch.cpu": "fresh"})
    options = DiffOptions(offset_b=6, ignore=("r0/6/-/rng/-:#0:torch.cpu",))

    assert first_address(compare_rows(tmp_path, rows, b, options)) == ""


def test_a_weight_that_was_not_restored_is_the_origin_and_says_why(tmp_path: Path):
    """A parameter is compared with A's last update, at the step at which B goes on."""
    rows = training_rows(4)
    b = resumed(rows, 2, **{"r0/0/-/init/model:1.weight#0:param": "fresh"})
    divergence = compare_rows(tmp_path, rows, b, DiffOptions(offset_b=2)).divergence

    assert divergence.is_origin is True
    assert divergence.origin_reason == "B starts from another value than A's step 1 left"
    assert list(map(str, divergence.origins_in_first_step)) == ["r0/2/-/init/model:1.weight#0:param"]


def test_a_weight_that_was_not_restored_is_an_initialization_difference(tmp_path: Path):
    """A parameter that differs from A's last update was not what B should have started from."""
    rows = training_rows(4)
    b = resumed(rows, 2, **{"r0/0/-/init/model:1.weight#0:param": "fresh"})
    result = compare_rows(tmp_path, rows, b, DiffOptions(offset_b=2))

    assert result.divergence.kind is DivergenceKind.INITIALIZATION
    assert first_address(result) == "r0/2/-/init/model:1.weight#0:param"


def test_parameters_that_two_optimizers_name_alike_are_not_guessed(tmp_path: Path):
    """In a GAN both optimizers have a 0.weight: which is meant is not known, so neither is compared."""
    ended = [(f"r0/0/-/optimizer/{opt}:0.weight#0:param", opt) for opt in ("opt_g", "opt_d")]
    later = [("r0/1/0/forward/model:#0:input.0", "x")]
    start = [("r0/0/-/init/gen:0.weight#0:param", "opt_g"), ("r0/0/0/forward/model:#0:input.0", "x")]
    result = compare_rows(tmp_path, [*ended, *later], start, DiffOptions(offset_b=1))

    assert result.divergence.compared.records == 1
    assert result.divergence.compared.differing == 0
