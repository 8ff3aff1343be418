"""Parts that are steps of one way: commits, releases. Of several that are swapped the last one counts."""

from dataclasses import replace

import pytest

from bisect_diverge.bisector.search import bisect
from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import BisectVerdict, Outcome, Role, Trial, Unit

KIT = Unit(layer=Layer.DEPENDENCIES, knob="kit", a="0", b="8")
STEPS = tuple(replace(KIT, a=str(n), b=str(n + 1)) for n in range(8))
OTHERS = tuple(Unit(layer=Layer.HARDWARE, knob=f"DECOY_{n}", a="1", b="2") for n in range(3))


class Releases:
    """B's bits from one release on; with a partner only where that is swapped too."""

    def __init__(self, guilty, partner=None):
        self.guilty, self.partner = guilty, partner
        self.asked = []

    def __call__(self, swapped, *, repeat=0):
        """Return the trial of a configuration."""
        self.asked.append(swapped)
        reached = max((int(unit.b) for unit in swapped if unit.knob == KIT.knob), default=0)
        guilty = reached >= self.guilty and (self.partner is None or self.partner in swapped)
        outcome = Outcome.B if guilty else Outcome.A
        return Trial(n=len(self.asked), base="a", swapped=tuple(swapped), outcome=outcome, signature=str(outcome))


@pytest.mark.parametrize("guilty", range(1, 9))
@pytest.mark.parametrize("partner", [None, OTHERS[1]])
def test_the_guilty_step_is_found_and_proved(guilty, partner):
    """It alone makes B, without it A is left: no step before or after it is blamed beside it."""
    world = Releases(guilty, partner)
    result = bisect((KIT, *OTHERS), world, drill=lambda unit: STEPS if unit == KIT else ())
    assert result.verdict is BisectVerdict.CAUSE
    (cause,) = result.causes
    step = STEPS[guilty - 1]
    assert set(cause.units) == {step} | ({partner} if partner else set())
    assert (cause.role, cause.sufficient, cause.necessary) == (
        Role.PARTNERS if partner else Role.CAUSE, True, True
    )  # fmt: skip
    assert cause.part_of == (KIT,)
    assert not set(STEPS) & set(result.innocent)
    assert len(world.asked) <= 20


class Way:
    """A way of eight steps; ``bits[n]`` are those after n steps, ``None`` where it does not run."""

    def __init__(self, bits):
        self.bits = bits
        self.asked = []

    def __call__(self, swapped, *, repeat=0):
        """Return the trial of a configuration."""
        self.asked.append(swapped)
        bits = self.bits[max((int(unit.b) for unit in swapped if unit.knob == KIT.knob), default=0)]
        outcome = {None: Outcome.SKIP, "a": Outcome.A, "b": Outcome.B}.get(bits, Outcome.OTHER)
        return Trial(n=len(self.asked), base="a", swapped=tuple(swapped), outcome=outcome, signature=bits or "")


@pytest.mark.parametrize(
    ("bits", "guilty", "note"),
    [
        (["a", "a", None, None, "b", "b", "b", "b", "b"], (1, 4), "could not be told apart"),
        (["a", None, None, None, None, None, None, None, "b"], (0, 8), "could not be told apart"),
        (["a", "a", None, "a", "a", "b", None, "b", "b"], (4, 5), ""),
        (["a", "a", "x", "x", "x", "b", "b", "b", "b"], (1, 5), "from 1 to 2, then from 4 to 5"),
        (["a", "x", "x", None, None, "b", "b", "b", "b"], (0, 5), "from 0 to 1, then from 2 to 5"),
    ],
)
def test_steps_that_do_not_run_are_no_alibi(bits, guilty, note):
    """Where a step repairs what was broken, those that were made meanwhile are blamed with it, in one piece.

    Where two change the bits one after the other, the way from the first to the last is blamed, and both are named.
    """
    world = Way(bits)
    result = bisect((KIT, *OTHERS), world, drill=lambda unit: STEPS if unit == KIT else ())
    assert result.verdict is BisectVerdict.CAUSE
    (cause,) = result.causes
    assert cause.units == (replace(KIT, a=str(guilty[0]), b=str(guilty[1])),)
    assert (cause.role, cause.sufficient, cause.necessary) == (Role.CAUSE, True, True)
    assert any(note in text for text in result.notes)
    assert not any("no part" in text for text in result.notes)
    assert result.innocent == OTHERS


def test_no_configuration_is_run_twice_under_two_names():
    """All steps up to one are that one; with the last of them it is the whole."""
    world = Releases(5)
    bisect((KIT,), world, drill=lambda unit: STEPS if unit == KIT else ())
    runs = [tuple(sorted(int(unit.b) for unit in swapped)) for swapped in world.asked]
    assert all(len(ends) <= 1 for ends in runs)
    assert all(runs.count(ends) == 1 for ends in runs if ends not in {(), (8,)})


FILES = tuple(Unit(layer=Layer.DEPENDENCIES, knob=f"file:{name}", a="0", b="1") for name in ("x", "y"))
BEFORE = replace(KIT, b="5")


class Files(Releases):
    """B's bits take the third step and one file of the sixth."""

    def __call__(self, swapped, *, repeat=0):
        """Return the trial of a configuration."""
        self.asked.append(swapped)
        reached = max((int(unit.b) for unit in swapped if unit.knob == KIT.knob), default=0)
        outcome = Outcome.B if reached >= 3 and (reached >= 6 or FILES[1] in swapped) else Outcome.A
        return Trial(n=len(self.asked), base="a", swapped=tuple(swapped), outcome=outcome, signature=str(outcome))


def test_a_file_of_a_step_that_needs_an_earlier_step():
    """The step is taken apart into its files and what precedes it, and that into steps again."""
    parts = {KIT: STEPS, STEPS[5]: (BEFORE, *FILES), BEFORE: STEPS[:5]}
    world = Files(None)
    result = bisect((KIT, *OTHERS), world, drill=lambda unit: parts.get(unit, ()))
    assert result.verdict is BisectVerdict.CAUSE
    (cause,) = result.causes
    assert set(cause.units) == {STEPS[2], FILES[1]}
    assert (cause.role, cause.sufficient, cause.necessary) == (Role.PARTNERS, True, True)
    assert FILES[0] in result.innocent
    assert len(world.asked) == len({*world.asked}) + 4  # A and B once more, and what each of the two does alone
