"""Controls, budgets, drill-down and the wording of what stays open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from bisect_diverge.bisector.plan import ORDER, middles, ordered
from bisect_diverge.bisector.price import price
from bisect_diverge.bisector.search import bisect
from bisect_diverge.bisector.supposed import Effect, World, supposed_units
from bisect_diverge.errors import ReplayError
from bisect_diverge.model.address import Address, Phase
from bisect_diverge.model.environment import Difference, Layer
from bisect_diverge.model.trial import (
    Bisection,
    BisectVerdict,
    Budget,
    Oracle,
    Outcome,
    Role,
    SearchOptions,
    Trial,
    Unit,
    Untested,
)

EIGHT = supposed_units(8)
CAUSE = EIGHT[3]
WORLD = World(units=EIGHT, effects=(Effect((frozenset({CAUSE}),)),))


def at(step: int) -> Address:
    """Return an address in a step."""
    return Address(
        rank=0, step=step, micro_batch="0", phase=Phase.FORWARD, root="model", fqn="", call=0, slot="output.0"
    )


def both(*units: Unit) -> Effect:
    """Return an effect of these units together."""
    return Effect((frozenset(units),))


def notes(result: Bisection) -> str:
    """Return the notes as one text."""
    return "\n".join(result.notes)


@dataclass
class Scripted:
    """An oracle that answers from a world, except where it is told otherwise."""

    world: World
    a: Sequence[Trial] = ()
    """Answers for A, repeat by repeat; the last one stands for the rest."""
    b: Sequence[Trial] = ()
    """Answers for B."""
    limited: Oracle | None = None

    def __call__(self, swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
        """Return the scripted answer if there is one."""
        script = self.a if not swapped else self.b if swapped == frozenset(self.world.units) else ()
        return script[min(repeat, len(script) - 1)] if script else self.world(swapped, repeat=repeat)

    def limit(self, differing: Sequence[Address]) -> Oracle | None:
        """Return the oracle for the deterministic prefix."""
        self.differing = differing
        return self.limited


def other(signature: str, step: int = 1) -> Trial:
    """Return a trial with bits of its own."""
    return Trial(
        n=0,
        base="a",
        swapped=(),
        outcome=Outcome.OTHER,
        signature=signature,
        first_against_a=at(step),
        first_against_b=at(step),
    )


def test_order() -> None:
    """Units are moved from the outside in, in a given order within a layer, each once."""
    units = [Unit(layer=layer, knob=knob, a="0", b="1") for layer in Layer for knob in "zy"]
    chain = ordered([*units, *units])

    assert [unit.layer for unit in chain[::2]] == list(ORDER)
    assert [unit.knob for unit in chain] == ["z", "y"] * 9


def test_cuts_between_layers_come_first() -> None:
    """A cut between layers is preferred to the middle where it costs no further halving."""
    layers = [Layer.RUNTIME] * 4 + [Layer.SEEDS] * 7
    units = [Unit(layer=layer, knob=str(i), a="0", b="1") for i, layer in enumerate(layers)]

    assert middles(units, 0, 11)[0] == 4
    assert middles(units, 4, 11)[0] == 7
    assert sorted(middles(units, 0, 4)) == [1, 2, 3]


def test_no_units() -> None:
    """Where nothing differs and no divergence is known, there is nothing to bisect and nothing is run."""
    result = bisect([], WORLD)

    assert result.verdict is BisectVerdict.NO_DIFFERENCE
    assert not WORLD.asked or not result.trials


def test_no_units_but_a_divergence() -> None:
    """A known divergence without any differing unit is no proof that A and B are equal: A is replayed."""
    result = bisect([], World(units=(), effects=()), first=at(3))

    assert result.verdict is BisectVerdict.INCONCLUSIVE
    assert len(result.trials) == 3  # one replay may be luck
    assert "not recorded" in notes(result)


def test_only_untestable_units() -> None:
    """What cannot be swapped remains by elimination, if A replays."""
    row = Untested(unit=CAUSE, reason="another GPU")
    result = bisect([], World(units=(), effects=()), untestable=[row])

    assert result.verdict is BisectVerdict.BY_ELIMINATION
    assert result.causes[0].units == (CAUSE,)
    assert not result.causes[0].sufficient
    assert result.untestable == (row,)


def test_by_elimination() -> None:
    """All testable units at B's values leave A: the rest is named; the testable ones may be its partners."""
    row = Untested(unit=CAUSE, reason="another GPU")
    testable = [unit for unit in EIGHT if unit != CAUSE]
    result = bisect(testable, replace(WORLD, effects=()), untestable=[row])

    assert result.verdict is BisectVerdict.BY_ELIMINATION
    assert [cause.units for cause in result.causes] == [(CAUSE,)]
    assert result.causes[0].necessary
    assert not result.innocent
    assert any("may act together with" in note for note in result.notes)
    assert len(result.trials) == 3  # B's control is repeated: noise may give A's bits by chance


def test_untestable_exonerated() -> None:
    """B reached without the untestable unit: it is not needed, and whether it does the same is not known."""
    row = Untested(unit=EIGHT[0], reason="another GPU")
    result = bisect([unit for unit in EIGHT if unit != EIGHT[0]], WORLD, untestable=[row])

    assert result.verdict is BisectVerdict.CAUSE
    assert result.causes[0].units == (CAUSE,)
    assert "it is not needed for B; whether it would do the same as what was found is not tested" in notes(result)


def test_untestable_part() -> None:
    """The untestable has part in B, later: the cause of the divergence is found all the same, as its start."""
    testable = tuple(unit for unit in EIGHT if unit != EIGHT[7])
    world = World(units=EIGHT, effects=(both(CAUSE), both(EIGHT[7])))
    row = Untested(unit=EIGHT[7], reason="another GPU")
    result = bisect(testable, world, untestable=[row], first=at(0))

    assert result.verdict is BisectVerdict.CAUSE
    (cause,) = result.causes
    assert (cause.units, cause.role, cause.sufficient, cause.necessary) == ((CAUSE,), Role.STARTS, False, True)
    assert "has part" in notes(result)


def test_untestable_part_at_the_divergence() -> None:
    """Where the untestable acts at the divergence itself, what was found proves nothing about it."""
    testable = tuple(unit for unit in EIGHT if unit != EIGHT[7])
    world = World(units=EIGHT, effects=(both(EIGHT[7]), both(CAUSE)))
    result = bisect(testable, world, untestable=[Untested(unit=EIGHT[7], reason="GPU")], first=at(0))

    assert result.verdict is BisectVerdict.INCONCLUSIVE
    assert not result.causes[0].same_divergence
    assert "another divergence" in notes(result)


def test_something_unrecorded_moved() -> None:
    """A's repeats agree with one another and not with the record: said so, and nothing blamed."""
    result = bisect(EIGHT, Scripted(WORLD, a=[other("x"), other("x")]))

    assert result.verdict is BisectVerdict.INCONCLUSIVE
    assert not result.causes
    assert "not recorded has moved" in notes(result)
    assert f"not decided: {', '.join(map(str, ordered(EIGHT)))}" in notes(result)
    assert len(result.trials) == 3


def test_b_not_reached_by_its_own_environment() -> None:
    """B's recorded environment gives A: what differs was not recorded."""
    result = bisect(EIGHT, replace(WORLD, effects=()))

    assert result.verdict is BisectVerdict.INCONCLUSIVE
    assert "not recorded" in notes(result)
    assert len(result.trials) == 3


@pytest.mark.parametrize("side", ["a", "b"])
def test_baseline_not_repeatable(side: str) -> None:
    """Repeats that differ blame nothing; the horizon is the earliest address at which one differs."""
    oracle = Scripted(WORLD, **{side: [other("x", 4), other("y", 2)]})
    result = bisect(EIGHT, oracle)

    assert result.verdict is BisectVerdict.NOT_REPEATABLE
    assert not result.causes
    assert not result.innocent
    assert f"horizon is {at(2)}" in notes(result)


def test_more_repeats_of_the_controls() -> None:
    """More repeats of the controls see noise that one does not."""
    good = replace(WORLD(frozenset()), n=0)
    oracle = Scripted(WORLD, a=[good, good, other("x")])

    assert bisect(EIGHT, oracle).verdict is BisectVerdict.CAUSE
    result = bisect(EIGHT, oracle, SearchOptions(budget=Budget(repeats=3)))
    assert result.verdict is BisectVerdict.NOT_REPEATABLE


def test_divergence_before_the_horizon() -> None:
    """Noise behind the divergence is no obstacle for an oracle that judges only what precedes it."""
    oracle = Scripted(WORLD, a=[other("x", 7), other("y", 5)], limited=WORLD)
    result = bisect(EIGHT, oracle, first=at(0))

    assert result.verdict is BisectVerdict.CAUSE
    assert result.causes[0].units == (CAUSE,)
    assert list(oracle.differing) == [at(7), at(5)]
    assert "A does not repeat itself to the end; the horizon is" in notes(result)
    assert "only that is judged" in notes(result)
    assert result.notes[:2] == tuple(f"{side} replayed 2 times: identical up to the horizon" for side in "AB")


def test_noise_in_mixed_configurations() -> None:
    """Other bits at every turn are repeated once, found to be noise, and end the search without a cause."""
    count = iter(range(1000))

    def oracle(swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
        known = WORLD(swapped)
        if not swapped or len(swapped) == len(EIGHT):
            return known
        return replace(known, outcome=Outcome.OTHER, signature=f"noise {next(count)}")

    result = bisect(EIGHT, oracle)

    assert result.verdict is BisectVerdict.INCONCLUSIVE
    assert not any(cause.sufficient for cause in result.causes)
    assert "does not repeat itself" in notes(result)
    assert len(result.trials) < 10


def test_a_does_not_run() -> None:
    """A that does not run ends the search with the reason."""
    skip = Trial(n=0, base="a", swapped=(), outcome=Outcome.SKIP, reason="No module named 'torch'")
    result = bisect(EIGHT, Scripted(WORLD, a=[skip]))

    assert result.verdict is BisectVerdict.INCONCLUSIVE
    assert "No module named 'torch'" in notes(result)
    assert len(result.trials) == 1


def test_b_does_not_run_with_one_unit() -> None:
    """The unit with which B does not run is given up as untestable; the others are searched."""
    bad = EIGHT[5]
    world = replace(WORLD, needs=((bad, Unit(layer=Layer.SOURCE, knob="none", a=None, b=None)),))
    result = bisect(EIGHT, world)

    assert result.verdict is BisectVerdict.CAUSE
    assert result.causes[0].units == (CAUSE,)
    assert [row.unit for row in result.untestable] == [bad]
    assert "ImportError" in result.untestable[0].reason


@pytest.mark.parametrize("most", range(10))
def test_budget(most: int) -> None:
    """A search out of budget says so; it names a cause only once that is proved."""
    result = bisect(EIGHT, WORLD, SearchOptions(budget=Budget(trials=most)))

    assert len(result.trials) == min(most, 9)
    assert result.finished == (most >= 9)
    proved = most >= 9
    assert (result.verdict is BisectVerdict.CAUSE) == proved
    assert ("budget" in notes(result)) != proved
    if not proved:
        assert not result.innocent
        assert "not decided" in notes(result)


def test_seconds() -> None:
    """The budget in seconds is wall time."""
    clock = iter(range(0, 1000, 10)).__next__
    result = bisect(EIGHT, WORLD, SearchOptions(budget=Budget(seconds=25)), clock=clock)

    assert len(result.trials) == 2
    assert "budget of 25 s" in notes(result)


def test_reused_trials_cost_nothing() -> None:
    """Trials taken from a journal do not count against the budget."""

    def oracle(swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
        return replace(WORLD(swapped, repeat=repeat), reused=True)

    assert bisect(EIGHT, oracle, SearchOptions(budget=Budget(trials=1))).verdict is BisectVerdict.CAUSE


def test_stopped_by_the_user() -> None:
    """A stop leaves what is known, every trial reported once."""
    seen: list[Trial] = []
    result = bisect(EIGHT, WORLD, on_trial=seen.append, should_stop=lambda: len(seen) == 6)

    assert result.trials == tuple(seen)
    assert not result.finished
    assert result.verdict is BisectVerdict.INCONCLUSIVE
    assert "stopped by the user" in notes(result)


def test_a_trial_that_is_cut_off() -> None:
    """A trial that was ended because the search was is not counted, and nothing is concluded from it."""
    stopped: list[bool] = []

    def oracle(swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
        if len(swapped) != 4:
            return WORLD(swapped, repeat=repeat)
        stopped.append(True)
        return replace(WORLD(swapped), outcome=Outcome.SKIP, reason="interrupted")

    result = bisect(EIGHT, oracle, should_stop=lambda: bool(stopped))

    assert not result.finished
    assert len(result.trials) == 2
    assert "stopped by the user" in notes(result)


@pytest.mark.parametrize("repeats", [1, 2])
def test_stop_after_the_proof(repeats: int) -> None:
    """A cause that is proved before the stop stays proved, if A and B were replayed often enough."""
    world = World(units=EIGHT, effects=(both(CAUSE), Effect((frozenset({EIGHT[0]}), frozenset({EIGHT[6]})), True)))
    full = bisect(EIGHT, world, SearchOptions(budget=Budget(repeats=repeats)))
    cut = bisect(EIGHT, world, SearchOptions(budget=Budget(trials=len(full.trials) - 1, repeats=repeats)))

    assert not cut.finished
    assert cut.verdict in {BisectVerdict.CAUSE, BisectVerdict.INCONCLUSIVE}
    proved = any(c.sufficient and c.necessary for c in cut.causes)
    assert (cut.verdict is BisectVerdict.CAUSE) == (proved and repeats > 1)
    assert ("not replayed again" in notes(cut)) == (proved and repeats == 1)


def test_inert_halves_are_partners() -> None:
    """Two units that are inert alone and act together are a cause, with what moved under them."""
    threads, dynamic = EIGHT[1], EIGHT[6]
    world = World(units=EIGHT, effects=(both(threads, dynamic),), dead=frozenset({EIGHT[2]}))
    result = bisect(EIGHT, world)

    (cause,) = result.causes
    assert set(cause.units) == {threads, dynamic}
    assert (cause.role, cause.sufficient, cause.necessary) == (Role.PARTNERS, True, True)
    assert [row.knob for row in cause.consequences] == ["resolved.0"]
    assert [row.unit for row in result.inert] == [EIGHT[2]]
    for unit in cause.units:
        assert any(t.swapped == (unit,) and t.inert == (unit,) for t in result.trials)


def test_what_moved_by_itself_is_no_consequence() -> None:
    """What A's replay has too, since something was installed meanwhile, was not moved by what was swapped."""
    world = World(units=EIGHT, effects=(both(CAUSE),))
    drift = Difference(layer=Layer.RUNTIME, knob="libfoo", a="1", b="2")

    def later(swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
        trial = world(swapped, repeat=repeat)
        return replace(trial, consequences=(drift, *trial.consequences))

    (cause,) = bisect(EIGHT, later).causes
    assert [row.knob for row in cause.consequences] == ["resolved.0"]


def test_redundant() -> None:
    """Two units that do the same are both named, each sufficient and neither necessary."""
    world = World(units=EIGHT, effects=(Effect((frozenset({EIGHT[1]}), frozenset({EIGHT[6]}))),))
    result = bisect(EIGHT, world)

    assert {cause.units for cause in result.causes} == {(EIGHT[1],), (EIGHT[6],)}
    assert {(c.role, c.sufficient, c.necessary) for c in result.causes} == {(Role.REDUNDANT, True, False)}
    assert len(result.innocent) == 6


def test_two_causes_and_which_starts() -> None:
    """Of two independent causes the one at whose place B differs is said to start the divergence."""
    world = World(units=EIGHT, effects=(both(EIGHT[6]), both(EIGHT[1])))
    result = bisect(EIGHT, world, first=at(0))

    joint, start = result.causes
    assert (set(joint.units), joint.role, joint.same_divergence) == ({EIGHT[6], EIGHT[1]}, Role.PARTNERS, True)
    assert (start.units, start.role, start.sufficient) == ((EIGHT[6],), Role.STARTS, False)


def test_covered() -> None:
    """A unit that changes A, though B is the same without it, is covered and not innocent."""

    def oracle(swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
        shown = swapped - {EIGHT[0]} if CAUSE in swapped else swapped
        return world(shown, repeat=repeat)

    world = World(units=EIGHT, effects=(both(CAUSE), both(EIGHT[0])))
    full = frozenset({0})

    def judged(swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
        trial = oracle(swapped, repeat=repeat)
        tags = world.bits(swapped - {EIGHT[0]} if CAUSE in swapped else swapped)
        outcome = Outcome.B if tags == full else Outcome.OTHER if tags else Outcome.A
        return replace(trial, outcome=outcome, swapped=tuple(swapped))

    result = bisect(EIGHT, judged)

    assert result.verdict is BisectVerdict.CAUSE
    roles = {cause.units: cause.role for cause in result.causes}
    assert roles == {(CAUSE,): Role.CAUSE, (EIGHT[0],): Role.MASKED}
    assert EIGHT[0] not in result.innocent


@pytest.mark.parametrize("partner", [None, EIGHT[6]])
def test_drill_down(partner: Unit | None) -> None:
    """A guilty unit is taken apart by the same routine, with its partner swapped, and nothing is run twice."""
    parts = tuple(replace(CAUSE, knob=f"{CAUSE.knob}.{key}") for key in range(8))
    cause = frozenset({parts[5], partner} - {None})
    world = World(units=EIGHT, effects=(Effect((cause, cause - {parts[5]} | {CAUSE})),))
    result = bisect(EIGHT, world, drill=lambda unit: parts if unit == CAUSE else ())

    (found,) = result.causes
    assert set(found.units) == cause
    assert (found.sufficient, found.necessary) == (True, True)
    assert set(parts) - cause <= set(result.innocent)
    assert CAUSE not in result.innocent
    again = len(world.asked) - len(set(world.asked))
    assert again == (2 if partner is None else 5)  # A and B once more; of partners what each does alone
    assert len(result.trials) <= (14 if partner is None else 26)


@dataclass(kw_only=True)
class Doubting:
    """An oracle over a world, in which all parts may be another thing than the unit."""

    world: World
    unread: bool = False
    """Whether parts are never read."""

    def __call__(self, swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
        """Return the trial of a configuration."""
        trial = self.world(swapped, repeat=repeat)
        parts = tuple(unit for unit in swapped if unit not in EIGHT)
        return replace(trial, inert=parts) if self.unread else trial

    def doubt(self, unit: Unit) -> str:
        """Return what has part if all parts of a unit are not the unit."""
        return "its name has part in it" if unit == CAUSE else ""


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("partner", [None, EIGHT[6]])
def test_parts_that_are_the_unit_as_a_trial_shows(count: int, partner: Unit | None) -> None:
    """One part is enough then: the trial with all of them proves it, and they are never taken for the unit itself."""
    parts = tuple(replace(CAUSE, knob=f"{CAUSE.knob}.{key}") for key in range(count))
    beside = frozenset({partner} - {None})
    world = World(units=EIGHT, effects=(Effect((beside | {CAUSE}, beside | {parts[-1]})),))
    result = bisect(EIGHT, Doubting(world=world), drill=lambda unit: parts if unit == CAUSE else ())

    (found,) = result.causes
    assert set(found.units) == beside | {parts[-1]}
    assert (found.sufficient, found.necessary, found.part_of) == (True, True, (CAUSE,))
    proof = next(trial for trial in result.trials if trial.n == found.proof[0])
    assert set(proof.swapped) == set(found.units)
    assert world.asked.count(beside | set(parts)) == 1


@pytest.mark.parametrize(
    ("needs", "unread", "why"),
    [
        (False, False, "all of its parts do not make in its place what it makes, so that its name has part in it"),
        (False, True, "its parts were not seen to be read"),
        (True, False, "with all of its parts in its place it does not run: ImportError"),
    ],
)
def test_parts_that_are_not_the_unit(needs: bool, unread: bool, why: str) -> None:
    """The unit stays the cause, and a note names the trial that told."""
    parts = tuple(replace(CAUSE, knob=f"{CAUSE.knob}.{key}") for key in range(3))
    world = World(units=EIGHT, effects=(both(CAUSE),), needs=((parts[0], CAUSE),) if needs else ())
    result = bisect(EIGHT, Doubting(world=world, unread=unread), drill=lambda unit: parts if unit == CAUSE else ())

    assert [cause.units for cause in result.causes] == [(CAUSE,)]
    assert result.taken_apart == ()
    (number,) = (trial.n for trial in result.trials if set(trial.swapped) == set(parts))
    assert f"{CAUSE} was not taken apart (trial {number}): {why}" in notes(result)


def test_price() -> None:
    """The price of a search is what it costs: one cause among eight takes six or seven trials, and two repeats."""
    assert price(EIGHT).to_json() == {"least": 8, "typical": 9, "most": 18}
    assert price(EIGHT, SearchOptions(mode="matrix")).least == 20
    assert price([]).typical == 1
    assert price(EIGHT[:1]).to_json() == {"least": 4, "typical": 4, "most": 4}
    assert price(EIGHT, SearchOptions(budget=Budget(repeats=3))).least == 10


def test_parts_that_do_the_same() -> None:
    """Two parts of a unit of which either makes B are both found."""
    parts = tuple(replace(CAUSE, knob=f"{CAUSE.knob}.{key}") for key in range(4))
    alternatives = (frozenset({CAUSE}), frozenset({parts[0]}), frozenset({parts[3]}))
    world = World(units=EIGHT, effects=(Effect(alternatives),))
    result = bisect(EIGHT, world, drill=lambda unit: parts if unit == CAUSE else ())

    assert {cause.units for cause in result.causes} == {(parts[0],), (parts[3],)}
    assert {cause.role for cause in result.causes} == {Role.REDUNDANT}
    assert {parts[1], parts[2]} <= set(result.innocent)


def test_partners_beside_the_untestable() -> None:
    """Partners that make the divergence itself are its cause, though B is out of reach."""
    testable = EIGHT[:7]
    world = World(units=EIGHT, effects=(both(EIGHT[1], EIGHT[5]), both(EIGHT[7])))
    row = Untested(unit=EIGHT[7], reason="another GPU")
    result = bisect(testable, world, untestable=[row], first=at(0))

    assert result.verdict is BisectVerdict.CAUSE
    (cause,) = result.causes
    assert (set(cause.units), cause.sufficient, cause.necessary) == ({EIGHT[1], EIGHT[5]}, False, True)


def run(outcome: Outcome, *, reused: bool = False) -> Trial:
    """Return a trial with a given outcome."""
    return Trial(
        n=0, base="a", swapped=(), outcome=outcome, reused=reused, first_against_a=at(1), first_against_b=at(1)
    )


@pytest.mark.parametrize("side", ["a", "b"])
@pytest.mark.parametrize("units", [EIGHT, EIGHT[3:4]])
def test_a_proof_is_confirmed(side: str, units: tuple[Unit, ...]) -> None:
    """A and B are replayed once more before a cause is named; where one differs nothing is."""
    world = replace(WORLD, units=units)
    lucky, unlucky = (Outcome.A, Outcome.B) if side == "a" else (Outcome.B, Outcome.A)
    result = bisect(units, Scripted(world, **{side: [run(lucky), run(unlucky)]}))

    assert result.verdict is BisectVerdict.NOT_REPEATABLE
    assert not result.causes
    assert not result.innocent
    assert "PYTHONHASHSEED" in notes(result)


def test_confirmed_once() -> None:
    """The confirmation is two trials at the end, and what it is worth is said."""
    result = bisect(EIGHT, WORLD)

    assert [len(trial.swapped) for trial in result.trials[-2:]] == [0, 8]
    assert result.notes[:2] == ("A replayed 2 times: identical", "B replayed 2 times: identical")
    assert "below 78%" in notes(result)
    assert len(bisect(EIGHT, WORLD, SearchOptions(budget=Budget(repeats=2))).trials) == len(result.trials)


def test_a_confirmation_that_does_not_run() -> None:
    """A repeat that does not run is no difference, and no proof."""
    skip = replace(run(Outcome.SKIP), reason="out of memory")
    result = bisect(EIGHT, Scripted(WORLD, a=[run(Outcome.A), skip]))

    assert result.verdict is BisectVerdict.INCONCLUSIVE
    assert "out of memory" in notes(result)


def test_a_third_replay_tells_noise_from_a_move() -> None:
    """Two repeats that agree by chance are told from something that moved."""
    result = bisect(EIGHT, Scripted(WORLD, a=[other("x"), other("x"), other("y")]))

    assert result.verdict is BisectVerdict.NOT_REPEATABLE
    assert "unseeded generators" in notes(result)


def test_reused_replays_are_said() -> None:
    """A replay out of the journal is not called one that was made."""

    def oracle(swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
        return replace(WORLD(swapped, repeat=repeat), reused=repeat == 0)

    result = bisect(EIGHT, oracle)

    assert "A taken from the journal and replayed once: identical" in result.notes
    assert "taken from the journal, not run again: trials 3," in notes(result)


def test_left_out_is_never_blamed() -> None:
    """What the user left out is not named by elimination, but listed as not tested."""
    row = Untested(unit=CAUSE, reason="left out by --skip")
    testable = [unit for unit in EIGHT if unit != CAUSE]
    result = bisect(testable, replace(WORLD, effects=()), untestable=[row])

    assert result.verdict is BisectVerdict.INCONCLUSIVE
    assert not result.causes
    assert f"not tested: {CAUSE}" in notes(result)
    assert bisect([], replace(WORLD, effects=()), untestable=[row]).verdict is BisectVerdict.INCONCLUSIVE


@dataclass
class Completing:
    """An oracle whose B has something beside its requested inputs."""

    world: World
    more: tuple[Unit, ...]
    cannot: tuple[Untested, ...]
    asked: Sequence[frozenset[Unit]] = ()

    def __call__(self, swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
        """Return the world's trial."""
        return self.world(swapped, repeat=repeat)

    def left_over(self, swapped: frozenset[Unit]) -> tuple[Sequence[Unit], Sequence[Untested]]:
        """Return what was given."""
        self.asked = [*self.asked, swapped]
        return self.more, self.cannot


DTYPE = Unit(layer=Layer.KERNELS, knob="default_dtype", a="float32", b="float64")
CANNOT = Untested(unit=DTYPE, reason="nothing outside of the script sets it")


@pytest.mark.parametrize("requested", [EIGHT[:7], ()])
def test_resolved_values_are_moved_only_where_the_requested_inputs_do_not_make_b(requested: tuple[Unit, ...]) -> None:
    """What nobody asked for is a unit where B needs it; what cannot be swapped has no part once B is reached."""
    world = World(units=EIGHT if requested else EIGHT[7:], effects=(both(EIGHT[7]),))
    oracle = Completing(world, EIGHT[7:], (CANNOT,))
    result = bisect(requested, oracle, first=at(0))

    assert [cause.units for cause in result.causes] == [(EIGHT[7],)]
    assert result.verdict is BisectVerdict.CAUSE
    assert oracle.asked == [frozenset(requested)]
    assert not result.untestable
    enough = Completing(WORLD, EIGHT[7:], (CANNOT,))
    assert bisect(EIGHT, enough).causes[0].units == (CAUSE,)
    assert not enough.asked


def test_a_resolved_value_that_cannot_be_swapped_is_listed() -> None:
    """Where nothing that can be swapped makes B, it remains."""
    result = bisect(EIGHT, Completing(replace(WORLD, effects=()), (), (CANNOT,)), first=at(0))

    assert result.verdict is BisectVerdict.BY_ELIMINATION
    assert [cause.units for cause in result.causes] == [(DTYPE,)]


def test_guilty_parts_are_named_with_what_they_are_part_of() -> None:
    """The report needs both: the key, and the file that it stands in."""
    parts = tuple(replace(CAUSE, knob=f"{CAUSE.knob}.{key}") for key in range(4))
    inner = tuple(replace(CAUSE, knob=f"{parts[2].knob}.{key}") for key in range(3))
    alternatives = (frozenset({CAUSE}), frozenset({parts[2]}), frozenset({inner[1]}))
    world = World(units=EIGHT, effects=(Effect(alternatives),))
    result = bisect(EIGHT, world, drill=lambda unit: {CAUSE: parts, parts[2]: inner}.get(unit, ()))

    (cause,) = result.causes
    assert (cause.units, cause.part_of) == ((inner[1],), (CAUSE, parts[2]))
    assert cause.to_json()["part_of"] == [CAUSE.to_json(), parts[2].to_json()]


def test_what_cannot_be_taken_apart_any_more_is_blamed_whole() -> None:
    """The file that holds the parts is gone: the unit was proved all the same."""

    def drill(_unit: Unit) -> Sequence[Unit]:
        raise ReplayError("the repository is gone")

    result = bisect(EIGHT, WORLD, drill=drill)

    assert result.verdict is BisectVerdict.CAUSE
    assert (result.causes[0].units, result.causes[0].part_of) == ((CAUSE,), ())
    assert f"{CAUSE} could not be taken apart: the repository is gone" in result.notes
