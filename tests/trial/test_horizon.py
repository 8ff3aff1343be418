"""Noise in the step of the divergence, at a later record: what precedes it is judged."""

import pytest

from bisect_diverge.model.address import Address
from bisect_diverge.model.trial import Outcome
from bisect_diverge.store.reader import Run
from bisect_diverge.trial.horizon import horizon_of, precedes
from bisect_diverge.trial.judge import judge
from bisect_diverge.trial.oracle import Trials
from tests.helpers.runs import training_rows, write_run
from tests.trial.pairs import pair_of

EARLY = "r0/1/0/forward/model:0#0:output.0"
LATE = "r0/1/-/optimizer/opt:1.weight#0:grad"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A and B, which differ early in step 1; trials of each, with other noise at the end of it; and a third run."""
    folder = tmp_path_factory.mktemp("horizon")
    changes = {
        "a": {},
        "b": {EARLY: "b"},
        "like_a": {LATE: "noise 1"},
        "like_a_too": {LATE: "noise 2"},
        "like_b": {EARLY: "b", LATE: "noise 3"},
        "neither": {EARLY: "c", LATE: "noise 4"},
    }
    opened = {name: Run(write_run(folder / name, training_rows(change=change))) for name, change in changes.items()}
    yield opened
    for run in opened.values():
        run.close()


def test_only_what_precedes_it_is_judged(runs):
    """With the horizon the trials have A's and B's bits, and the same name for the same bits."""
    horizon = horizon_of(runs["a"], runs["b"], [Address.parse(LATE)])
    found = {name: judge(runs[name], runs["a"], runs["b"], 0, horizon) for name in runs}
    outcomes = {name: judgement.outcome for name, judgement in found.items()}
    assert outcomes == {
        "a": Outcome.A, "b": Outcome.B, "like_a": Outcome.A, "like_a_too": Outcome.A, "like_b": Outcome.B,
        "neither": Outcome.OTHER,
    }  # fmt: skip
    assert found["like_a"].signature == found["like_a_too"].signature == found["a"].signature
    assert found["like_b"].signature == found["b"].signature != found["neither"].signature
    assert str(found["like_b"].first_against_a) == EARLY
    assert found["like_b"].first_against_b is None
    assert str(found["like_a"].first_against_b) == EARLY


def test_without_it_all_is_judged(runs):
    """The noise counts."""
    assert judge(runs["like_a"], runs["a"], runs["b"]).outcome is Outcome.OTHER


def test_the_earliest_address_counts(runs):
    """In A's order of rows, whatever the phase; a divergence behind it is out of reach."""
    a, b = runs["a"], runs["b"]
    late, early = Address.parse(LATE), Address.parse(EARLY)
    assert horizon_of(a, b, [late, early]).address == early
    assert precedes(a, early, horizon_of(a, b, [late]))
    assert not precedes(a, late, horizon_of(a, b, [early]))
    assert not precedes(a, early, horizon_of(a, b, [early]))


def test_an_address_that_a_run_does_not_have_is_no_horizon(runs):
    """Where it cannot be placed nothing is cut."""
    nowhere = Address.parse("r0/1/0/forward/other:0#0:output.0")
    assert horizon_of(runs["a"], runs["b"], [nowhere]) is None
    assert not precedes(runs["a"], nowhere, horizon_of(runs["a"], runs["b"], [Address.parse(LATE)]))


@pytest.mark.parametrize(
    ("noise", "last_step", "by_rows"),
    [
        (["r0/2/0/forward/model:0#0:output.0"], 1, False),
        (["r0/2/0/forward/model:0#0:output.0", LATE], 1, True),
        (["r0/1/0/forward/model:1#0:output.0"], 1, True),
        ([EARLY], None, None),
        (["r0/0/0/forward/model:0#0:output.0"], None, None),
    ],
)
def test_whole_steps_where_that_is_enough_else_rows(runs, noise, last_step, by_rows):
    """Noise in a later step ends trials before it; in the step of the divergence rows are cut, if any is left."""
    a, b = runs["a"], runs["b"]
    limited = Trials(pair_of(a, b, first=Address.parse(EARLY))).limit([Address.parse(text) for text in noise])
    if last_step is None:
        assert limited is None
        return
    assert limited.last_step == last_step
    assert (limited.pair.horizon is not None) == by_rows
    if by_rows:
        assert "only what lies before r0/1/" in limited.observe(frozenset()).reason
