"""Names of knobs that the user typed."""

import pytest

from bisect_diverge.environment.apply import Way, rule_for
from bisect_diverge.model.environment import Environment, Layer
from bisect_diverge.study.alternatives import alternatives, this_site
from bisect_diverge.study.names import advice, impossible


@pytest.mark.parametrize(
    "name",
    [
        "threads.*",
        "hardware.threads.intra_op",
        "MKL_CBWR",
        "optimizer.sgd.fused",
        "optimizer.sgd.fused=True",
        "default_dtype=torch.float64",
        "OMP_NUM_THREADS=2",
        "numpy=1.26",
        "argv.--lr=0.1",
        "configuration.ANY_VARIABLE=1",
    ],
)
def test_what_a_run_may_have_is_let_pass(name: str):
    """Only the recording tells whether it has it."""
    assert impossible([name]) == ()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("threads.intra_opp", "did you mean threads.intra_op"),
        ("OMP_NUM_THREADS", "use threads.intra_op, or OMP_NUM_THREADS=VALUE"),
        ("MKL_DYNAMIC", "give a value: MKL_DYNAMIC=VALUE"),
        ("zzz=1", ""),
    ],
)
def test_what_no_run_has_is_told_before_anything_runs(name: str, said: str):
    """With the name that was meant, where one is near."""
    assert impossible([name]) == (name,)
    assert advice(name).startswith(said)


def test_a_variable_needs_no_layer():
    """The allow-list knows it."""
    units, _ = alternatives(this_site(Environment()), ["OMP_NUM_THREADS=2"])
    assert [(unit.layer, unit.knob, unit.b) for unit in units] == [(Layer.HARDWARE, "OMP_NUM_THREADS", "2")]


@pytest.mark.parametrize(
    ("layer", "knob", "said"),
    [
        ("hardware", "FOO", "there is no such knob; use configuration.FOO"),
        ("kernels", "OMP_NUM_THREADS", "there is no such knob; the variable is hardware.OMP_NUM_THREADS"),
        ("hardware", "cpu.model", "belongs to the machine"),
    ],
)
def test_why_a_knob_cannot_be_set(layer: str, knob: str, said: str):
    """A variable that does not exist is not blamed on the machine."""
    rule = rule_for(Layer(layer), knob)
    assert rule.way is Way.NONE
    assert rule.reason.startswith(said)
