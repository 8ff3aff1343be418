"""A and B as they are with clamps: what moves by itself is held, and what a run fails without is lent, as ever."""

import pytest

from bisect_diverge.errors import ReplayError
from bisect_diverge.model.environment import Environment, Layer, Setting
from bisect_diverge.model.run import RunRecord
from bisect_diverge.model.sampling import SAMPLED
from bisect_diverge.model.trial import Outcome, Trial, Unit
from bisect_diverge.store.reader import Run
from bisect_diverge.trial import oracle
from bisect_diverge.trial.clamp import CLAMPS, FILLS, can_fill
from bisect_diverge.trial.oracle import Trials
from bisect_diverge.trial.units import Units
from tests.helpers.runs import training_rows, write_run
from tests.trial.pairs import pair_of

RATE = Unit(layer=Layer.CONFIGURATION, knob="argv.--lr", a="1", b="2")


def seeded(value):
    """Return an environment in which torch got a seed."""
    return Environment((Setting(layer=Layer.SEEDS, knob="torch.manual_seed", value=value, resolved=False),))


class Scripted(Trials):
    """Does not run anything: each run of a side is an environment, or a failure."""

    def prepare(self, outcomes):
        """Take what happens, run after run."""
        self.outcomes, self.folders = list(outcomes), []
        return self

    def recording(self, swapped, folder, alter=None):
        """Fail, or note the environment."""
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, str):
            raise ReplayError(outcome)
        self.environments[swapped] = outcome
        return folder


@pytest.fixture
def pair(tmp_path):
    """Two synthetic runs that differ in a unit; A was recorded with seed 17."""
    record = RunRecord(environment=seeded("17"))
    runs = [Run(write_run(tmp_path / name, training_rows(seed=name), record=record)) for name in "ab"]
    yield pair_of(*runs, units=Units(units=(RATE,), untestable=(), resolved=()))
    for run in runs:
        run.close()


def run_of(pair, swapped, *outcomes):
    """Return the object, what came of settling it, and the folders."""
    made = Scripted(pair).prepare(outcomes)
    folders = iter(range(9))
    return made, *made.settled(swapped, lambda: next(folders))


def test_a_seed_that_moves_is_held(pair):
    """A got 18 now and 17 when it was recorded: run once more, with 17 held; B is not asked."""
    made, place, runs = run_of(pair, frozenset(), seeded("18"), seeded("17"))
    assert (place, runs) == (1, 2)
    assert made.held_seeds() == ("torch.manual_seed",)
    made, place, runs = run_of(pair, frozenset({RATE}), seeded("19"))
    assert (place, runs, made.held_seeds()) == (0, 1, ())


def test_what_it_fails_without_is_lent(pair, monkeypatch):
    """B reads what A made: lent, once; where there is nothing to lend, or it fails again, that is an error."""
    monkeypatch.setattr(oracle, "is_lendable", lambda _sides: True)
    both = frozenset({RATE})
    made, place, runs = run_of(pair, both, "No such file: ck.pt", seeded("17"))
    assert (place, runs) == (1, 2)
    free = made.over(pair_of(pair.a, pair.b))
    assert frozenset() in free._lent, "what B is without the clamped units is lent it too"
    with pytest.raises(ReplayError, match="again"):
        run_of(pair, both, "No such file: ck.pt", "again")
    monkeypatch.setattr(oracle, "is_lendable", lambda _sides: False)
    with pytest.raises(ReplayError, match="such file"):
        run_of(pair, both, "No such file: ck.pt")


def test_a_sample_is_taken_from_the_journal_if_it_was_measured(pair):
    """The controls are run anew each time, their samples are not; a trial that was not measured is no sample."""
    trial = Trial(n=1, base="a", swapped=(), outcome=Outcome.OTHER, nearness=0.5)
    plain = Trials(pair)
    assert not plain._may_be_reused(trial, frozenset(), 0)
    assert plain._may_be_reused(trial, frozenset(), SAMPLED)
    measured = Trials(oracle.replace(pair, measured=True))
    bare = oracle.replace(trial, nearness=None)
    assert measured._may_be_reused(trial, frozenset(), SAMPLED)
    assert not measured._may_be_reused(bare, frozenset(), SAMPLED)
    assert not measured._may_be_reused(bare, frozenset({Unit(layer=Layer.SEEDS, knob="x", a="1", b="2")}), 0)


def test_it_is_known_where_the_numbers_of_trials_stand(pair):
    """Once a trial was measured; none of the two runs here has any."""
    measured = Trials(oracle.replace(pair, measured=True))
    assert measured.watched() == ()
    assert measured._measured(pair.a) == (0.0, ())
    measured._watched = (0, 1)
    assert [str(address) for address in measured.watched()] == [str(pair.a.first.address(row)) for row in (0, 1)]
    assert Trials(pair)._measured(pair.a) == (None, ())


@pytest.mark.skipif(not can_fill(), reason="the C library here fills no memory")
def test_memory_is_filled_with_two_bytes(pair):
    """Both are clamps of an oracle; which of the others fills memory too is known."""
    made = Trials(pair)
    assert tuple(made.fills()) == tuple(FILLS)
    assert len(made.fills()) == 2
    assert [name for name in CLAMPS if made.fills_too(name)] == ["deterministic algorithms"]
    assert made.clamped(made.fills()[:1]).pair.clamps == tuple(FILLS)[:1]
