"""A run that does not repeat itself: what the report says to do about it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import pytest

from bisect_diverge.bisector.search import bisect
from bisect_diverge.bisector.supposed import Effect, World, supposed_units
from bisect_diverge.model.trial import BisectVerdict, Budget, Outcome, SearchOptions, Trial, Unit

UNITS = supposed_units(4)
WORLD = World(units=UNITS, effects=(Effect((frozenset({UNITS[2]}),)),))
CLAMPS = ("one thread", "deterministic algorithms")


@dataclass(frozen=True)
class Racing:
    """A world whose every run is another one, unless one of some sets of clamps is on."""

    calm: tuple[frozenset[str], ...] = ()
    on: frozenset[str] = frozenset()
    sayings: tuple[str, ...] = ()

    def __call__(self, swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
        """Return a trial with the bits of its number, or always the same."""
        signature = "calm" if any(clamps <= self.on for clamps in self.calm) else f"noise {repeat}"
        trial = replace(WORLD(swapped), outcome=Outcome.OTHER, signature=signature)
        return replace(trial, clamps=tuple(sorted(self.on)))

    def clamps(self) -> Sequence[str]:
        """Return the names of all clamps."""
        return CLAMPS

    def clamped(self, clamps: Collection[str]) -> Racing:
        """Return the same with clamps."""
        return replace(self, on=frozenset(clamps))

    def advise(self, _trials: Sequence[Trial]) -> Sequence[str]:
        """Return what was given."""
        return self.sayings


@pytest.mark.parametrize(
    ("calm", "trials", "said"),
    [
        ((frozenset({"one thread"}),), 6, "with one thread alone it repeats itself too (trials 5 and 6)"),
        ((frozenset(CLAMPS),), 6, "with one thread alone it does not (trials 5 and 6)"),
        ((), 4, "with every clamp it does not repeat itself either"),
    ],
)
def test_which_clamp_removes_the_noise(calm: tuple[frozenset[str], ...], trials: int, said: str) -> None:
    """All clamps first, then the likeliest alone; the confidence is printed, and how to search with them."""
    result = bisect(UNITS, Racing(calm))
    notes = "\n".join(result.notes)

    assert result.verdict is BisectVerdict.NOT_REPEATABLE
    assert not result.causes
    assert not result.innocent
    assert len(result.trials) == trials
    assert said in notes
    assert ("--clamp" in notes and "below 78%" in notes) == bool(calm)
    assert ("unseeded generators" in notes) == (not calm)
    assert [bool(trial.clamps) for trial in result.trials[2:]] == [True] * (trials - 2)


def test_clamps_are_tried_within_the_budget() -> None:
    """A spent budget ends that, the verdict stands, and the old advice is given."""
    result = bisect(UNITS, Racing(), SearchOptions(budget=Budget(trials=3)))

    assert result.verdict is BisectVerdict.NOT_REPEATABLE
    assert len(result.trials) == 3
    assert "not tried which clamp removes the noise: the budget of 3 trials is spent" in result.notes


def test_what_the_run_itself_tells_comes_instead_of_trials() -> None:
    """A seed that moves is no matter of clamps."""
    result = bisect(UNITS, Racing(sayings=("the script gives torch.manual_seed another seed each time",)))

    assert len(result.trials) == 2
    assert "the script gives torch.manual_seed another seed each time" in result.notes
    assert not any("unseeded" in note for note in result.notes)


def test_noise_that_shows_only_at_the_end_is_advised_on_too() -> None:
    """The confirmation of a proof is where luck runs out."""

    class Late(Racing):
        def __call__(self, swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
            if self.on or (not swapped and repeat):
                return super().__call__(swapped, repeat=repeat)
            return WORLD(swapped)

    result = bisect(UNITS, Late((frozenset({"one thread"}),)))

    assert result.verdict is BisectVerdict.NOT_REPEATABLE
    assert "with one thread alone it repeats itself too" in "\n".join(result.notes)
