"""Runs that another version has recorded: said once, and nothing is blamed for what that version did not know."""

from bisect_diverge import __version__
from bisect_diverge.model.environment import Environment, Layer, Setting
from bisect_diverge.model.run import RunRecord
from bisect_diverge.model.trial import Bisection, BisectVerdict
from bisect_diverge.trial.judge import consequences
from bisect_diverge.trial.versions import as_read_by, version_note, with_versions

NOW = RunRecord(version=__version__)


def environment(**values):
    """Return resolved settings of the runtime."""
    return Environment(
        tuple(Setting(layer=Layer.RUNTIME, knob=knob, value=value, resolved=True) for knob, value in values.items())
    )


def test_the_note_names_who_recorded_what():
    """One sentence for one run or for both, none where all are of this version."""
    old, older = RunRecord(version="0.0.9"), RunRecord()
    assert version_note(NOW) == version_note(NOW, NOW) == ""
    assert version_note(old, NOW).startswith("A was recorded by version 0.0.9 of bisect-diverge, and trials are by ")
    assert version_note(NOW, older).startswith("B was recorded by an earlier version of bisect-diverge")
    assert version_note(old, old).startswith("A and B were recorded by version 0.0.9")
    both = "A was recorded by version 0.0.9 and B was recorded by an earlier version of bisect-diverge"
    assert version_note(old, older).startswith(both)


def test_the_version_is_in_the_record():
    """A run record keeps it; one that has none is of an earlier version."""
    row = NOW.to_json()
    assert RunRecord.from_json(row).version == __version__
    del row["version"]
    assert RunRecord.from_json(row).version == ""


def test_what_an_older_version_did_not_know_has_not_moved():
    """A knob without a partner is left out; one that is another now is listed, and so is everything of this version."""
    was, now = environment(glibc="2.31"), environment(glibc="2.36", libm="1f")
    old = RunRecord(version="0.0.9", environment=was)
    assert [row.knob for row in consequences((), was, as_read_by(old, now))] == ["glibc"]
    same = NOW.with_(environment=was)
    assert [row.knob for row in consequences((), was, as_read_by(same, now))] == ["glibc", "libm"]


def test_a_bisection_says_it_once():
    """Its notes get the sentence, or stay as they are."""
    bisection = Bisection(verdict=BisectVerdict.NO_DIFFERENCE)
    assert with_versions(bisection, NOW, NOW) is bisection
    assert with_versions(bisection, RunRecord(), NOW).notes == (version_note(RunRecord(), NOW),)
