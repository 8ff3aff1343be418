"""Puts the hooks in and takes them out again."""

from __future__ import annotations

import os

from bisect_diverge.model.run import State
from bisect_diverge.record import worker_seeds
from bisect_diverge.record.calls import install_calls
from bisect_diverge.record.compiling import see_compile
from bisect_diverge.record.gradients import install_loss
from bisect_diverge.record.initial import FirstStates
from bisect_diverge.record.loaders import Loaders
from bisect_diverge.record.overrides import override
from bisect_diverge.record.patches import Patches
from bisect_diverge.record.recorder import Recorder
from bisect_diverge.record.saves import follow_saves
from bisect_diverge.record.settings import Settings
from bisect_diverge.record.updates import Updates

_current: Recorder | None = None
_fork_guard = False


def install(settings: Settings) -> tuple[Recorder, Patches]:
    """Start recording in this process.

    Returns:
        The recorder, and what takes its hooks out again.
    """
    global _current  # noqa: PLW0603 - there is one recording in a process
    recorder, patches = Recorder(settings), Patches()
    _current = recorder
    _guard_forks()
    install_calls(recorder, patches)
    install_loss(recorder, patches)
    Loaders(recorder, patches)
    updates = Updates(recorder, patches)
    see_compile(recorder, patches)
    _watch_seeds(recorder, patches)
    follow_saves(patches)
    if settings.trial is not None:
        override(dict(settings.trial.pins), recorder, patches)
        if settings.trial.replay is not None:
            from bisect_diverge.record.forcing import Forcing

            recorder.forcing = Forcing(settings.trial.replay, recorder, updates)
    recorder.first_states = FirstStates()
    return recorder, patches


def current() -> Recorder | None:
    """Return the recorder of this process while it is active."""
    return _current if _current is not None and _current.active else None


def finish(recorder: Recorder, patches: Patches, state: State) -> None:
    """Close the recording and leave the process as it was before."""
    global _current  # noqa: PLW0603
    try:
        recorder.close(state)
    finally:
        patches.undo()
        _current = None


def _guard_forks() -> None:
    global _fork_guard  # noqa: PLW0603 - such a guard cannot be taken back, so it is set once
    if _fork_guard or not hasattr(os, "register_at_fork"):
        return
    _fork_guard = True

    def in_child() -> None:
        recorder = _current
        if recorder is not None:
            recorder.abandon()

    os.register_at_fork(after_in_child=in_child)


def _watch_seeds(recorder: Recorder, patches: Patches) -> None:
    from bisect_diverge.environment import setters

    def note(setter: str, value: str) -> None:
        if recorder.active:
            recorder.note_seed(setter, value)

    patches.add_undo(setters.watch_setters(note))
    worker_seeds.follow(recorder.settings.run)
