"""Which knobs a run is sensitive to: each is swapped alone, and the bits are compared with the run's own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bisect_diverge.model.trial import Budget, Oracle, Outcome, Trial, Unit, Untested

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """What came of it, whole or partial."""

    repeats: tuple[Trial, ...]
    """The run itself, repeated with nothing swapped."""
    trials: tuple[Trial, ...] = ()
    """One for each value of each knob, in the order in which they were made."""
    inapplicable: tuple[Untested, ...] = ()
    """Knobs that mean nothing here, with the reason."""
    left: tuple[Unit, ...] = ()
    """What was not tried, because the time was up or somebody stopped it."""

    @property
    def repeats_itself(self) -> bool:
        """Whether all repeats have the run's own bits."""
        return bool(self.repeats) and all(trial.outcome is Outcome.A for trial in self.repeats)

    @property
    def finished(self) -> bool:
        """Whether everything was tried."""
        return self.repeats_itself and not self.left

    @property
    def sensitive(self) -> tuple[Trial, ...]:
        """Trials whose bits are others."""
        return tuple(trial for trial in self.trials if trial.outcome is Outcome.OTHER)

    @property
    def inert(self) -> tuple[Trial, ...]:
        """Trials in which the resolved value did not move with the knob: nothing was tested."""
        return tuple(trial for trial in self.trials if trial.outcome is Outcome.A and trial.inert)

    @property
    def without_effect(self) -> tuple[Trial, ...]:
        """Trials that have the run's own bits."""
        return tuple(trial for trial in self.trials if trial.outcome is Outcome.A and not trial.inert)

    @property
    def failed(self) -> tuple[Trial, ...]:
        """Trials that did not run."""
        return tuple(trial for trial in self.trials if trial.outcome is Outcome.SKIP)

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values."""
        return {
            "schema": 1,
            "verdict": "varied" if self.repeats_itself else "baseline-not-repeatable",
            "finished": self.finished,
            "sensitive": [_row(trial) for trial in self.sensitive],
            "without_effect": [_row(trial) for trial in self.without_effect],
            "inert": [_row(trial) for trial in self.inert],
            "could_not_run": [_row(trial) for trial in self.failed],
            "inapplicable": [row.to_json() for row in self.inapplicable],
            "not_tried": [unit.to_json() for unit in self.left],
            "trials": [trial.to_json() for trial in (*self.repeats, *self.trials)],
        }


def _row(trial: Trial) -> dict[str, Any]:
    (unit,) = trial.swapped
    first = trial.first_against_a
    row = unit.to_json() | {"first": None if first is None else str(first), "trial": trial.n}
    row["consequences"] = [{"layer": str(d.layer), "knob": d.knob, "a": d.a, "b": d.b} for d in trial.consequences]
    return row | ({"reason": trial.reason} if trial.reason else {})


def vary(
    units: Sequence[Unit],
    oracle: Oracle,
    budget: Budget,
    *,
    inapplicable: Sequence[Untested] = (),
    jobs: int = 1,
    on_trial: Callable[[Trial], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Variation:
    """Repeat a run, and swap each unit alone.

    Args:
        units: What is swapped.
        oracle: Runs trials.
        budget: Most trials and most time; `repeats` is how often the run itself is repeated.
        inapplicable: Passed on.
        jobs: Trials at a time.
        on_trial: Called with each trial.
        should_stop: Asked before each trial.

    Returns:
        What came of it; where the run does not repeat itself nothing is swapped, because nothing could be told.
    """
    began = time.monotonic()
    made = 0

    def over() -> bool:
        spent = budget.seconds is not None and time.monotonic() - began >= budget.seconds
        return should_stop() or spent or (budget.trials is not None and made >= budget.trials)

    def repeats() -> Iterator[Trial]:
        nonlocal made
        for repeat in range(budget.repeats):
            if over():
                return
            trial = oracle(frozenset(), repeat=repeat)
            made += 1
            on_trial(trial)
            yield trial

    found = Variation(repeats=tuple(repeats()), inapplicable=tuple(inapplicable), left=tuple(units))
    if not found.repeats_itself:
        return found
    trials: list[Trial] = []
    for trial in _run(oracle, units if budget.trials is None else units[: budget.trials - made], jobs, over):
        trials.append(trial)
        on_trial(trial)
    whole = tuple(t for t in trials if t.outcome is not Outcome.SKIP or not should_stop())  # the last one was cut off
    tried = {unit for trial in whole for unit in trial.swapped}
    return replace(found, trials=whole, left=tuple(unit for unit in units if unit not in tried))


def _run(oracle: Oracle, units: Sequence[Unit], jobs: int, over: Callable[[], bool]) -> Iterator[Trial]:
    """Yield the trials of units, each alone, in their order; none is begun once it is over."""

    def made(unit: Unit) -> Trial | None:
        return None if over() else oracle(frozenset([unit]))

    if jobs == 1:
        yield from filter(None, map(made, units))
        return
    with ThreadPoolExecutor(jobs) as pool:
        yield from filter(None, pool.map(made, units))
