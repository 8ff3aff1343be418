"""Recorded runs are run again: with nothing changed, with everything changed, and with one thing at a time."""

import tempfile
from contextlib import contextmanager

import pytest

from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import Outcome, Unit
from bisect_diverge.store.reader import Run
from bisect_diverge.trial.search import TrialOptions, differing_units, first_divergence, trials
from tests.trial.conftest import contents

pytestmark = pytest.mark.slow


@contextmanager
def oracle_of(folder, *, alone=False, **options):
    """Open the two runs and yield their oracle and units."""
    with Run(folder / "a") as a, Run(folder / "b") as b:
        first = None if alone else first_divergence(a, b)
        with trials(a, None if alone else b, first, TrialOptions(**options)) as oracle:
            yield oracle, {unit.knob: unit for unit in differing_units(a, b).units}


@pytest.fixture(scope="module")
def outcomes(runs, tmp_path_factory):
    """The trials of nothing, everything and each unit alone; with what lay around before and after."""
    temporary = tmp_path_factory.mktemp("temporary")
    before = contents(runs)
    was, tempfile.tempdir = tempfile.tempdir, str(temporary)
    try:
        with oracle_of(runs, fresh=True) as (oracle, units):
            found = {"nothing": oracle(frozenset()), "everything": oracle(frozenset(units.values()))}
            found |= {knob: oracle(frozenset([unit])) for knob, unit in units.items()}
    finally:
        tempfile.tempdir = was
    assert not list(temporary.iterdir())
    assert contents(runs) == before
    return found


def test_a_replayed_is_a(outcomes):
    """The baseline, run again in its own environment, has its bits up to the step after the divergence."""
    trial = outcomes["nothing"]
    assert (trial.outcome, trial.first_against_a) == (Outcome.A, None)
    assert trial.stopped_at_step == 1
    assert trial.consequences == ()


def test_everything_swapped_is_b(outcomes):
    """A's command with all of B's requested inputs has B's bits."""
    trial = outcomes["everything"]
    assert (trial.outcome, trial.first_against_b) == (Outcome.B, None)
    assert trial.first_against_a is not None


def test_each_unit_alone(outcomes):
    """The flag is the cause; the hash seed was tested and changes nothing; MKL's variable moved nothing."""
    assert set(outcomes) == {
        "nothing", "everything", "argv.--lr", "PYTHONHASHSEED", "MKL_ENABLE_INSTRUCTIONS",
    }  # fmt: skip
    assert outcomes["argv.--lr"].outcome is Outcome.B
    assert outcomes["PYTHONHASHSEED"].outcome is Outcome.A
    assert outcomes["PYTHONHASHSEED"].inert == ()
    assert outcomes["MKL_ENABLE_INSTRUCTIONS"].outcome is Outcome.A
    assert outcomes["argv.--lr"].signature == outcomes["everything"].signature
    assert outcomes["nothing"].signature != outcomes["everything"].signature


def test_a_trial_is_remembered(runs, outcomes):
    """A second search takes the trial from the journal; a repeat of it is run."""
    with oracle_of(runs) as (oracle, units):
        again = oracle(frozenset([units["argv.--lr"]]))
    assert again.reused
    assert again.outcome is Outcome.B
    assert again.first_against_a == outcomes["argv.--lr"].first_against_a
    assert [unit.knob for unit in again.swapped] == ["argv.--lr"]


def test_a_trial_that_fails_is_skipped_with_the_reason(runs):
    """A configuration that does not run is never taken for different."""
    unit = Unit(layer=Layer.CONFIGURATION, knob="argv.--fail", a=None, b="set")
    with oracle_of(runs, alone=True) as (oracle, _):
        trial = oracle(frozenset([unit]))
    assert trial.outcome is Outcome.SKIP
    assert "out of luck" in trial.reason


HELD = {
    "hardware.threads.intra_op": "3",
    "kernels.matmul.precision": "medium",
    "kernels.deterministic": "True",
    "kernels.mkldnn.enabled": "False",
    "kernels.sdpa.flash": "False",
    "kernels.cudnn.benchmark": "True",
    "kernels.optimizer.optimizer.fused": "True",
    "hardware.loader.loader.num_workers": "1",
    "seeds.torch.manual_seed": "7",
}
"""Settings that the script sets otherwise, or that it leaves alone."""


def test_settings_are_held_against_the_scripts_own_calls(runs):
    """What the script sets by a function that it imported by name, or by assignment, stays at our value."""
    units = frozenset(Unit(layer=Layer(k.split(".")[0]), knob=k.split(".", 1)[1], a="", b=v) for k, v in HELD.items())
    with oracle_of(runs, alone=True) as (oracle, _):
        trial = oracle(units)
        found = {f"{s.layer}.{s.knob}": s.value for s in oracle.read_back(units).settings}
    assert trial.outcome is Outcome.OTHER, trial.reason
    assert {knob: found.get(knob) for knob in HELD} == HELD
    assert trial.inert == ()


def test_the_kept_folder_of_a_trial_holds_its_recording(runs, tmp_path):
    """``--keep-trials`` leaves the recording, the output and the files that the script wrote."""
    with oracle_of(runs, alone=True, keep=tmp_path / "kept", fresh=True) as (oracle, _):
        assert oracle(frozenset()).outcome is Outcome.A
    names = {path.name for path in (tmp_path / "kept").rglob("*")}
    assert {"rank-00000.h5", "output.log", "loss.txt"} <= names
