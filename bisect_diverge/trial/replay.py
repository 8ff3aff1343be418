"""Replays one step of a recorded run in place: under its own settings, and under others."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.diff.replayed import Side, replayed
from bisect_diverge.errors import NotComparableError, ReplayError, UsageError
from bisect_diverge.model.address import PHASE_CODE, Phase
from bisect_diverge.model.replay import NOT_KEPT, Forced, Replay, read_forced
from bisect_diverge.model.run import Capture
from bisect_diverge.record.settings import ReplaySettings
from bisect_diverge.store.reader import Run
from bisect_diverge.trial.judge import consequences, inert
from bisect_diverge.trial.oracle import Trials, merged_record
from bisect_diverge.trial.search import TrialOptions, trials
from bisect_diverge.trial.units import left_over
from bisect_diverge.trial.versions import as_read_by

if TYPE_CHECKING:
    from bisect_diverge.model.replay import Own
    from bisect_diverge.model.trial import Unit
    from bisect_diverge.trial.runner import Launch
    from bisect_diverge.trial.units import Units

FORCING = "forcing"
"""Folder in that of a trial: gets what the process has set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """One replay: its recording, open, and what it has set on each rank."""

    run: Run
    forced: dict[int, Forced]

    def side(self, rank: int) -> Side:
        """Return one rank of it."""
        return Side(file=self.run.ranks[rank], forced=self.forced.get(rank, Forced()))


def check_step(a: Run, step: int) -> None:
    """Refuse a step that cannot be replayed in place.

    Raises:
        UsageError: if A did not record it.
        NotComparableError: if A kept no tensor of it.
    """
    again = _again(a, step)
    for file in a.ranks.values():
        here = file.events["step"] == step
        if not here.any():
            raise UsageError(f"{a.path} has no record of step {step}", hint=f"record it: {again}")
        calls = here & (file.events["phase"] == PHASE_CODE[Phase.FORWARD])
        if not (file.events["offset"][calls] >= 0).any():
            raise NotComparableError(
                f"{a.path} kept only digests of step {step}, and modules are replayed on tensors",
                hint=f"record that step in full: {again}",
            )


def replay(
    a: Run,
    b: Run | None,
    step: int,
    moved: Units,
    *,
    options: TrialOptions,
    announce: Callable[[str], None] = lambda _: None,
) -> Replay:
    """Replay a step in place twice, and say whose own computation differs.

    Args:
        a: The run whose tensors are used.
        b: The run whose settings are used; None: `moved` says all.
        step: The step.
        moved: What is changed, and what cannot be.
        options: How trials are made.
        announce: Called with what is about to run.

    Raises:
        UsageError, NotComparableError: if the step cannot be replayed (`check_step`).
        ReplayError: if the recorded command does not run any more, or not with these settings.
    """
    check_step(a, step)
    began = time.monotonic()
    units = frozenset(moved.units)
    with trials(a, b, None, options) as made:
        pair = made.pair
        sides = replace(pair.sides, last_step=step)
        oracle = Trials(replace(pair, sides=sides, journal=pair.journal.but(None)))
        with pair.workspace.folder() as own, pair.workspace.folder() as other:
            announce("under A's own settings")
            control = _made(oracle, frozenset(), own, a, step, Capture.DIGEST)
            announce("under the changed settings")
            changed = _made(oracle, units, other, a, step, Capture.FULL)
            with control.run, changed.run:
                ranks = a.ranks.items()
                owns = tuple(
                    own for rank, file in ranks for own in replayed(file, step, control.side(rank), changed.side(rank))
                )
                environment = changed.run.first.record.environment
    record = merged_record(a)
    of_a, environment = record.environment, as_read_by(record, environment)
    rest = left_over(moved, environment)
    return Replay(
        step=step,
        owns=owns,
        swapped=tuple(sorted(units, key=str)),
        inert=inert(units, of_a, environment),
        untestable=rest.untestable,
        consequences=consequences(units, of_a, environment),
        written=sum(len(forced.written) for forced in changed.forced.values()),
        notes=(*_notes(a, step, owns), *_still_other([unit for unit in rest.units if unit not in units])),
        seconds=time.monotonic() - began,
    )


def _made(oracle: Trials, swapped: frozenset[Unit], folder: Path, a: Run, step: int, capture: Capture) -> _Made:
    """Replay the step under a configuration."""
    told = folder / FORCING
    told.mkdir()
    settings = ReplaySettings(run=str(a.path.resolve()), step=step, folder=str(told))

    def forcing(launch: Launch) -> Launch:
        return _replaying(launch, settings, capture, a.first.record.options.keep_bytes)

    recording = oracle.recording(swapped, folder, forcing)
    run = Run(recording)
    found = {rank: read_forced(told, rank) for rank in a.ranks}
    if oracle.interrupted or None in found.values() or not run.ranks.keys() >= a.ranks.keys():
        run.close()
        raise ReplayError(f"the replay of step {step} was not finished")
    return _Made(run=run, forced={rank: forced for rank, forced in found.items() if forced is not None})


def _replaying(launch: Launch, replay: ReplaySettings, capture: Capture, keep_bytes: int) -> Launch:
    """Return what to start so that a step is replayed in place, and nothing else is recorded."""
    settings = launch.settings
    assert settings.trial is not None
    options = replace(settings.options, capture=capture, keep_bytes=keep_bytes, steps=(replay.step, replay.step + 1))
    return launch.recorded_as(replace(settings, options=options, trial=replace(settings.trial, replay=replay)))


def _still_other(units: Sequence[Unit]) -> list[str]:
    """Say what B has that no requested input brings about."""
    names = ", ".join(f"{unit} ({unit.a} -> {unit.b})" for unit in units)
    return [f"B has other values, which the replay does not: {names}; --set moves them"] if units else []


def _again(a: Run, step: int) -> str:
    """Return the command that keeps what replaying a step needs: the step before it tells the optimizer's state."""
    words = shlex.join(a.first.record.command) or "COMMAND"
    return f"bd record --capture full --steps {max(0, step - 1)}:{step + 1} -o RUN -- {words}"


def _notes(a: Run, step: int, owns: Sequence[Own]) -> list[str]:
    notes = []
    if any(NOT_KEPT in own.reason for own in owns):
        notes.append(f"A did not keep every tensor of the step; to keep them: {_again(a, step)}")
    if step > min(int(file.events["step"].min()) for file in a.ranks.values()):
        notes.append(
            f"the steps before {step} ran under each setting as they are; "
            f"parameters, buffers and optimizer state were set to A's when step {step} began"
        )
    slots = {slot for file in a.ranks.values() for slot in file.slots}
    if any(slot.startswith(("torch.cuda", "torch.xpu", "torch.mps")) for slot in slots):
        notes.append("generators of accelerators are not set: a module that draws from one may be listed for that")
    if a.first.record.options.modules:
        notes.append("A was recorded with --modules: what the other modules compute counts as their caller's own code")
    return notes
