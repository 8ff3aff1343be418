"""What B has beside its requested inputs, and what the end of a recording says for the observer check."""

from pathlib import Path

import pytest

from bisect_diverge.model.environment import Environment, Layer, Setting
from bisect_diverge.model.run import RunRecord
from bisect_diverge.store.reader import Run
from bisect_diverge.trial.oracle import Trials
from bisect_diverge.trial.search import differing_units, left_out
from bisect_diverge.trial.unrecorded import NO_UPDATE, end_of, told
from tests.helpers.runs import training_rows, write_run
from tests.trial.pairs import pair_of


def record(**values):
    """Return a record with resolved values of kernels and hardware; ``__`` stands for a dot."""
    rows = []
    for name, value in values.items():
        layer, _, knob = name.replace("__", ".").partition(".")
        rows.append(Setting(layer=Layer(layer), knob=knob, value=value, resolved=True))
    return RunRecord(command=("python", "t.py"), argv=("t.py",), cwd="/", environment=Environment(tuple(rows)))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A and B, which differ in resolved values alone."""
    folder = tmp_path_factory.mktemp("left")
    values = {
        "a": record(kernels__deterministic="False", hardware__threads__intra_op="2", kernels__cpu__capability="AVX2"),
        "b": record(kernels__deterministic="True", hardware__threads__intra_op="1", kernels__cpu__capability="AVX512"),
    }
    opened = [Run(write_run(folder / n, training_rows(change={}), record=values[n])) for n in values]
    yield opened
    for run in opened:
        run.close()


@pytest.mark.parametrize(
    ("only", "skip", "free", "reason"),
    [
        ((), (), ["hardware.threads.intra_op", "kernels.deterministic"], None),
        ((), ("hardware",), ["kernels.deterministic"], "left out by --skip"),
        (("kernels",), (), ["kernels.deterministic"], "left out by --only"),
    ],
)
def test_resolved_values_of_a_layer_that_is_left_out_are_listed(runs, only, skip, free, reason):
    """They are no units, and they are not forgotten either; more than was planned is told at once."""
    a, b = runs
    out = left_out(only, skip)
    units = differing_units(a, b, out)
    assert not units.units
    told_of = []
    pair = pair_of(a, b, units=units, left_out=out, found=lambda more, cannot: told_of.append((more, cannot)))
    found, cannot = Trials(pair).left_over(frozenset())
    assert sorted(map(str, found)) == free
    reasons = {str(row.unit): row.reason for row in cannot}
    assert "kernels.cpu.capability" in reasons
    assert reasons.get("hardware.threads.intra_op") == reason
    assert told_of == [(found, cannot)]


def test_the_end_of_a_recording_names_its_parameters(tmp_path):
    """The same bits have the same name, others another; a later step does not count."""
    changes = {"a": {}, "same": {}, "late": {"r0/2/-/optimizer/opt:0.weight#0:param": "x"}}
    changes["other"] = {"r0/1/-/optimizer/opt:0.weight#0:param": "x"}
    ends = {}
    for name, change in changes.items():
        with Run(write_run(tmp_path / name, training_rows(change=change))) as run:
            ends[name] = end_of(run, 1)
    assert ends["a"] == ends["same"] == ends["late"]
    assert (ends["a"].updates, ends["a"].reason) == (2, "")
    assert ends["other"].bits != ends["a"].bits


def test_without_an_update_nothing_can_be_told(tmp_path):
    """Inference, or a process that told nothing."""
    rows = [row for row in training_rows(1) if "/optimizer/" not in row.address]
    with Run(write_run(tmp_path / "a", rows)) as run:
        assert end_of(run, 0).reason == NO_UPDATE
    assert "did not tell" in told(Path(tmp_path), 1, 2).reason
