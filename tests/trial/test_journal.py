"""Trials are remembered, and only by the search that they belong to."""

from dataclasses import replace
from pathlib import Path

import pytest

from bisect_diverge.errors import ReplayError
from bisect_diverge.model.address import Address
from bisect_diverge.model.environment import Difference, Layer
from bisect_diverge.model.trial import Outcome, Trial, Unit
from bisect_diverge.trial.journal import Journal

UNIT = Unit(layer=Layer.KERNELS, knob="MKL_CBWR", a=None, b="COMPATIBLE")
OTHER = Unit(layer=Layer.SEEDS, knob="PYTHONHASHSEED", a="1", b="2")
TRIAL = Trial(
    n=3,
    base="a",
    swapped=(UNIT,),
    outcome=Outcome.OTHER,
    signature="abc",
    inert=(UNIT,),
    consequences=(Difference(layer=Layer.KERNELS, knob="mkl.cbwr", a="off", b="3"),),
    first_against_a=Address.parse("r0/3/1/forward/model:blocks.2.attn#0:output.0"),
    seconds=1.5,
    stopped_at_step=4,
)


def test_a_trial_comes_back_whole(tmp_path):
    """Everything that a report needs is in the journal."""
    Journal(tmp_path, "a", "b", "step 4").add(TRIAL, 0)
    found = Journal(tmp_path, "a", "b", "step 4").find([UNIT], 0)
    assert found is not None
    assert found.reused
    assert (found.outcome, found.signature, found.inert) == (TRIAL.outcome, TRIAL.signature, TRIAL.inert)
    assert (found.consequences, found.first_against_a) == (TRIAL.consequences, TRIAL.first_against_a)


@pytest.mark.parametrize("other", [("x", "b", "step 4"), ("a", "x", "step 4"), ("a", "b", "step 5")])
def test_another_recording_or_step_has_its_own_journal(tmp_path, other):
    """A run that was recorded again, or a divergence that moved, starts anew."""
    Journal(tmp_path, "a", "b", "step 4").add(TRIAL, 0)
    assert Journal(tmp_path, *other).find([UNIT], 0) is None


@pytest.mark.parametrize(("units", "repeat"), [([], 0), ([OTHER], 0), ([UNIT, OTHER], 0), ([UNIT], 1)])
def test_another_configuration_or_repeat_is_another_trial(tmp_path, units, repeat):
    """A repeat is asked for because the first answer is not enough."""
    journal = Journal(tmp_path, "a", "b", "step 4")
    journal.add(TRIAL, 0)
    assert journal.find(units, repeat) is None
    assert journal.find([UNIT], 0) is not None


def test_a_line_that_was_cut_off_costs_only_itself(tmp_path):
    """Ctrl-C in the middle of a line leaves the lines before it."""
    journal = Journal(tmp_path, "a", "b", "step 4")
    journal.add(TRIAL, 0)
    journal.add(TRIAL, 1)
    (file,) = tmp_path.glob("*.jsonl")
    file.write_bytes(file.read_bytes()[:-40])
    again = Journal(tmp_path, "a", "b", "step 4")
    assert again.find([UNIT], 0) is not None
    assert again.find([UNIT], 1) is None
    again.add(TRIAL, 2)
    assert Journal(tmp_path, "a", "b", "step 4").find([UNIT], 2) is not None


def test_a_trial_that_did_not_run_is_tried_again(tmp_path):
    """What hindered it, a full disk or a missing file, may be gone by the next search."""
    journal = Journal(tmp_path, "a", "b", "step 4")
    journal.add(replace(TRIAL, outcome=Outcome.SKIP), 0)
    assert journal.find([UNIT], 0) is not None
    assert Journal(tmp_path, "a", "b", "step 4").find([UNIT], 0) is None


def test_fresh_forgets(tmp_path):
    """``--fresh`` removes what is there."""
    Journal(tmp_path, "a", "b", "step 4").add(TRIAL, 0)
    assert Journal(tmp_path, "a", "b", "step 4", fresh=True).find([UNIT], 0) is None


def test_a_journal_of_something_else_is_refused(tmp_path):
    """A file that was copied from another run is no memory of this one."""
    Journal(tmp_path, "a", "b", "step 4").add(TRIAL, 0)
    (file,) = tmp_path.glob("*.jsonl")
    file.write_text(file.read_text().replace('"a": "a"', '"a": "z"', 1))
    with pytest.raises(ReplayError, match="another recording"):
        Journal(tmp_path, "a", "b", "step 4")


def test_a_directory_that_cannot_be_written_to_costs_only_the_memory(tmp_path):
    """The search goes on, remembers while it lasts, and says so once: for what is made of it later too."""
    file = tmp_path / "file"
    file.write_text("")
    for folder in (file, file / "trials"):
        said = []
        journal = Journal(folder, "a", "b", "step 4", warn=said.append)
        journal.add(TRIAL, 0)
        journal.add(TRIAL, 1)
        journal.but("until 2").add(TRIAL, 0)
        assert journal.find([UNIT], 0) is not None
        assert said == [f"trials are not remembered for the next search: {folder}: {said[0].rpartition(': ')[2]}"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no file that is always full")
def test_a_full_disk_costs_only_the_memory(tmp_path):
    """One sentence with the system's own words."""
    Journal(tmp_path, "a", "b", "step 4").add(TRIAL, 0)
    (file,) = tmp_path.glob("*.jsonl")
    file.unlink()
    file.symlink_to("/dev/full")
    said = []
    journal = Journal(tmp_path, "a", "b", "step 4", warn=said.append)
    journal.add(TRIAL, 0)
    journal.add(TRIAL, 1)
    assert journal.find([UNIT], 1) is not None
    assert said == [f"trials are not remembered for the next search: {tmp_path}: No space left on device"]


def test_a_journal_without_memory_writes_nothing(tmp_path):
    """What is tried aside of the search is no part of it."""
    journal = Journal(tmp_path, "a", "b", "step 4").but(None)
    journal.add(TRIAL, 0)
    assert journal.find([UNIT], 0) is not None
    assert list(tmp_path.iterdir()) == []
