"""Runs trials: the one thing that a search asks of this room."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.errors import ReplayError, RunError
from bisect_diverge.model.environment import Layer
from bisect_diverge.model.run import State
from bisect_diverge.model.trial import Outcome, Trial, Unit
from bisect_diverge.store.reader import Run
from bisect_diverge.trial.configuration import Sides, launch
from bisect_diverge.trial.journal import Journal
from bisect_diverge.trial.judge import Judgement, consequences, inert, is_whole, judge
from bisect_diverge.trial.packages import CannotBuildError
from bisect_diverge.trial.runner import Ended, last_words, run
from bisect_diverge.trial.workspace import Workspace

if TYPE_CHECKING:
    from bisect_diverge.model.address import Address
    from bisect_diverge.model.environment import Environment
    from bisect_diverge.model.run import RunRecord

FEWEST_SECONDS = 300.0
"""A trial is given so long at least."""
TIMES_SLOWER = 5.0
"""A trial is given so many times what the recorded run took."""

ERROR_WORDS = ("Error", "error:", "Exception", "cannot", "No such")
TEARDOWN = "terminate called without an active exception"
"""What gloo sometimes says when a process ends after its work is done; such a trial is run once more."""
INTERRUPTED = "the search was interrupted"
NOT_INSTALLED = "cannot import bisect_diverge"


class Trials:
    """An oracle over two recorded runs.

    Args:
        a: The baseline, open.
        b: The candidate, open; None: trials are compared with A alone.
        last_step: Last step that a trial runs, in A's numbering.
        first: Where A and B first differ, if that is known.
        journal: Remembers trials.
        workspace: Where they run.
        offset_b: A's step at which a resumed B begins.
        should_stop: Asked while a trial runs; True ends it.
        announce: Called before a trial is started.
    """

    def __init__(
        self,
        a: Run,
        b: Run | None,
        last_step: int,
        *,
        journal: Journal,
        workspace: Workspace,
        first: Address | None = None,
        offset_b: int = 0,
        should_stop: Callable[[], bool] = lambda: False,
        announce: Callable[[frozenset[Unit]], None] = lambda _: None,
    ) -> None:
        self._a, self._b = a, b
        self._record_a = merged_record(a)
        self._record_b = self._record_a if b is None else merged_record(b)
        self._sides = Sides(a=self._record_a, b=self._record_b, last_step=last_step)
        self._journal = journal
        self._workspace = workspace
        self._first = first
        self._offset = offset_b
        self._should_stop = should_stop
        self._announce = announce
        self._lock = threading.RLock()
        self._count = 0
        self._controls: set[frozenset[Unit]] = {frozenset()}
        self._made_here: set[tuple[frozenset[Unit], int]] = set()
        self.interrupted = False
        """A trial was ended because the search was."""
        self.environments: dict[frozenset[Unit], Environment] = {}
        """What was read back in the trials that were run by this object."""

    @property
    def last_step(self) -> int:
        """Last step that a trial runs."""
        return self._sides.last_step

    def always_run(self, swapped: frozenset[Unit]) -> None:
        """Take a configuration for a control: an earlier search never answers for it, as for nothing swapped."""
        self._controls.add(swapped)

    def __call__(self, swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
        """Return the trial of A's environment with some units at B's values.

        Args:
            swapped: Units at B's values.
            repeat: 0, 1, 2, ...: each may be answered from the journal, unless the configuration is a control that
                this object has not run yet.
        """
        known = self._journal.find(swapped, repeat)
        if known is not None and (swapped not in self._controls or (swapped, repeat) in self._made_here):
            return replace(known, n=self._next(), swapped=_sorted(swapped))
        self._announce(swapped)
        trial = self._made(swapped)
        if trial.outcome is Outcome.SKIP and TEARDOWN in trial.reason:
            trial = self._made(swapped)
        if trial.reason != INTERRUPTED:
            self._journal.add(trial, repeat)
            self._made_here.add((swapped, repeat))
        return trial

    def read_back(self, swapped: frozenset[Unit]) -> Environment:
        """Return the environment that a trial had, running it again if it is only remembered."""
        if swapped not in self.environments and swapped:
            self._made(swapped)
        return self.environments.get(swapped, self._record_a.environment)

    def _next(self) -> int:
        with self._lock:
            self._count += 1
            return self._count

    def _made(self, swapped: frozenset[Unit]) -> Trial:
        with self._workspace.folder() as folder:
            try:
                started = launch(self._sides, swapped, folder)
            except CannotBuildError as error:
                return self._skipped(swapped, str(error), 0.0)
            ended = run(started, folder, self._patience(), self._should_stop)
            if ended.stopped:
                self.interrupted = True
                return self._skipped(swapped, INTERRUPTED, ended.seconds)
            if ended.timed_out:
                return self._skipped(swapped, f"not finished after {ended.seconds:.0f} s", ended.seconds)
            if NOT_INSTALLED in ended.output:
                raise ReplayError(
                    f"the recorded command runs an interpreter without this package: {last_words(ended.output)}",
                    hint=f"install it there: {started.command[0]} -m pip install bisect-diverge",
                )
            return self._judged(swapped, folder / "run", ended)

    def _judged(self, swapped: frozenset[Unit], recording: Path, ended: Ended) -> Trial:
        try:
            with Run(recording) as made, self._lock:
                failed = self._a.first.status.state is not State.COMPLETE or bool(self._a.first.status.exit_status)
                if not is_whole(made, self.last_step) and not failed:
                    return self._skipped(swapped, _why(ended), ended.seconds)
                verdict = judge(made, self._a, self._b, self._offset)
                environment = made.first.record.environment
                stopped = max(file.steps for file in made.ranks.values()) - 1
        except RunError:
            return self._skipped(swapped, _why(ended), ended.seconds)
        self.environments[swapped] = environment
        return self._trial(swapped, verdict, environment, ended.seconds, stopped)

    def _trial(
        self, swapped: frozenset[Unit], verdict: Judgement, environment: Environment, seconds: float, stopped: int
    ) -> Trial:
        of_a = self._record_a.environment
        return Trial(
            n=self._next(),
            base="a",
            swapped=_sorted(swapped),
            outcome=verdict.outcome,
            signature=verdict.signature,
            inert=inert(_sorted(swapped), of_a, environment),
            consequences=consequences(swapped, of_a, environment),
            first_against_a=verdict.first_against_a,
            first_against_b=verdict.first_against_b,
            seconds=seconds,
            stopped_at_step=stopped,
            reason=verdict.reason,
        )

    def _skipped(self, swapped: frozenset[Unit], reason: str, seconds: float) -> Trial:
        return Trial(
            n=self._next(), base="a", swapped=_sorted(swapped), outcome=Outcome.SKIP, seconds=seconds, reason=reason
        )

    def _patience(self) -> float:
        file = self._a.first
        took = file.path.stat().st_mtime - file.status.started
        return max(FEWEST_SECONDS, TIMES_SLOWER * took)

    def limit(self, differing: Sequence[Address]) -> Trials | None:
        """Return an oracle that judges only the steps before all of these addresses.

        None where A and B do not differ before them, so that nothing would be left to search.
        """
        last = min(address.step for address in differing) - 1
        if last < 0 or self._b is None or self._first is None or self._first.step > last:
            return None
        limited = Trials(
            self._a,
            self._b,
            last,
            first=self._first,
            journal=self._journal.until(last),
            workspace=self._workspace,
            offset_b=self._offset,
            should_stop=self._should_stop,
            announce=self._announce,
        )
        limited._controls |= self._controls
        return limited


def merged_record(run: Run) -> RunRecord:
    """Return the record of the lowest rank with the files that all ranks wrote."""
    written: dict[str, str] = {}
    for file in run.ranks.values():
        written |= file.record.written
    return run.first.record.with_(written=written)


def _why(ended: Ended) -> str:
    if TEARDOWN in ended.output:
        return TEARDOWN
    return f"status {ended.status}: {last_words(ended.output, ERROR_WORDS)}"


def _sorted(units: Iterable[Unit]) -> tuple[Unit, ...]:
    order = list(Layer)
    return tuple(sorted(units, key=lambda unit: (order.index(unit.layer), unit.knob)))
