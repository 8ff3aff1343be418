"""Every sample model repeats itself in a trial, and leaves the user's files alone."""

import shutil
import sys

import pytest

from bisect_diverge.model.trial import Outcome
from bisect_diverge.store.reader import Run
from bisect_diverge.trial.search import TrialOptions, trials
from tests.helpers.command import REPOSITORY, bd
from tests.trial.conftest import contents

pytestmark = pytest.mark.slow

SAMPLES = sorted(path.stem for path in (REPOSITORY / "sample_models").glob("*.py"))


@pytest.mark.parametrize(
    "sample", [name if name == "digits_cnn" else pytest.param(name, marks=pytest.mark.matrix) for name in SAMPLES]
)
def test_a_sample_replayed_is_itself(sample, tmp_path):
    """Recorded, run again in digests only, stopped in the middle: the bits are the recorded ones."""
    shutil.copytree(REPOSITORY / "sample_models", tmp_path / "models")
    command = [sys.executable, f"models/{sample}.py", "--steps", "3", "--out", "model.pt"]
    bd("record", "-o", "a", "--", *command, cwd=tmp_path)
    before = contents(tmp_path)
    with Run(tmp_path / "a") as a, trials(a, None, None, TrialOptions()) as oracle:
        trial = oracle(frozenset())
        written = a.first.record.written
    assert trial.outcome is Outcome.A, (trial.reason, trial.first_against_a)
    assert contents(tmp_path) == before
    assert str(tmp_path / "model.pt") in written
