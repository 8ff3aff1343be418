"""What a trial's bits are, where B was resumed and counts its steps from another one."""

from dataclasses import replace
from pathlib import Path

from bisect_diverge.model.address import Address
from bisect_diverge.model.trial import Outcome
from bisect_diverge.store.reader import Run
from bisect_diverge.trial.judge import judge
from tests.helpers.runs import Row, training_rows, write_run


def test_the_divergence_from_a_resumed_run_is_told_in_steps_of_a(tmp_path: Path):
    """A trial with A's bits differs from B where A does: its address is the one that the search looks for."""
    whole = training_rows(steps=3)
    changed = "r0/2/-/optimizer/opt:0.weight#0:param"
    resumed = [_earlier(row, 2) for row in training_rows(steps=3, change={changed: "x"}) if _step(row) == 2]
    a, b = write_run(tmp_path / "a", whole), write_run(tmp_path / "b", resumed)
    trial = write_run(tmp_path / "trial", whole)

    judgement = judge(Run(trial), Run(a), Run(b), offset_b=2)

    assert judgement.outcome is Outcome.A
    assert str(judgement.first_against_b) == changed


def _step(row: Row) -> int:
    return Address.parse(row.address).step


def _earlier(row: Row, steps: int) -> Row:
    address = Address.parse(row.address)
    return replace(row, address=str(replace(address, step=address.step - steps)), source=-1)
