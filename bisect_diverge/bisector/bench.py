"""Makes trials: never one configuration twice, within a budget, and to each a value that can be compared."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from bisect_diverge.model.trial import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from bisect_diverge.bisector.abilities import FillingOracle, ObservingOracle
    from bisect_diverge.model.address import Address
    from bisect_diverge.model.trial import Budget, Observation, Oracle, Trial, Unit

A = "=A"
"""Value of a configuration whose bits are A's."""
B = "=B"
"""Value of a configuration whose bits are B's."""

Value = str | None
"""What the bits of a configuration are; None: it does not run, or does not repeat itself. Never `different`."""

SUSPICIOUS = 4
"""So many different `other`: the last is repeated, since noise too gives other bits each time.

Two causes give at most two (each alone), so that an ordinary search pays nothing for it.
"""
AGAIN = 3
"""Number of the repeat that makes sure of a trial; those before it have other ends."""
REPEATS_OF_FLAKY = 2
"""A flaky trial is repeated so often; where these agree the value is theirs."""

BY_USER = "stopped by the user"


class Stopped(Exception):  # noqa: N818 - no error: the search ends early and says why
    """The budget is spent, or the user has had enough."""


class Noisy(Stopped):
    """Mixed configurations do not repeat themselves."""


class Flaky(Noisy):
    """A trial that the answer rests on has other bits when it is made once more."""

    def __init__(self, first: Trial, again: Trial) -> None:
        super().__init__(f"{first.outcome} (trial {first.n}), then {again.outcome} (trial {again.n})")
        self.swapped = frozenset(first.swapped)
        self.values = value_of(first), value_of(again)
        """What it was, and what it was then."""


class Bench:
    """Trials of subsets of units, remembered."""

    def __init__(
        self,
        oracle: Oracle,
        budget: Budget,
        *,
        jobs: int = 1,
        on_trial: Callable[[Trial], None] = lambda _trial: None,
        should_stop: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
        weight: Callable[[Unit], float] = lambda _unit: 1.0,
    ) -> None:
        self.weight = weight
        """How likely a unit is: where a stretch of units is cut."""
        self.trials: list[Trial] = []
        self.finer: dict[Unit, frozenset[Unit]] = {}
        """Unit to the parts it was taken apart into; all parts together are the unit."""
        self.steps: dict[Unit, tuple[Unit, ...]] = {}
        """Unit to the steps it was taken apart into: the last that is swapped counts, and the very last is the unit."""
        self._oracle = oracle
        self._budget = budget
        self._jobs = jobs
        self._on_trial = on_trial
        self._should_stop = should_stop
        self._clock = clock
        self._begin = clock() - budget.used_seconds
        self._known: dict[frozenset[Unit], Trial] = {}
        self._values: dict[frozenset[Unit], Value] = {}
        self._others: set[str] = set()
        self._observed = 0
        self._decide: Callable[[frozenset[Unit]], tuple[Trial, Value]] | None = None
        self._sure: set[frozenset[Unit]] = set()
        self._doubted: set[frozenset[Unit]] = set()
        self._judged_alike_from = 0

    @property
    def oracle(self) -> Oracle:
        """The oracle that is asked."""
        return self._oracle

    def judge_by(self, oracle: Oracle) -> None:
        """Ask another oracle from now on, and forget what the former one said."""
        self._oracle = oracle
        self._judged_alike_from = len(self.trials)
        self._forget()

    def decide_by(self, decide: Callable[[frozenset[Unit]], tuple[Trial, Value]]) -> None:
        """Take values from somebody who makes several trials of a configuration, and forget those that were known.

        Args:
            decide: Returns a trial that stands for all, and the value.
        """
        self._decide = decide
        self._forget()

    def _forget(self) -> None:
        self._known.clear()
        self._values.clear()
        self._others.clear()
        self._sure.clear()
        self._doubted.clear()

    def value(self, swapped: Iterable[Unit]) -> Value:
        """Return the value of a configuration; runs it if it was not run before.

        Raises:
            Stopped: if it would have to be run and may not.
        """
        key = self._key(swapped)
        if key not in self._values:
            self._values[key] = self._judged(key)
        return self._values[key]

    def values(self, configurations: Iterable[Iterable[Unit]]) -> list[Value]:
        """Return the values of configurations; those not run before are run ``jobs`` at a time.

        Raises:
            Stopped: if one would have to be run and may not.
        """
        keys = [self._key(swapped) for swapped in configurations]
        if self._jobs > 1 and self._decide is None:
            self._run_together([key for key in dict.fromkeys(keys) if key not in self._known])
        return [self.value(key) for key in keys]

    def known(self, swapped: Iterable[Unit]) -> Value:
        """Return the value of a configuration if it was run; None otherwise."""
        return self._values.get(self._key(swapped))

    def trial(self, swapped: Iterable[Unit]) -> Trial:
        """Return the trial of a configuration, run now if need be."""
        key = self._key(swapped)
        if key not in self._known:
            if self._decide is None:
                self._known[key] = self._made(key, 0)
            else:
                self.value(key)
        return self._known[key]

    def found(self, swapped: Iterable[Unit]) -> Trial | None:
        """Return the trial of a configuration if there was one."""
        return self._known.get(self._key(swapped))

    def apart(self, swapped: Iterable[Unit]) -> tuple[Trial, Trial] | None:
        """Return two trials of a configuration, with the same clamps, that have other bits; None if there are none.

        Those without a signature are not compared, nor those that another oracle has judged before.
        """
        key = self._key(swapped)
        first: dict[tuple[str, ...], Trial] = {}
        for trial in self.trials[self._judged_alike_from :]:
            told = trial.outcome in {Outcome.A, Outcome.B} or (trial.outcome is Outcome.OTHER and trial.signature)
            if not told or frozenset(trial.swapped) != key:
                continue
            before = first.setdefault(trial.clamps, trial)
            if value_of(before) != value_of(trial):
                return before, trial
        return None

    def repeat(self, swapped: Iterable[Unit], number: int) -> Trial:
        """Return a further, independent repeat of a configuration."""
        return self._made(self._key(swapped), number)

    def sure(self, swapped: Iterable[Unit]) -> Value:
        """Return the value of a configuration whose being different, or failing, the answer rests on: it is run twice.

        Noise gives other bits, hardly ever A's or B's: what is equal needs no second look. What failed may have lacked
        memory, or a port. What is flaky was repeated when it was judged.

        Raises:
            Flaky: if the second run has another value.
            Stopped: if it would have to be run and may not.
        """
        key = self._key(swapped)
        value = self.value(key)
        if key not in self._sure and self._decide is None and self._known[key].outcome is not Outcome.FLAKY:
            again = self._made(key, AGAIN)
            self._sure.add(key)
            if value_of(again) != value:
                self._values[key] = None
                self._doubted.add(key)
                raise Flaky(self._known[key], again)
        return value

    def is_doubted(self, swapped: Iterable[Unit]) -> bool:
        """Whether a configuration had another value when it was run again."""
        return self._key(swapped) in self._doubted

    def retried(self, swapped: Iterable[Unit]) -> Trial:
        """Return the trial of a configuration; one that does not run is run once more, and the second one counts.

        Raises:
            Stopped: if it would have to be run and may not.
        """
        key = self._key(swapped)
        if self.trial(key).outcome is Outcome.SKIP and key not in self._sure:
            self._sure.add(key)
            self._known[key] = self._made(key, AGAIN)
            self._values.pop(key, None)
        return self._known[key]

    def observe(self, oracle: ObservingOracle, swapped: Iterable[Unit]) -> Observation:
        """Return what a configuration does unrecorded; it counts against the budget, and is no trial.

        Raises:
            Stopped: if it may not be run.
        """
        self._may_run(self._count())
        self._observed += 1
        return oracle.observe(self._key(swapped))

    def part(self, oracle: FillingOracle, swapped: Iterable[Unit], *clamps: Collection[str]) -> Address | None:
        """Return where a configuration differs from itself with other clamps; two runs, and no trial.

        Raises:
            Stopped: if they may not be run.
        """
        self._may_run(self._count() + 1)
        self._observed += 2
        one, other = clamps
        return oracle.parted(self._key(swapped), one, other)

    def aside(self, oracle: Oracle, swapped: Iterable[Unit], number: int) -> Trial:
        """Return a trial that another oracle makes; listed, but never taken for the value of a configuration.

        Raises:
            Stopped: if it may not be run.
        """
        self._may_run(self._count())
        return self._noted(oracle(self._key(swapped), repeat=number))

    def _key(self, swapped: Iterable[Unit]) -> frozenset[Unit]:
        key = frozenset(swapped)
        for unit, parts in reversed(self.finer.items()):
            if unit in self.steps:
                key = _last_step(key, unit, self.steps[unit])
            elif parts <= key:
                key = key - parts | {unit}
        return key

    def _judged(self, key: frozenset[Unit]) -> Value:
        if self._decide is not None:
            self._known[key], value = self._decide(key)
            return value
        trial = self.trial(key)
        if trial.outcome is Outcome.FLAKY:
            again = {value_of(self._made(key, number)) for number in range(1, REPEATS_OF_FLAKY + 1)}
            return again.pop() if len(again) == 1 else None
        value = value_of(trial)
        if trial.outcome is Outcome.OTHER and trial.signature and value not in self._others:
            self._others.add(trial.signature)
            if len(self._others) == SUSPICIOUS:
                self._sure.add(key)
                if value_of(self._made(key, 1)) != value:
                    raise Noisy(
                        f"trial {trial.n} does not repeat itself: where its units are mixed the run is noisy, "
                        "and nothing can be told from other bits"
                    )
        return value

    def _may_run(self, made: int) -> None:
        limit = self._budget.trials
        if self._should_stop():
            raise Stopped(BY_USER)
        if limit is not None and made >= limit:
            raise Stopped(f"the budget of {limit} trial{'s' * (limit > 1)} is spent")
        if self._is_late():
            raise Stopped(f"the budget of {self._budget.seconds:g} s is spent")

    def _is_late(self) -> bool:
        return self._budget.seconds is not None and self._clock() - self._begin >= self._budget.seconds

    def _made(self, key: frozenset[Unit], repeat: int) -> Trial:
        self._may_run(self._count())
        return self._noted(self._oracle(key, repeat=repeat))

    def _run_together(self, keys: list[frozenset[Unit]]) -> None:
        """Run configurations ``jobs`` at a time; what was not begun or was cut off is left to `value`: it says why."""
        if not keys:
            return
        self._may_run(self._count())
        left = len(keys) if self._budget.trials is None else max(self._budget.trials - self._count(), 0)

        def made(key: frozenset[Unit]) -> Trial | None:
            return None if self._should_stop() or self._is_late() else self._oracle(key)

        with ThreadPoolExecutor(self._jobs) as pool:
            chosen = keys[:left]
            for key, trial in zip(chosen, pool.map(made, chosen), strict=True):
                if trial is not None and not self._is_cut_off(trial):
                    self._known[key] = self._noted(trial)

    def _count(self) -> int:
        """Return the number of runs that were really made: one taken from a journal costs nothing."""
        return sum(not trial.reused for trial in self.trials) + self._observed + self._budget.used_trials

    def _is_cut_off(self, trial: Trial) -> bool:
        """Whether the user has ended a trial, which then says nothing of its units."""
        return trial.outcome is Outcome.SKIP and self._should_stop()

    def _noted(self, trial: Trial) -> Trial:
        if self._is_cut_off(trial):
            raise Stopped(BY_USER)
        trial = replace(trial, n=len(self.trials) + 1)
        self.trials.append(trial)
        self._on_trial(trial)
        return trial


def _last_step(key: frozenset[Unit], unit: Unit, steps: tuple[Unit, ...]) -> frozenset[Unit]:
    """Return a configuration with the last of its steps only, which is the whole if it is the last of all."""
    there = {step.b for step in key if (step.layer, step.knob) == (unit.layer, unit.knob)}
    last = next((step for step in reversed(steps) if step.b in there), None)
    if last is None:
        return key
    rest = frozenset(each for each in key if (each.layer, each.knob) != (unit.layer, unit.knob))
    return rest | {unit if last.b == unit.b else last}


def value_of(trial: Trial) -> Value:
    """Return the value of one trial."""
    match trial.outcome:
        case Outcome.A:
            return A
        case Outcome.B:
            return B
        case Outcome.OTHER:
            return trial.signature or f"trial {trial.n}"
    return None
