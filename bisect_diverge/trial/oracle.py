"""Runs trials: the one thing that a search asks of this room."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.diff.compare import compare
from bisect_diverge.diff.options import DiffOptions
from bisect_diverge.errors import ReplayError, RunError
from bisect_diverge.model.environment import Environment, Layer
from bisect_diverge.model.run import State
from bisect_diverge.model.sampling import SAMPLED
from bisect_diverge.model.trial import LEFT_OUT, Observation, Outcome, Trial, Unit, Untested
from bisect_diverge.record.settings import HELD_AT
from bisect_diverge.store.reader import Run
from bisect_diverge.trial.advice import advice
from bisect_diverge.trial.clamp import CLAMPS, FILLS, can_fill, fills_memory, with_clamps
from bisect_diverge.trial.configuration import launch
from bisect_diverge.trial.draft import Sides
from bisect_diverge.trial.horizon import Horizon, horizon_of, precedes
from bisect_diverge.trial.inputs import is_input
from bisect_diverge.trial.journal import Journal
from bisect_diverge.trial.judge import Judgement, consequences, inert, is_whole, judge
from bisect_diverge.trial.nearness import nearness, numbers_at, watched
from bisect_diverge.trial.outputs import is_lendable, lost, made_anew
from bisect_diverge.trial.packages import CannotBuildError
from bisect_diverge.trial.parts import doubt_of, parts_of
from bisect_diverge.trial.runner import Ended, Launch, last_words, run
from bisect_diverge.trial.swap_seed import held_in, moved, of_all_ranks, seeds_in
from bisect_diverge.trial.units import Units, left_over
from bisect_diverge.trial.unrecorded import End, end_of, told, unrecorded
from bisect_diverge.trial.versions import as_read_by
from bisect_diverge.trial.workspace import Workspace

if TYPE_CHECKING:
    from bisect_diverge.model.address import Address
    from bisect_diverge.model.environment import Setting
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
NOTHING: Units = Units(units=(), untestable=(), resolved=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two runs, and how their trials are made and judged."""

    a: Run
    """The baseline that trials are compared with, open."""
    b: Run | None
    """The candidate, open; None: trials are compared with A alone."""
    sides: Sides
    """What is run again, and how far."""
    journal: Journal
    """Remembers trials."""
    workspace: Workspace
    """Where they run."""
    first: Address | None = None
    """Where A and B first differ, if that is known."""
    offset_b: int = 0
    """A's step at which a resumed B begins."""
    horizon: Horizon | None = None
    """Rows from here on are not judged; None: all are."""
    clamps: tuple[str, ...] = ()
    """Clamps that are on in every trial (`trial.clamp`)."""
    measured: bool = False
    """Whether it is measured how far each trial is on the way from A to B."""
    units: Units = NOTHING
    """What differs; what B has beside its requested inputs is taken from here."""
    left_out: Mapping[Layer, str] = field(default_factory=dict)
    """Layer that the user does not want moved to the option that says so."""
    must_run: bool = False
    """Whether a failing A is an error, and no trial."""
    should_stop: Callable[[], bool] = lambda: False
    """Asked while a trial runs; True ends it."""
    announce: Callable[[frozenset[Unit]], None] = lambda _: None
    """Called before a trial is started."""
    observing: Callable[[frozenset[Unit]], None] = lambda _: None
    """Called before a configuration is run unrecorded."""
    found: Callable[[Sequence[Unit], Sequence[Untested]], None] = lambda _units, _cannot: None
    """Called when more is moved than `units` says, with all that is, and with what cannot be."""


class Trials:
    """An oracle over two recorded runs.

    Args:
        pair: The runs, and how trials are made.
    """

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._record_a = merged_record(pair.a)
        self._lock = threading.RLock()
        self._count = 0
        self._controls: set[frozenset[Unit]] = {frozenset(), frozenset(pair.units.units)}
        self._made_here: set[tuple[frozenset[Unit], int]] = set()
        self._recorded: dict[frozenset[Unit], End] = {}
        self._lent: set[frozenset[Unit]] = set()
        self._watched: tuple[int, ...] | None = None
        self.interrupted = False
        """A trial was ended because the search was."""
        self.environments: dict[frozenset[Unit], Environment] = {}
        """What was read back in the trials that were run by this object."""

    @property
    def last_step(self) -> int:
        """Last step that a trial runs."""
        return self._pair.sides.last_step

    @property
    def pair(self) -> Pair:
        """The runs, and how trials are made."""
        return self._pair

    # -- trials --------------------------------------------------------------------------------------------------

    def __call__(self, swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
        """Return the trial of A's environment with some units at B's values.

        Args:
            swapped: Units at B's values.
            repeat: 0, 1, 2, ...: each may be answered from the journal, unless the configuration is a control that
                this object has not run yet. Those of a sample (`SAMPLED`) always may.

        Raises:
            ReplayError: if A itself fails though it has to run.
        """
        known = self._pair.journal.find(swapped, repeat)
        if known is not None and self._may_be_reused(known, swapped, repeat):
            return replace(known, n=self._next(), swapped=_sorted(swapped))
        self._pair.announce(swapped)
        trial = self._made(swapped)
        if not swapped and trial.outcome in (Outcome.OTHER, Outcome.B) and self._hold_moving_seeds():
            trial = self._made(swapped)
        if not swapped and trial.outcome is Outcome.SKIP and self._show_stale():
            trial = self._made(swapped)
        if trial.outcome is Outcome.SKIP and TEARDOWN in trial.reason:
            trial = self._made(swapped)
        if self._pair.must_run and not swapped and trial.outcome is Outcome.SKIP and not self.interrupted:
            raise ReplayError(
                f"the recorded command fails now, which it did not when it was recorded: {trial.reason}",
                hint="trials run it again in the recorded directory; does it need something that is gone?",
            )
        if trial.reason != INTERRUPTED:
            self._pair.journal.add(trial, repeat)
            self._made_here.add((swapped, repeat))
        return trial

    def _may_be_reused(self, known: Trial, swapped: frozenset[Unit], repeat: int) -> bool:
        if self._pair.measured and known.nearness is None:
            return False
        return repeat >= SAMPLED or swapped not in self._controls or (swapped, repeat) in self._made_here

    def _hold_moving_seeds(self) -> bool:
        """Hold from now on the seeds that the last replay of A did not get again; False where it got all of them."""
        now = seeds_in(self.environments.get(frozenset(), self._record_a.environment))
        found = moved(self._record_a, now)
        if not found:
            return False
        self._pair = replace(self._pair, sides=replace(self._pair.sides, moving=found))
        return True

    def _show_stale(self) -> bool:
        """Let trials find what A prepared and what is another file now; False where there is no such file."""
        sides = self._pair.sides
        if self.interrupted or sides.stale or not made_anew(sides.a, sides.b):
            return False
        self._pair = replace(self._pair, sides=replace(sides, stale=True))
        return True

    def prepared_anew(self) -> tuple[str, str]:
        """Return the names of files that A prepared and that are others now, and what trials do about it."""
        sides = self._pair.sides
        names = ", ".join(os.path.relpath(path, sides.a.cwd) for path in made_anew(sides.a, sides.b))
        does = (
            "A fails without, so that every trial finds what is there now"
            if sides.stale
            else "every trial makes its own"
        )
        return names, does

    def held_seeds(self) -> tuple[str, ...]:
        """Return the seeds and first states that are held at A's in every trial where they are not swapped."""
        return held_in(self._pair.sides.a, self._pair.sides.moving)

    def read_back(self, swapped: frozenset[Unit]) -> Environment:
        """Return the environment that a trial had, running it again if it is only remembered."""
        if swapped not in self.environments and swapped:
            self._made(swapped)
        return self.environments.get(swapped, self._record_a.environment)

    def recording(
        self, swapped: frozenset[Unit], folder: Path, alter: Callable[[Launch], Launch] = lambda launch: launch
    ) -> Path:
        """Run a configuration in a folder, and return where its recording lies.

        Args:
            swapped: Units at B's values.
            folder: Of the trial.
            alter: Changes what is started.

        Raises:
            ReplayError: if it does not run.
        """
        self._pair.announce(swapped)
        try:
            ended = self._run(alter(self._launch(swapped, folder)), folder)
        except CannotBuildError as error:
            raise ReplayError(str(error)) from None
        if ended.stopped:
            self.interrupted = True
        try:
            with Run(folder / "run") as made:
                if not is_whole(made, self.last_step):
                    raise ReplayError(f"it does not run: {_why(ended)}")
                self.environments[swapped] = merged_record(made).environment
        except RunError:  # it ended before anything was recorded
            raise ReplayError(f"it does not run: {_why(ended)}") from None
        return folder / "run"

    def settled(self, swapped: frozenset[Unit], folders: Callable[[], Path]) -> tuple[Path, int]:
        """Run A or B as a trial is run: with what moves by itself held, and with what it fails without.

        Args:
            swapped: Nothing, or all units.
            folders: Returns a new folder for each run.

        Returns:
            Where the last recording lies, and how often it was run.

        Raises:
            ReplayError: if it does not run.
        """
        made, runs, helped = None, 0, set[str]()
        while made is None:
            runs += 1
            try:
                made = self.recording(swapped, folders())
            except ReplayError as error:
                how = "" if self.interrupted else self._helped(swapped, str(error), helped)
                if not how:
                    raise
                helped.add(how)
        if not swapped and self._hold_moving_seeds():
            made, runs = self.recording(swapped, folders()), runs + 1
        return made, runs

    def _helped(self, swapped: frozenset[Unit], reason: str, helped: set[str]) -> str:
        """Change what a run that failed lacks, and return what that was; empty where there is nothing left."""
        if TEARDOWN in reason and TEARDOWN not in helped:
            return TEARDOWN
        if not swapped:
            return "stale" if self._show_stale() else ""
        if swapped not in self._lent and is_lendable(self._pair.sides):
            self._lent.add(swapped)
            return "lent"
        return ""

    def _next(self) -> int:
        with self._lock:
            self._count += 1
            return self._count

    def _launch(self, swapped: frozenset[Unit], folder: Path) -> Launch:
        started = launch(replace(self._pair.sides, lent=swapped in self._lent), swapped, folder)
        return with_clamps(started, self._pair.clamps) if self._pair.clamps else started

    def _run(self, started: Launch, folder: Path) -> Ended:
        ended = run(started, folder, self._patience(), self._pair.should_stop)
        if NOT_INSTALLED in ended.output:
            raise ReplayError(
                f"the recorded command runs an interpreter without this package: {last_words(ended.output)}",
                hint=f"install it there: {started.command[0]} -m pip install bisect-diverge",
            )
        return ended

    def _made(self, swapped: frozenset[Unit]) -> Trial:
        """Run a configuration; one that fails with B's values is given what B alone has read, and run once more."""
        trial = self._tried(swapped)
        if not swapped or trial.outcome is not Outcome.SKIP or trial.reason == INTERRUPTED or self._pair.b is None:
            return trial
        sides = self._pair.sides
        if swapped not in self._lent and is_lendable(sides):
            self._lent.add(swapped)
            trial = self._tried(swapped)
        gone = lost(sides, trial.reason) if trial.outcome is Outcome.SKIP else ""
        return replace(trial, reason=f"{trial.reason}; {gone}") if gone else trial

    def _tried(self, swapped: frozenset[Unit]) -> Trial:
        with self._pair.workspace.folder() as folder:
            try:
                started = self._launch(swapped, folder)
            except CannotBuildError as error:
                return self._skipped(swapped, str(error), 0.0)
            began = time.time()
            ended = self._run(started, folder)
            if ended.stopped:
                self.interrupted = True
                return self._skipped(swapped, INTERRUPTED, ended.seconds)
            if ended.timed_out:
                return self._skipped(swapped, f"not finished after {ended.seconds:.0f} s", ended.seconds)
            return self._judged(swapped, folder / "run", ended, began)

    def _judged(self, swapped: frozenset[Unit], recording: Path, ended: Ended, began: float) -> Trial:
        pair = self._pair
        try:
            with Run(recording) as made, self._lock:
                failed = pair.a.first.status.state is not State.COMPLETE or bool(pair.a.first.status.exit_status)
                if not is_whole(made, self.last_step) and not failed:
                    return self._skipped(swapped, _why(ended), ended.seconds)
                verdict = judge(made, pair.a, pair.b, pair.offset_b, pair.horizon)
                near, numbers = self._measured(made)
                environment = merged_record(made).environment
                stopped = max(file.steps for file in made.ranks.values()) - 1
                overridden = tuple(dict.fromkeys(n for n in made.first.record.notes if HELD_AT in n))
                startup = max(0.0, made.first.status.started - began)
                if swapped in self._controls:
                    self._recorded[swapped] = end_of(made, self.last_step)
        except RunError:
            return self._skipped(swapped, _why(ended), ended.seconds)
        self.environments[swapped] = environment
        trial = self._trial(swapped, verdict, environment, ended.seconds, stopped)
        return replace(trial, startup=startup, nearness=near, numbers=numbers, overridden=overridden)

    def watched(self) -> Sequence[Address]:
        """Return where the numbers of trials stand in A."""
        return tuple(self._pair.a.first.address(row) for row in self._watched or ())

    def _measured(self, made: Run) -> tuple[float | None, tuple[float, ...]]:
        """Return how near a trial is to A and B, and some of its numbers, if that is wanted."""
        pair = self._pair
        if not pair.measured or pair.b is None:
            return None, ()
        if self._watched is None:
            self._watched = watched(pair.a, pair.b, self.last_step, pair.offset_b)
        return nearness(made, pair.a, pair.b, pair.offset_b), numbers_at(made, pair.a, self._watched)

    def _trial(
        self, swapped: frozenset[Unit], verdict: Judgement, environment: Environment, seconds: float, stopped: int
    ) -> Trial:
        of_a = self._record_a.environment
        environment = as_read_by(self._record_a, environment)
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
            clamps=self._pair.clamps,
        )

    def _skipped(self, swapped: frozenset[Unit], reason: str, seconds: float) -> Trial:
        return Trial(
            n=self._next(),
            base="a",
            swapped=_sorted(swapped),
            outcome=Outcome.SKIP,
            seconds=seconds,
            reason=reason,
            clamps=self._pair.clamps,
        )

    def _patience(self) -> float:
        file = self._pair.a.first
        took = file.path.stat().st_mtime - file.status.started
        return max(FEWEST_SECONDS, TIMES_SLOWER * took)

    # -- what else a search may ask ------------------------------------------------------------------------------

    def left_over(self, swapped: frozenset[Unit]) -> tuple[Sequence[Unit], Sequence[Untested]]:
        """Return resolved values of B that a swap of all requested inputs does not bring about."""
        if self._pair.b is None or not self._pair.units.resolved:
            return (), ()
        units = replace(self._pair.units, units=_sorted(swapped), untestable=())
        found = left_over(units, self.read_back(swapped))
        more = [unit for unit in found.units if unit not in swapped]
        out = self._pair.left_out
        reasons = {unit: f"{LEFT_OUT}{out[unit.layer]}" for unit in more if unit.layer in out}
        free = tuple(unit for unit in more if unit not in reasons)
        self._controls.add(swapped.union(free))
        refused = (Untested(unit=unit, reason=reason) for unit, reason in reasons.items())
        cannot = (*found.untestable, *refused)
        self._pair.found((*_sorted(swapped), *free), (*self._pair.units.untestable, *cannot))
        return free, cannot

    def parts(self, unit: Unit) -> tuple[Unit, ...]:
        """Return the parts of a unit; empty where it cannot be taken apart.

        Raises:
            ReplayError: if something that is needed for it is gone.
        """
        return parts_of(self._pair.sides.a, self._pair.sides.b, unit)

    def doubt(self, unit: Unit) -> str:
        """Return what else has part if all parts of a unit do not make what it makes; empty: they do make it."""
        return doubt_of(unit)

    def observe(self, swapped: frozenset[Unit]) -> Observation:
        """Return the parameters after the last step, unrecorded and recorded; nothing of it is remembered."""
        if self._pair.horizon is not None:
            return Observation(reason=f"only what lies before {self._pair.horizon.address} is judged")
        self._controls.add(swapped)
        if swapped not in self._recorded:
            self._made(swapped)
        recorded = self._recorded.get(swapped, End(reason="the recorded run of it failed"))
        if recorded.reason:
            return Observation(reason=recorded.reason)
        self._pair.observing(swapped)
        with self._pair.workspace.folder() as folder:
            started = unrecorded(self._launch(swapped, folder), folder, recorded.updates)
            ended = self._run(started, folder)
            self.interrupted = self.interrupted or ended.stopped
            seen = told(folder, len(self._pair.a.ranks), recorded.updates)
        if seen.reason:
            return Observation(reason=f"{seen.reason}: {_why(ended)}")
        where = f"the parameters after step {self.last_step}"
        return Observation(unrecorded=seen.bits, recorded=recorded.bits, where=where)

    def limit(self, differing: Sequence[Address]) -> Trials | None:
        """Return an oracle that judges only what precedes all of these addresses: whole steps, or rows of A's order.

        None where A and B do not differ before them, so that nothing would be left to search.
        """
        pair = self._pair
        if pair.b is None or pair.first is None:
            return None
        last = min(address.step for address in differing) - 1
        if pair.first.step <= last:
            return self._but(last, None)
        horizon = None if pair.offset_b else horizon_of(pair.a, pair.b, differing)
        if horizon is None or not precedes(pair.a, pair.first, horizon):
            return None
        return self._but(horizon.address.step, horizon)

    def _but(self, last_step: int, horizon: Horizon | None) -> Trials:
        before = "" if horizon is None else f", before {horizon.address}"
        limited = Trials(
            replace(
                self._pair,
                sides=replace(self._pair.sides, last_step=last_step),
                journal=self._pair.journal.but(f"until {last_step}{before}"),
                horizon=horizon,
            )
        )
        limited._controls |= self._controls
        limited._lent |= self._lent
        return limited

    def clamps(self) -> Sequence[str]:
        """Return the names of all clamps."""
        return tuple(CLAMPS)

    def clamped(self, clamps: Collection[str]) -> Trials:
        """Return an oracle whose trials run with these clamps; nothing of it is remembered."""
        return self.over(replace(self._pair, clamps=tuple(clamps), journal=self._pair.journal.but(None)))

    def over(self, pair: Pair) -> Trials:
        """Return an oracle over another pair of the same two sides, which knows what had to be lent so far."""
        made = Trials(pair)
        made._lent |= self._lent
        if frozenset(self._pair.units.units) in self._lent:
            made._lent.add(frozenset(pair.units.units))
        return made

    def fills(self) -> Sequence[str]:
        """Return the names of clamps that fill memory that nobody has written, each with other bytes."""
        return tuple(FILLS) if can_fill() else ()

    def fills_too(self, clamp: str) -> bool:
        """Whether one of `clamps` fills such memory beside what else it does."""
        return fills_memory(clamp)

    def parted(self, swapped: frozenset[Unit], one: Collection[str], other: Collection[str]) -> Address | None:
        """Return where a configuration first differs from itself with other clamps; None: nowhere, or it fails."""
        with ExitStack() as stack:
            runs = []
            for clamps in (one, other):
                folder = stack.enter_context(self._pair.workspace.folder())
                try:
                    runs.append(stack.enter_context(Run(self.clamped(clamps).recording(swapped, folder))))
                except ReplayError:
                    return None
            first = compare(runs[0], runs[1], DiffOptions()).divergence.first
        return None if first is None else first.address

    def advise(self, trials: Sequence[Trial]) -> Sequence[str]:
        """Return what these repeats, which differ, suggest to do about it."""
        swapped = frozenset(trials[0].swapped)
        differing = [t.first_against_b if swapped else t.first_against_a for t in trials]
        of_b = self._pair.b if swapped and self._pair.b is not None else self._pair.a
        recorded = merged_record(of_b).environment
        return advice(recorded, self.environments.get(swapped), [x for x in differing if x is not None])


def merged_record(run: Run) -> RunRecord:
    """Return the record of the lowest rank with what the others have too: files written and read, and seeds."""
    written: dict[str, str] = {}
    read: list[Setting] = []
    for file in run.ranks.values():
        written |= file.record.written
        read += [s for s in file.record.environment.settings if not s.resolved and is_input(s.layer, s.knob)]
    place = run.path if run.path.is_dir() else run.path.parent
    environment = Environment().merged(tuple(read)).merged(run.first.record.environment.settings)
    environment = environment.merged(of_all_ranks({r: f.record.environment for r, f in run.ranks.items()}))
    return run.first.record.with_(written=written, place=str(place.resolve()), environment=environment)


def _why(ended: Ended) -> str:
    if TEARDOWN in ended.output:
        return TEARDOWN
    return f"status {ended.status}: {last_words(ended.output, ERROR_WORDS)}"


def _sorted(units: Iterable[Unit]) -> tuple[Unit, ...]:
    order = list(Layer)
    return tuple(sorted(units, key=lambda unit: (order.index(unit.layer), unit.knob)))
