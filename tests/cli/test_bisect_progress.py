"""What ``bd bisect`` tells while it runs, to people and to programs."""

import json
import re
import signal

import pytest

from bisect_diverge.cli.bisect import _status
from bisect_diverge.cli.progress import JsonProgress, Progress
from bisect_diverge.model.address import Address
from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import Bisection, BisectVerdict, Outcome, Trial, Unit
from bisect_diverge.trial.workspace import Scratch
from tests.helpers.command import REPOSITORY

EVENTS = re.compile(r"^\| `(\w+)` \| (.*) \|$", re.MULTILINE)
"""A row of the table of events."""


def test_what_the_user_should_know_at_once(capfd):
    """A line for people; an object for programs, among the other objects."""
    Progress().say("train.py has changed")
    assert capfd.readouterr().err == "bd: train.py has changed\n"
    JsonProgress().say("train.py has changed")
    assert json.loads(capfd.readouterr().err) == {"event": "note", "text": "train.py has changed"}


def test_the_events_are_those_of_the_page(capfd):
    """``docs/json.md`` lists each event with its keys."""
    page = (REPOSITORY / "docs" / "json.md").read_text().partition("# The progress of a search")[2]
    listed = {event: set(re.findall(r"`(\w+)`(?: \(|:|,|$)", keys)) for event, keys in EVENTS.findall(page)}
    unit = Unit(layer=Layer.HARDWARE, knob="threads.intra_op", a="2", b="1")
    trial = Trial(n=1, base="a", swapped=(unit,), outcome=Outcome.A)
    progress = JsonProgress()
    progress.planned([unit], [], 4, Address.parse("r0/0/0/forward/model:1#0:output.0"))
    progress.say("train.py has changed")
    progress.announce(frozenset({unit}))
    progress.observing(frozenset())
    progress._tell("output", line="loss 1")
    progress.on_trial(trial)
    progress.result(Bisection(verdict=BisectVerdict.CAUSE))
    told = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert {event.pop("event"): set(event) for event in told} == listed


def test_lines_say_how_much_is_left_and_fit_the_terminal(capfd, monkeypatch):
    """People see how many trials one cause still takes; the line that is taken away again is one row."""
    monkeypatch.setenv("COLUMNS", "60")
    progress = Progress()
    progress.of = 7
    progress.on_trial(Trial(n=3, base="a", swapped=(), outcome=Outcome.A, seconds=34))
    assert capfd.readouterr().err == "bd: trial 3 of ~7 · A · =A · 34.0 s · ~4 left\n"
    progress._live = True
    progress.announce(frozenset(Unit(layer=Layer.HARDWARE, knob=f"threads.{n}" * 3, a=None, b="1") for n in range(4)))
    assert len(capfd.readouterr().err) < 60


def test_the_number_of_trials_is_an_estimate_that_grows(capfd):
    """Repeats and partners may take more than was planned."""
    progress = Progress()
    progress.of = 2
    trial = Trial(n=3, base="a", swapped=(), outcome=Outcome.A, seconds=1)
    progress.on_trial(trial)
    assert "trial 3 of ~3" in capfd.readouterr().err


def test_both_signals_end_the_search_and_are_given_back(capfd):
    """The first asks for the end; afterwards the handlers are those from before."""
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    for number in (signal.SIGINT, signal.SIGTERM):
        with Progress() as progress:
            assert not progress.should_stop()
            signal.raise_signal(number)
            assert progress.should_stop()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert "once more to leave at once" in capfd.readouterr().err


def test_a_folder_that_is_followed_is_held_and_removed(tmp_path, monkeypatch, capfd):
    """It is a scratch directory like that of any search."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with JsonProgress() as progress:
        assert isinstance(progress._own, Scratch)
        assert progress.keep.is_dir()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("verdict", "outcomes", "finished", "status"),
    [
        ("cause", (Outcome.B,), True, 0),
        ("no-difference", (), True, 1),
        ("by-elimination", (Outcome.SKIP, Outcome.A), True, 3),
        ("inconclusive", (Outcome.SKIP,), False, 3),
        ("baseline-not-repeatable", (), True, 4),
        ("inconclusive", (Outcome.SKIP, Outcome.SKIP), True, 5),
        ("by-elimination", (Outcome.SKIP,), True, 5),
    ],
)
def test_exit_status(verdict, outcomes, finished, status):
    """5 is for a search in which A runs, and nothing with a value of B does."""
    unit = Unit(layer=Layer.DEPENDENCIES, knob="toy", a="1", b="2")
    trials = [Trial(n=1, base="a", swapped=(), outcome=Outcome.A)]
    trials += [Trial(n=2, base="a", swapped=(unit,), outcome=outcome) for outcome in outcomes]
    found = Bisection(verdict=BisectVerdict(verdict), trials=tuple(trials), finished=finished)
    assert _status(found) == status


def test_unrecorded_runs_are_announced(capfd):
    """They are no trials and have no line of their own."""
    unit = Unit(layer=Layer.HARDWARE, knob="threads.intra_op", a="2", b="1")
    Progress().observing(frozenset())
    assert capfd.readouterr().err == "bd: running A unrecorded, to see whether recording changes it ...\n"
    JsonProgress().observing(frozenset({unit}))
    assert json.loads(capfd.readouterr().err) == {"event": "unrecorded", "of": "B"}


def test_two_values_of_one_knob_have_different_lines(capfd):
    """Where knobs are varied the value tells one trial from the next."""
    progress = Progress()
    progress.values = True
    unit = Unit(layer=Layer.HARDWARE, knob="threads.intra_op", a="2", b="1")
    progress.on_trial(Trial(n=1, base="a", swapped=(unit,), outcome=Outcome.A, seconds=1))
    assert "A + {threads.intra_op=1}" in capfd.readouterr().err


def test_a_trial_is_announced_after_a_long_one(capfd):
    """Where no line can be taken away, a log is told of what will take long again, and of nothing else."""
    progress = Progress()
    progress._live = False
    progress.of = 7
    unit = Unit(layer=Layer.HARDWARE, knob="threads.intra_op", a="2", b="1")
    progress.announce(frozenset())
    progress.on_trial(Trial(n=1, base="a", swapped=(), outcome=Outcome.A, seconds=19.9))
    progress.announce(frozenset({unit}))
    assert "runs:" not in capfd.readouterr().err
    progress.on_trial(Trial(n=2, base="a", swapped=(), outcome=Outcome.A, seconds=48.2))
    capfd.readouterr()
    progress.announce(frozenset({unit}))
    assert capfd.readouterr().err == "bd: trial 3 of ~7 runs: A + {threads.intra_op}; the last one took 48 s\n"
    progress.jobs = 2
    progress.announce(frozenset())
    assert capfd.readouterr().err == "bd: a trial runs: A; the last one took 48 s\n"
