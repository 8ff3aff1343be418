"""Trials side by side, and where there must be one at a time."""

import json
import shutil
import sys
import threading
import time
from pathlib import Path

import pytest

from bisect_diverge.bisector.bench import Bench, Stopped
from bisect_diverge.bisector.search import bisect
from bisect_diverge.bisector.supposed import Effect, World
from bisect_diverge.model.environment import Environment, Layer, Setting
from bisect_diverge.model.trial import Budget, Outcome, SearchOptions, Trial, Unit
from bisect_diverge.trial.side_by_side import jobs_for
from tests.helpers.command import bd


def units(count):
    """Return units."""
    return tuple(Unit(layer=Layer.KERNELS, knob=f"k{number}", a="0", b="1") for number in range(count))


class Slow:
    """Counts how many trials run at once; a trial that is stopped is a skip, as the real ones are."""

    def __init__(self, seconds=0.02, stop=lambda: False):
        self.seconds, self.stop = seconds, stop
        self.begun, self.running, self.most = 0, 0, 0
        self.lock = threading.Lock()

    def __call__(self, swapped, *, repeat=0):
        """Take a while, and answer ``=A``."""
        with self.lock:
            self.begun += 1
            self.running += 1
            self.most = max(self.most, self.running)
        time.sleep(self.seconds)
        with self.lock:
            self.running -= 1
        outcome = Outcome.SKIP if self.stop() else Outcome.A
        return Trial(n=1, base="a", swapped=tuple(swapped), outcome=outcome)


def singles(count):
    """Return configurations of one unit each."""
    return [frozenset([unit]) for unit in units(count)]


def test_so_many_run_at_a_time():
    """As many as were asked for, and no more; results come in order."""
    oracle, seen = Slow(), []
    bench = Bench(oracle, Budget(), jobs=3, on_trial=seen.append)
    assert bench.values(singles(9)) == ["=A"] * 9
    assert oracle.most == 3
    assert [set(trial.swapped) for trial in seen] == [set(key) for key in singles(9)]
    assert [trial.n for trial in seen] == list(range(1, 10))


@pytest.mark.parametrize(
    ("budget", "most", "said"),
    [(Budget(trials=4), 4, "the budget of 4 trials is spent"), (Budget(seconds=0.05), 8, "the budget of 0.05 s")],
)
def test_a_budget_ends_trials_side_by_side_too(budget, most, said):
    """What was begun is kept, nothing more is begun, and the reason is told."""
    oracle, seen = Slow(), []
    bench = Bench(oracle, budget, jobs=2, on_trial=seen.append)
    with pytest.raises(Stopped, match=said):
        bench.values(singles(40))
    assert len(seen) == oracle.begun <= most


def test_what_was_cut_off_says_nothing_and_what_had_ended_counts():
    """Ctrl-C while several run: those that had ended are told, no other is begun."""
    stopped = threading.Event()
    oracle = Slow(stop=stopped.is_set)
    seen = []

    def note(trial):
        seen.append(trial)
        stopped.set()

    bench = Bench(oracle, Budget(), jobs=2, on_trial=note, should_stop=stopped.is_set)
    with pytest.raises(Stopped, match="stopped by the user"):
        bench.values(singles(40))
    assert oracle.begun < 40
    assert all(trial.outcome is Outcome.A for trial in seen)


@pytest.mark.parametrize("mode", ["chain", "matrix"])
@pytest.mark.parametrize("effects", [((2,),), ((1,), (4,)), ((0, 3),)])
def test_the_answer_is_that_of_one_at_a_time(mode, effects):
    """Causes, innocents, and the bits of every configuration; only the order of the trials may differ."""
    chosen = units(6)
    world = World(units=chosen, effects=tuple(Effect((frozenset(chosen[i] for i in each),)) for each in effects))

    def answer(jobs):
        found = bisect(chosen, world, SearchOptions(mode=mode, jobs=jobs))
        table = {(frozenset(t.swapped), t.outcome, t.signature) for t in found.trials}
        return found.verdict, found.causes and [(c.units, c.role) for c in found.causes], found.innocent, table

    assert answer(1) == answer(4)


def test_one_at_a_time_where_bits_depend_on_the_load():
    """It is said once, with the setting; one that was asked for needs no words."""
    tuned = Environment((Setting(layer=Layer.KERNELS, knob="compiled.0.mode", value="max-autotune", resolved=True),))
    said = []
    assert jobs_for(4, Environment(), warn=said.append) == 4
    assert jobs_for(1, tuned, warn=said.append) == 1
    assert said == []
    assert jobs_for(4, Environment(), tuned, warn=said.append) == 1
    (sentence,) = said
    assert sentence.startswith("one trial at a time")
    assert sentence.endswith("kernels are chosen by timing (kernels compiled.0.mode: max-autotune)")


@pytest.mark.matrix
def test_real_trials_side_by_side_have_the_bits_that_they_have_alone(tmp_path):
    """Threads come of the processors, not of the load: same verdict, same table; and all are remembered."""
    shutil.copy(Path(__file__).with_name("natural.py"), tmp_path)
    words = ("--", sys.executable, "natural.py")
    bd("record", "-o", "a", *words, cwd=tmp_path)
    bd("record", "-o", "b", *words, "--workers", "1", cwd=tmp_path, OMP_NUM_THREADS="1", MKL_CBWR="COMPATIBLE")

    def answer(*options):
        search = ("bisect", "a", "b", "--mode", "matrix", "--no-observer-check", "--format", "json", *options)
        found = json.loads(bd(*search, cwd=tmp_path).stdout)
        table = {
            (tuple(sorted(unit["knob"] for unit in trial["swapped"])), trial["outcome"], trial["signature"])
            for trial in found["trials"]
        }
        return found["verdict"], [cause["units"] for cause in found["causes"]], table, found["trials"]

    alone = answer("--fresh")
    together = answer("--fresh", "-j", "3")
    assert together[:3] == alone[:3]
    assert any(trial["reused"] for trial in answer("-j", "3")[3])
