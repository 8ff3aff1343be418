"""A trial with parts in the place of a unit is no replay of B, whatever it moves."""

from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import Bisection, BisectVerdict, Outcome, Trial, Unit
from bisect_diverge.report.bisection_table import trial_rows
from bisect_diverge.tui.bisection import Finished, Planned
from bisect_diverge.tui.searching import Searching, swap_of

FLAG = Unit(layer=Layer.CONFIGURATION, knob="argv.--config", a="a.yaml", b="b.yaml")
OTHER = Unit(layer=Layer.SEEDS, knob="PYTHONHASHSEED", a="0", b="1")
KEYS = tuple(Unit(layer=Layer.CONFIGURATION, knob=f"file:a.yaml:{key}", a="1", b="2") for key in ("lr", "wd", "n"))


def trial(n: int, *swapped: Unit, outcome: Outcome = Outcome.OTHER) -> Trial:
    """Return a trial."""
    return Trial(n=n, base="a", swapped=swapped, outcome=outcome)


def test_the_table_says_what_is_moved() -> None:
    """Though it is more than what differs."""
    trials = trial(1, outcome=Outcome.A), trial(2, FLAG, OTHER, outcome=Outcome.B), trial(3, *KEYS), trial(4, FLAG)
    rows = trial_rows(Bisection(verdict=BisectVerdict.CAUSE, trials=trials))
    assert [row[1] for row in rows] == [
        "A",
        "B",
        "A + {file:a.yaml:lr, file:a.yaml:wd, file:a.yaml:n}",
        "A + {argv.--config}",
    ]


def test_the_screen_does_not_take_it_for_b() -> None:
    """Neither where it moves as many units, nor where it moves all others."""
    state = Searching()
    state.take(Planned((FLAG, OTHER), (), 6, None))
    state.take(Finished(trial(1, FLAG, OTHER, outcome=Outcome.B)))
    state.take(Finished(trial(2, *KEYS[:2])))
    state.take(Finished(trial(3, OTHER, KEYS[0])))
    assert swap_of(KEYS[:2], state.units) == "A + file:a.yaml:lr, file:a.yaml:wd"
    assert swap_of((OTHER, FLAG), state.units) == "all: B again"
    assert state.controls()[1] == ("✓", "B repeats itself")
    assert not any("put back" in line for line in state.verdict("a", "b"))
