"""Recording must not make the difference that it is searched with."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from bisect_diverge.bisector.search import bisect
from bisect_diverge.bisector.supposed import Effect, World, supposed_units
from bisect_diverge.model.trial import BisectVerdict, Budget, Observation, Observer, SearchOptions, Trial, Unit

UNITS = supposed_units(4)
CAUSE = UNITS[2]
WORLD = World(units=UNITS, effects=(Effect((frozenset({CAUSE}),)),))


@dataclass
class Watched:
    """A world of which two configurations can be run unrecorded."""

    a: Observation
    b: Observation
    asked: int = 0

    def __call__(self, swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
        """Return the world's trial."""
        return WORLD(swapped, repeat=repeat)

    def observe(self, swapped: frozenset[Unit]) -> Observation:
        """Return what was given for A or B."""
        assert not swapped or swapped == frozenset(UNITS)
        self.asked += 1
        return self.b if swapped else self.a


def seen(unrecorded: str, recorded: str) -> Observation:
    """Return what an unrecorded and a recorded run of one side have."""
    return Observation(unrecorded=unrecorded, recorded=recorded, where="the parameters after step 4")


@pytest.mark.parametrize(
    ("a", "b", "observer", "verdict", "said"),
    [
        (seen("a", "a"), seen("b", "b"), "unchanged", "cause", "recording does not change A or B (the parameters"),
        (seen("x", "a"), seen("b", "b"), "changed", "cause", "recording changes the bits of A (the parameters"),
        (seen("x", "a"), seen("y", "b"), "changed", "cause", "recording changes the bits of A and B"),
        (seen("x", "a"), seen("x", "b"), "creates", "inconclusive", "recording creates the effect"),
        (seen("x", "a"), seen("y", "a"), "hides", "inconclusive", "recording destroys the effect"),
        (seen("a", "a"), seen("a", "a"), "unchanged", "cause", "not tested whether recording makes their difference"),
        (
            Observation(reason="no update"),
            seen("b", "b"),
            "not-tested",
            "cause",
            "whether recording changes the bits: no",
        ),
        (seen("a", "a"), Observation(reason="no update"), "not-tested", "cause", "the bits of B: no update"),
    ],
)
def test_what_recording_does(a: Observation, b: Observation, observer: str, verdict: str, said: str) -> None:
    """Each way in which two unrecorded runs can stand to the recorded ones."""
    result = bisect(UNITS, Watched(a, b))

    assert (result.observer, result.verdict) == (Observer(observer), BisectVerdict(verdict))
    assert said in "\n".join(result.notes)
    assert bool(result.causes) == (verdict == "cause")
    if verdict == "inconclusive":
        assert len(result.trials) == 2


@dataclass
class Noisy(Watched):
    """Unrecorded it has other bits each time."""

    def observe(self, swapped: frozenset[Unit]) -> Observation:
        """Return what was given, and other unrecorded bits."""
        return replace(super().observe(swapped), unrecorded=str(self.asked))


def test_noise_is_not_blamed_on_recording() -> None:
    """What differs from the recorded run is run once more; where that differs again, nothing is blamed."""
    watched = Noisy(seen("", "a"), seen("", "b"))
    result = bisect(UNITS, watched)

    assert (result.observer, result.verdict, watched.asked) == (Observer.NOT_TESTED, BisectVerdict.NOT_REPEATABLE, 3)
    assert not result.causes
    assert any("unrecorded, A does not repeat itself" in note for note in result.notes)


def test_it_is_left_out_where_it_is_not_wanted_or_not_possible() -> None:
    """Without it nothing is claimed; with it the number of trials is the same."""
    watched = Watched(seen("a", "a"), seen("b", "b"))
    without = bisect(UNITS, watched, SearchOptions(observe=False))
    assert (without.observer, watched.asked) == (Observer.NOT_TESTED, 0)
    assert not any("recording" in note for note in bisect(UNITS, WORLD).notes)
    assert len(bisect(UNITS, watched).trials) == len(without.trials)
    assert watched.asked == 2


def test_it_costs_runs_of_the_budget() -> None:
    """Two unrecorded runs count, and a spent budget ends the search before the second."""
    watched = Watched(seen("a", "a"), seen("b", "b"))
    result = bisect(UNITS, watched, SearchOptions(budget=Budget(trials=3)))
    assert (len(result.trials), watched.asked, result.finished) == (2, 1, False)


def test_a_noisy_baseline_is_not_observed() -> None:
    """Where A does not repeat itself there is nothing to compare with."""
    watched = Watched(seen("a", "a"), seen("b", "b"))

    class Noisy(Watched):
        def __call__(self, swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
            return replace(WORLD(frozenset(UNITS)), swapped=tuple(swapped), signature=str(repeat))

    noisy = Noisy(watched.a, watched.b)
    assert bisect(UNITS, noisy).verdict is not BisectVerdict.CAUSE
    assert noisy.asked == 0
