"""Decides what configurations are like where no run has the same bits twice, each by a sample of its runs.

Each run is one number: how far it is on the way from A's record to B's (`Trial.nearness`), or one of some recorded
numbers (`Trial.numbers`), whichever tells A's replays from B's best; that several were tried counts against the chance.
Runs of a configuration are like A if these numbers lie too far below B's for chance, like B if they lie too far above
A's; an exact rank-sum test (`numerics.rank_test`) says what is too far. So each decision rests on a rejection, and the
chance that any of them is wrong is at most the sum of their levels (Bonferroni): what is left is the confidence.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, inf, log
from typing import TYPE_CHECKING

from bisect_diverge.bisector.abilities import MeasuringOracle
from bisect_diverge.bisector.bench import A, B
from bisect_diverge.model.sampling import SAMPLED, Decision, Sampling
from bisect_diverge.model.trial import Outcome
from bisect_diverge.numerics.rank_test import larger, sizes, smaller, smallest_chance

if TYPE_CHECKING:
    from bisect_diverge.bisector.bench import Bench, Value
    from bisect_diverge.model.trial import Trial, Unit

LOOKS = (0.75, 0.25)
"""Shares of a decision's level: one look at a small sample, and one at a larger where that does not decide."""
LARGER = 3
"""So many times larger is the second sample, at least."""
MOST = 40
"""Runs in a sample, at most."""
MOST_TRIED = 31
"""So many ways to tell A's replays from B's are tried at most: nearness, and fifteen numbers in both directions."""
LEAST = 4
"""Replays of A and of B, at least."""
NOT_DECIDED = "not decided"
WORSE = 3
"""The search ends where the chance of a wrong decision would be so many times what was asked for."""


class CannotRunError(Exception):
    """A replay of A or of B failed."""


class NotDecidedError(Exception):
    """A configuration cannot be told, or too much would have to be: what follows from it would be a guess."""


def level_of(confidence: float, expected: int) -> float:
    """Return the chance with which one decision may be wrong: the expected ones, and that A and B are not alike."""
    return (1 - confidence) / (expected + 1)


def sample_sizes(confidence: float, expected: int, replays: int) -> tuple[int, int]:
    """Return how many replays of A, and as many of B, and how many runs of each configuration are made first.

    Args:
        confidence: Of the whole answer, 0 to 1.
        expected: Configurations between A and B that have to be decided.
        replays: Replays, at least.
    """
    level = level_of(confidence, expected)
    least = next(n for n in range(LEAST, MOST) if MOST_TRIED * smallest_chance(n, n) <= level or n == MOST - 1)
    return sizes(level * LOOKS[0], expected, least=max(least, min(replays, MOST)), most=MOST)


class Sampler:
    """Decides what configurations are like, each by a sample of its runs.

    Args:
        bench: Makes trials.
        units: All units: with them at B's values it is B.
        confidence: Of the whole answer, 0 to 1.
        replays: Replays of A and of B, at least.
        expected: Configurations between A and B that have to be decided, where there is one cause.
    """

    def __init__(
        self, bench: Bench, units: tuple[Unit, ...], confidence: float, *, replays: int, expected: int
    ) -> None:
        self._bench = bench
        self._units = units
        self._asked = confidence
        self._level = level_of(confidence, expected)
        self.replays, self._sample = sample_sizes(confidence, expected, replays)
        self._axis, self._sign = 0, 1
        self._runs: dict[frozenset[Unit], list[Trial]] = {}
        self._a: list[float] = []
        self._b: list[float] = []
        self._chance = 1.0
        self._decisions: list[Decision] = []
        self._counted = 0

    def tell_apart(self) -> bool:
        """Replay A and B, and return whether their runs differ by more than chance.

        Raises:
            Stopped: if the budget is spent.
            CannotRunError: if one of them does not run.
        """
        ends = [self._more(frozenset(units), self.replays) for units in ((), self._units)]
        if any(trial.nearness is None for trials in ends for trial in trials):
            raise CannotRunError
        axes = min(len(trial.numbers) for trials in ends for trial in trials)
        ways = [(0, 1), *((axis, sign) for axis in range(1, axes + 1) for sign in (1, -1))]
        chances = {}
        for self._axis, self._sign in ways:
            chances[self._axis, self._sign] = larger(self._numbers(ends[1]), self._numbers(ends[0]))
        self._axis, self._sign = min(ways, key=lambda way: chances[way])
        self._a, self._b = self._numbers(ends[0]), self._numbers(ends[1])
        self._chance = min(1.0, len(ways) * chances[self._axis, self._sign])
        return self.apart

    @property
    def apart(self) -> bool:
        """Whether A and B were told apart."""
        return self._chance <= self._level

    def extend(self, units: tuple[Unit, ...]) -> None:
        """Take more units for B; that A and B are told apart is a decision more then."""
        self._units = units
        self._counted += 1

    def decide(self, key: frozenset[Unit]) -> tuple[Trial, Value]:
        """Return a trial that stands for a configuration's, and what they are like.

        Raises:
            Stopped: if the budget is spent.
            NotDecidedError: if they cannot be told, or if the confidence is used up.
        """
        if not key or key == frozenset(self._units):
            return self._end(key)
        if self._level * (2 + self._counted) > WORSE * (1 - self._asked):
            raise NotDecidedError("more than one cause has part, and no confidence is left to tell them apart")
        for size, share in zip((self._sample, self._second()), LOOKS, strict=True):
            trials = self._more(key, size)
            failed = next((trial for trial in trials if trial.nearness is None), None)
            if failed is not None:
                return failed, None
            numbers = self._numbers(trials)
            chance_a, chance_b = larger(numbers, self._a), smaller(numbers, self._b)
            far_a, far_b = chance_a <= self._level * share, chance_b <= self._level * share
            if far_a != far_b:  # far from both, or from none: a larger sample has to say so
                break
        like = _LIKE[far_a, far_b]
        self._note(trials, like, chance_a, chance_b)
        if like == NOT_DECIDED:
            raise NotDecidedError(
                f"whether trials {trials[0].n} to {trials[-1].n} are like A or like B is not sure enough: the noise is "
                f"too wide for {self.replays} replays"
            )
        return _standing_for(trials, _OUTCOMES[like]), _value(like, trials)

    def told(self) -> Sampling:
        """Return how it went so far."""
        return Sampling(
            asked=self._asked,
            confidence=max(0.0, 1 - self._level * (1 + self._counted)),
            replays=self.replays,
            runs=sum(map(len, self._runs.values())),
            chance=self._chance,
            apart=self.apart,
            decisions=tuple(self._decisions),
        )

    def _end(self, key: frozenset[Unit]) -> tuple[Trial, Value]:
        """Return A or B themselves, which cost no decision beside that they are not alike."""
        trials = self._runs[key]
        like, value, outcome = ("B", B, Outcome.B) if key else ("A", A, Outcome.A)
        chances = (self._chance, 1.0) if key else (1.0, self._chance)
        self._decisions.append(Decision(trials=_which(trials), like=like, chance_a=chances[0], chance_b=chances[1]))
        return _standing_for(trials, outcome), value

    def _note(self, trials: list[Trial], like: str, chance_a: float, chance_b: float) -> None:
        self._counted += 1
        self._decisions.append(Decision(trials=_which(trials), like=like, chance_a=chance_a, chance_b=chance_b))

    def _more(self, key: frozenset[Unit], size: int) -> list[Trial]:
        """Return at least that many runs of a configuration, or as many as there are when one does not run."""
        trials = self._runs.setdefault(key, [])
        while len(trials) < size and all(trial.nearness is not None for trial in trials):
            trials.append(self._bench.repeat(key, SAMPLED + len(trials)))
        return trials

    def spread(self) -> str:
        """Return by what A's replays are told from B's, and between what it lies in both."""
        oracle = self._bench.oracle
        places = oracle.watched() if isinstance(oracle, MeasuringOracle) else ()
        what = "how far they are on the way from A's record (0) to B's (1)"
        if self._axis:
            what = str(places[self._axis - 1]) if self._axis <= len(places) else f"number {self._axis} of each"
        of_a, of_b = (sorted(self._sign * number for number in numbers) for numbers in (self._a, self._b))
        return (
            f"replays of A and B are told apart by {what}: {of_a[0]:.6g} to {of_a[-1]:.6g} in A's, "
            f"{of_b[0]:.6g} to {of_b[-1]:.6g} in B's"
        )

    def _numbers(self, trials: list[Trial]) -> list[float]:
        """Return one number of each run, the larger the more like B; such as tells A's replays from B's best."""
        if not self._axis:
            return [trial.nearness for trial in trials if trial.nearness is not None]
        at = self._axis - 1
        return [self._sign * trial.numbers[at] if at < len(trial.numbers) else inf for trial in trials]

    def _second(self) -> int:
        """Return the size of the larger sample: ``ln(level) / ln(1 - p)``, p how often a run shows what it is like.

        That many runs show it with the wanted confidence; the test decides all the same. p is counted in the replays: a
        run shows itself where it lies beyond all of the other side's.
        """
        beyond = sum(b > max(self._a) for b in self._b), sum(a < min(self._b) for a in self._a)
        shows = max(*beyond, 1) / self.replays
        needed = 1 if shows >= 1 else ceil(log(self._level * LOOKS[1]) / log(1 - shows))
        return min(MOST, max(LARGER * self._sample, needed))


_LIKE = {(True, False): "B", (False, True): "A", (True, True): "neither", (False, False): NOT_DECIDED}
"""Whether runs are too far from A's and from B's for chance to what they are like."""
_OUTCOMES = {"A": Outcome.A, "B": Outcome.B, "neither": Outcome.OTHER}


def _value(like: str, trials: list[Trial]) -> Value:
    """Return the value of a configuration; two that are like neither are never taken for the same."""
    return {"A": A, "B": B}.get(like, f"between: trial {trials[0].n}")


def _standing_for(trials: list[Trial], outcome: Outcome) -> Trial:
    """Return the first of some trials with what all of them are like; where one first differs is noise."""
    return replace(trials[0], outcome=outcome, first_against_a=None, first_against_b=None)


def _which(trials: list[Trial]) -> tuple[int, ...]:
    return tuple(trial.n for trial in trials)
