"""A run that does not repeat itself: what the report says to do about it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import pytest

from bisect_diverge.bisector.search import bisect
from bisect_diverge.bisector.supposed import Effect, World, supposed_units
from bisect_diverge.model.address import Address
from bisect_diverge.model.trial import BisectVerdict, Budget, Outcome, SearchOptions, Trial, Unit

UNITS = supposed_units(4)
WORLD = World(units=UNITS, effects=(Effect((frozenset({UNITS[2]}),)),))
CLAMPS = ("one thread", "deterministic algorithms", "PYTHONHASHSEED=0")
FILLS = ("filled with 1", "filled with 2")


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
    ("calm", "trials", "said", "left"),
    [
        ((frozenset({"one thread"}),), 6, "with one thread alone it repeats itself too (trials 5 and 6)", CLAMPS[1:]),
        ((frozenset({CLAMPS[1]}),), 8, f"with {CLAMPS[1]} alone it repeats itself too (trials 7 and 8)", CLAMPS[2:]),
        ((frozenset({CLAMPS[2]}),), 10, f"with {CLAMPS[2]} alone it repeats itself too (trials 9 and 10)", ()),
        ((frozenset(CLAMPS[:2]),), 10, "no clamp is enough alone: there is more than one source of noise", ()),
        ((), 4, "with every clamp it does not repeat itself either", ()),
    ],
)
def test_which_clamp_removes_the_noise(
    calm: tuple[frozenset[str], ...], trials: int, said: str, left: tuple[str, ...]
) -> None:
    """All together, then each alone up to the first that is enough; what was not tried and what helps is told."""
    result = bisect(UNITS, Racing(calm))
    notes = "\n".join(result.notes)

    assert result.verdict is BisectVerdict.NOT_REPEATABLE
    assert not result.causes
    assert not result.innocent
    assert len(result.trials) == trials
    assert said in notes
    assert ("--clamp" in notes and "below 78%" in notes) == bool(calm)
    assert (f"not tried alone: {', '.join(left)}" in notes) == bool(left)
    assert result.remedies == (*(("--clamp",) if calm else ()), "--confidence 95")
    assert "--confidence 95 searches by repeats" in notes
    assert ("unseeded generators" in notes) == (not calm)
    assert [bool(trial.clamps) for trial in result.trials[2:]] == [True] * (trials - 2)


@pytest.mark.parametrize("outcome", [Outcome.A, Outcome.B])
def test_repeats_that_agree_now_and_then_ask_for_more_of_them(outcome: Outcome) -> None:
    """Where repeats of A agree now and then, two that agree under a clamp are no proof that it removes the noise."""

    @dataclass(frozen=True)
    class Salted(Racing):
        """A's replays are now a record, now not; under the second clamp the third trial is another one."""

        def __call__(self, swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
            trial = super().__call__(swapped, repeat=repeat)
            if CLAMPS[2] in self.on:
                return trial
            if CLAMPS[0] in self.on:  # lucky four times
                return replace(trial, signature="order 0")
            if self.on:
                return replace(trial, signature=f"order {repeat // 2}")
            return trial if repeat == 0 else replace(trial, outcome=outcome, signature="")

    result = bisect(UNITS, Salted((frozenset({CLAMPS[2]}),)))
    notes = "\n".join(result.notes)
    assert result.verdict is BisectVerdict.NOT_REPEATABLE
    assert "4 identical repeats bound the rate of flakes below 53%" in notes
    assert f"with {CLAMPS[1]} alone it does not" in notes
    for clamp in (CLAMPS[0], CLAMPS[2]):
        assert f"with {clamp} alone it repeats itself too" in notes
    assert "not tried alone" not in notes


def test_clamps_are_tried_within_the_budget() -> None:
    """A spent budget ends that, the verdict stands, and the old advice is given."""
    result = bisect(UNITS, Racing(), SearchOptions(budget=Budget(trials=3)))

    assert result.verdict is BisectVerdict.NOT_REPEATABLE
    assert len(result.trials) == 3
    assert any(note.endswith("or not to the end: the budget of 3 trials is spent") for note in result.notes)
    assert "--clamp" in result.remedies
    some = bisect(UNITS, Racing((frozenset({CLAMPS[1]}),)), SearchOptions(budget=Budget(trials=7)))
    assert f"not tried alone: {CLAMPS[1]}, {CLAMPS[2]}" in some.notes
    assert some.remedies == ("--clamp", "--confidence 95")


def test_what_the_run_itself_tells_comes_instead_of_trials() -> None:
    """A seed that moves is no matter of clamps."""
    result = bisect(UNITS, Racing(sayings=("the script gives torch.manual_seed another seed each time",)))

    assert len(result.trials) == 2
    assert "the script gives torch.manual_seed another seed each time" in result.notes
    assert not any("unseeded" in note for note in result.notes)
    assert not result.remedies


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


@dataclass(frozen=True)
class Reading(Racing):
    """A world that reads memory that nobody has written: the bits follow what it is filled with."""

    repeats: bool = False
    """Whether it has the same bits each time where memory is not filled: luck."""
    follows: bool = True
    """Whether filled memory shows."""
    races: bool = False
    """Whether threads race as well."""

    def __call__(self, swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
        """Return a trial whose bits are made of all that."""
        filled = [name for name in FILLS if name in self.on]
        noise = self.races and not self.on & set(CLAMPS[:2])
        hidden = CLAMPS[1] in self.on
        if self.repeats and not (filled and self.follows):
            return replace(WORLD(frozenset()), swapped=tuple(swapped), clamps=tuple(self.on))
        parts = [filled[0] if filled and self.follows else "calm" if hidden or filled else f"garbage {repeat}"]
        parts += [f"race {repeat} {len(self.on)}"] if noise else []
        return replace(WORLD(swapped), outcome=Outcome.OTHER, signature=" ".join(parts), clamps=tuple(self.on))

    def fills(self) -> Sequence[str]:
        """Return the names of what fills memory."""
        return FILLS

    def fills_too(self, clamp: str) -> bool:
        """Deterministic algorithms fill it as well."""
        return clamp == CLAMPS[1]

    def parted(self, _swapped: frozenset[Unit], one: Collection[str], other: Collection[str]) -> Address | None:
        """Return a place."""
        assert set(one) ^ set(other) == set(FILLS)
        return Address.parse("r0/1/0/forward/model:0#0:output.0")


@pytest.mark.parametrize("races", [False, True])
def test_memory_that_nobody_has_written_is_named(races: bool) -> None:
    """That deterministic algorithms help names no cause, for they fill memory: the trials with filled memory do."""
    result = bisect(UNITS, Reading(races=races))
    notes = "\n".join(result.notes)

    assert result.verdict is BisectVerdict.NOT_REPEATABLE
    assert "with deterministic algorithms alone it repeats itself too" in notes or races
    assert "reads memory that nobody has written: its bits follow what memory is filled with" in notes
    assert "with filled with 1 trials" in notes
    assert "first seen at r0/1/0/forward/model:0#0:output.0" in notes
    assert "torch.empty" in notes
    assert "--clamp" in result.remedies


def test_a_race_is_no_unwritten_memory() -> None:
    """What deterministic algorithms repair and filled memory does not move is not blamed on memory."""
    result = bisect(UNITS, Reading(follows=False, races=True))
    assert not any("reads memory" in note for note in result.notes if "what memory is filled with (" in note)
    assert any(note.startswith("what memory is filled with makes no difference") for note in result.notes)


def test_noise_that_no_clamp_removes_is_not_blamed_on_memory() -> None:
    """Trials with one filling that differ say nothing."""

    class Clock(Reading):
        def __call__(self, swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
            return replace(super().__call__(swapped), signature=f"{sorted(self.on)} {repeat}")

    result = bisect(UNITS, Clock())
    assert any(note.startswith("not told whether it reads memory that nobody has written") for note in result.notes)
    assert len(result.trials) == 6


@pytest.mark.parametrize("follows", [True, False])
def test_luck_is_seen_through_where_there_is_nothing_to_blame(follows: bool) -> None:
    """A repeats itself and nothing that was recorded makes B: one trial with filled memory tells whether to go on."""
    result = bisect(UNITS, Reading(repeats=True, follows=follows))
    notes = "\n".join(result.notes)

    assert result.verdict is BisectVerdict.INCONCLUSIVE
    assert ("its bits follow what memory is filled with" in notes) == follows
    assert ("gives the same bits: no memory is read that nobody has written" in notes) == (not follows)
    assert sum(bool(trial.clamps) for trial in result.trials) == (4 if follows else 1)


@pytest.mark.parametrize(("most", "said"), [(4, "not tried whether it reads memory"), (7, "not looked where")])
def test_a_spent_budget_keeps_what_is_known_of_memory(most: int, said: str) -> None:
    """The verdict was settled before; what the trials so far have shown is told."""
    result = bisect(UNITS, Reading(repeats=True), SearchOptions(budget=Budget(trials=most)))
    assert result.finished
    assert any(said in note for note in result.notes)
    assert any("its bits follow" in note for note in result.notes) == (most == 7)


@pytest.mark.parametrize("units", [(), UNITS])
def test_two_trials_that_differ_decide_whatever_they_were_made_for(units: tuple[Unit, ...]) -> None:
    """Noise that shows only where memory is filled is noise: not "what differs was not recorded", and what helps."""

    class Lucky(Reading):
        """Replays have A's bits by luck, with anything held they have not; the third clamp removes the noise."""

        def __call__(self, swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
            trial = replace(WORLD(frozenset()), swapped=tuple(swapped), clamps=tuple(self.on))
            if CLAMPS[2] in self.on or not self.on:
                return trial
            return replace(trial, outcome=Outcome.OTHER, signature=f"order {repeat}")

    result = bisect(units, Lucky(), first=Address.parse("r0/1/-/optimizer/opt:0.weight#0:grad"))
    notes = "\n".join(result.notes)
    assert result.verdict is BisectVerdict.NOT_REPEATABLE
    assert not result.causes
    assert "was not recorded" not in notes
    assert f"A does not repeat itself (trials 4 and 5, with {FILLS[0]} in both): nothing can be blamed" in notes
    assert f"with {CLAMPS[2]} alone it repeats itself too" in notes
    assert result.remedies == ("--clamp", "--confidence 95")


def test_what_another_oracle_judged_is_not_compared() -> None:
    """Of trials before the horizon was found, and of those without a signature, nobody knows whether they differ."""

    class Nameless(Reading):
        def __call__(self, swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
            trial = replace(WORLD(frozenset()), swapped=tuple(swapped), clamps=tuple(self.on))
            return replace(trial, outcome=Outcome.OTHER, signature="") if self.on else trial

    assert bisect((), Nameless(), first=Address.parse("r0/1/-/optimizer/opt:0.weight#0:grad")).verdict is (
        BisectVerdict.INCONCLUSIVE
    )


def test_filled_memory_can_break_a_run() -> None:
    """An index that nobody wrote ends the script; said, and nothing claimed."""

    class Broken(Reading):
        def __call__(self, swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
            if self.on & set(FILLS):
                return Trial(n=0, base="a", swapped=(), outcome=Outcome.SKIP, reason="IndexError")
            return super().__call__(swapped, repeat=repeat)

    result = bisect(UNITS, Broken())
    assert any("with filled with 1 it does not run" in note and "IndexError" in note for note in result.notes)
