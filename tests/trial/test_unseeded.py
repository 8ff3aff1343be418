"""Where two runs differ in nothing but seeds that nobody gave, no setting is to blame."""

from dataclasses import replace

import pytest

from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import Bisection, BisectVerdict, Cause, Outcome, Role, Trial, Unit
from bisect_diverge.trial.memory import with_memory
from bisect_diverge.trial.unseeded import with_unseeded

UNSEEDED = Unit(layer=Layer.SEEDS, knob="initial-state.python", a="xxh3:1", b="xxh3:2")
TIMED = Unit(layer=Layer.SEEDS, knob="torch.manual_seed", a="17 (the time)", b="18 (the time)")
GIVEN = Unit(layer=Layer.SEEDS, knob="torch.manual_seed", a="1", b="2")
FLAG = Unit(layer=Layer.CONFIGURATION, knob="argv.--lr", a="1", b="2")


def proved(*units):
    """Return a bisection that found these units together."""
    trials = [
        Trial(n=n, base="a", swapped=swapped, outcome=outcome)
        for n, (swapped, outcome) in enumerate([((), Outcome.A), (units, Outcome.B)], 1)
    ]
    cause = Cause(units=units, role=Role.CAUSE, sufficient=True, necessary=True, same_divergence=True)
    return Bisection(verdict=BisectVerdict.CAUSE, causes=(cause,), trials=tuple(trials), notes=("what was said",))


@pytest.mark.parametrize(
    ("units", "setters"),
    [((UNSEEDED,), ["random.seed"]), ((TIMED,), ["torch.manual_seed"]), ((UNSEEDED, TIMED), ["random.seed", "torch"])],
)
def test_a_run_that_nobody_seeded_does_not_repeat_itself(units, setters):
    """Nothing is blamed; the notes name each setter to call, and the trials that prove it."""
    found = with_unseeded(proved(*units))
    assert (found.verdict, found.causes) == (BisectVerdict.NOT_REPEATABLE, ())
    for note, setter in zip(found.notes, setters, strict=False):
        assert setter in note
        assert setter in found.reason
    assert "(trial 1)" in found.notes[-2]
    assert "(trial 2)" in found.notes[-2]
    assert found.notes[-1] == "what was said"


def test_the_first_state_is_told_in_few_words():
    """With why its replays are identical all the same."""
    found = with_unseeded(
        replace(proved(replace(UNSEEDED, knob="initial-state.numpy")), notes=("A replayed: identical",))
    )
    words = "nobody seeds numpy.random (each process begins with another state); call numpy.random.seed(...)"
    assert found.reason == words
    assert found.notes[-1].startswith("A replayed: identical, only since the trials hold the first states")


@pytest.mark.parametrize("units", [(GIVEN,), (FLAG,), (FLAG, UNSEEDED), ()])
def test_what_was_given_is_blamed(units):
    """A seed that the script was given, or another input beside: the answer stays as it is."""
    bisection = proved(*units)
    assert with_unseeded(bisection) == bisection


def test_a_seed_that_moved_in_a_replay_was_given_by_nobody():
    """However it was computed: a replay of A got another one."""
    moved = Unit(layer=Layer.SEEDS, knob="torch.manual_seed#2", a="16903", b="25274")
    found = with_unseeded(proved(moved), ("torch.manual_seed",))
    assert (found.verdict, found.causes) == (BisectVerdict.NOT_REPEATABLE, ())
    assert "gives another seed each time in torch.manual_seed (16903, 25274): give it a fixed one" in found.notes[0]
    assert not found.remedies, "clamps and repeats do not help"
    assert with_unseeded(proved(moved)).verdict is BisectVerdict.CAUSE
    assert with_unseeded(proved(moved, FLAG), ("torch.manual_seed",)).verdict is BisectVerdict.CAUSE


def test_what_fills_memory_is_no_cause_by_itself():
    """Where `MALLOC_PERTURB_` is one, the note says what that means."""
    filled = Unit(layer=Layer.RUNTIME, knob="MALLOC_PERTURB_", a=None, b="165")
    (said, _) = with_memory(proved(filled)).notes
    assert "reads memory that nobody has written" in said
    assert with_memory(proved(FLAG)) == proved(FLAG)
