"""How far a trial is on the way from A to B."""

import math

import pytest

from bisect_diverge.store.reader import Run
from bisect_diverge.trial.nearness import MOST_NUMBERS, nearness, numbers_at, watched
from tests.helpers.runs import Row, training_rows, write_run

EARLY = "r0/1/0/forward/model:0#0:output.0"


@pytest.fixture
def open_run(tmp_path):
    """Return a function that writes a run and opens it."""
    opened = []

    def write(rows):
        opened.append(Run(write_run(tmp_path / str(len(opened)), rows)))
        return opened[-1]

    yield write
    for run in opened:
        run.close()


def losses(*values, noise=""):
    """Return one record a step: the loss, and beside it one of a module whose bits are noise."""
    rows = []
    for step, value in enumerate(values):
        rows.append(Row(f"r0/{step}/0/forward/model:0#0:output.0", f"bits {noise}"))
        rows.append(Row(f"r0/{step}/0/forward/loss:#0:value", float(value)))
    return rows


def test_the_ends_are_the_records(open_run):
    """A's own bits are 0, B's are 1; other bits lie between, nearer to the run with which they share more."""
    a, b = (open_run(training_rows(change=change)) for change in ({}, {EARLY: "b"}))
    late = open_run(training_rows(change={"r0/2/-/optimizer/opt:1.weight#0:grad": "noise"}))
    assert nearness(a, a, b) == 0
    assert nearness(b, a, b) == 1
    assert 0 < nearness(late, a, b) < 0.5


def test_numbers_count_where_all_bits_are_noise(open_run):
    """Every record differs from both runs, and still the losses say which of them it is like."""
    a, b = open_run(losses(1.0, 0.9, noise=1)), open_run(losses(2.0, 1.8, noise=2))
    like_a, like_b = open_run(losses(1.0001, 0.9001, noise=3)), open_run(losses(1.9999, 1.8001, noise=4))
    assert nearness(like_a, a, b) < 0.3
    assert nearness(like_b, a, b) > 0.7
    middle = nearness(open_run(losses(1.5, 1.35, noise=5)), a, b)
    assert nearness(like_a, a, b) < middle < nearness(like_b, a, b)


def test_numbers_are_taken_at_the_same_places(open_run):
    """Rows of A whose numbers differ in B, spread over all, the last among them; what a trial lacks is infinite."""
    a, b = open_run(losses(*range(1, 41))), open_run(losses(*range(2, 42)))
    rows = watched(a, b, 39)
    assert len(rows) == MOST_NUMBERS
    assert numbers_at(a, a, rows)[0] == 1
    assert numbers_at(b, a, rows)[-1] == 41
    assert watched(a, a, 39) == ()
    assert max(a.first.events["step"][list(watched(a, b, 7))]) == 7
    short = open_run(losses(5.0, float("nan")))
    assert numbers_at(short, a, watched(a, b, 1)) == (5, math.inf)
    assert numbers_at(short, a, rows)[-1] == math.inf
