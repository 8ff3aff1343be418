"""G1: a generator counts only where a run draws from it."""

from pathlib import Path

from bisect_diverge.model.divergence import DivergenceKind, Verdict
from tests.helpers.compare import compare_rows, first_address


def states(slot: str, *values: str) -> list[tuple[str, str]]:
    """Return the states of a generator at the start and after each step."""
    return [(f"r0/{max(n - 1, 0)}/-/rng/-:#0:{slot}", value) for n, value in enumerate(values)]


def test_a_generator_that_nobody_draws_from_is_a_note(tmp_path: Path):
    """Constant but different states are no divergence."""
    a, b = (states("python", *[seed] * 3) + states("torch.cpu", "s", "t", "u") for seed in ("a", "b"))
    divergence = compare_rows(tmp_path, a, b).divergence

    assert divergence.verdict is Verdict.EQUAL
    assert divergence.compared.records == 3
    assert any("python" in note and "3 records" in note for note in divergence.notes)


def test_a_generator_that_one_run_draws_from_counts_in_both(tmp_path: Path):
    """It is enough that its state moves in one of the runs."""
    a, b = states("python", "a", "a", "a"), states("python", "b", "b", "c")
    divergence = compare_rows(tmp_path, a, b).divergence

    assert divergence.kind is DivergenceKind.RNG
    assert divergence.is_origin is True


def test_the_first_draw_too_many_is_the_divergence(tmp_path: Path):
    """Equal seeds, then one draw more in B: the first state after it differs."""
    result = compare_rows(tmp_path, states("torch.cpu", "s", "t", "u"), states("torch.cpu", "s", "t2", "u2"))

    assert first_address(result) == "r0/0/-/rng/-:#0:torch.cpu"
    assert "drawn from differently" in result.divergence.origin_reason


def test_a_generator_that_only_one_run_has_is_ignored_unless_it_moves(tmp_path: Path):
    """A process that imports numpy without drawing from it does not differ in structure."""
    torch_states = states("torch.cpu", "s", "t")
    idle = compare_rows(tmp_path, torch_states, torch_states + states("numpy", "n", "n"))

    assert idle.divergence.verdict is Verdict.EQUAL
