"""What the tests of replaying in place share: a step of a function, replayed in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bisect_diverge.diff.replayed import Side, replayed
from bisect_diverge.model.replay import Forced, Own, Part, read_forced
from bisect_diverge.model.run import Capture, RecordOptions, State
from bisect_diverge.record.install import finish, install
from bisect_diverge.record.settings import ReplaySettings, Settings, TrialSettings
from bisect_diverge.store.reader import Run
from tests.record.support import recording, trouble


class Nudged:
    """Names of what computes otherwise at the moment: stands for other settings."""

    names: frozenset[str] = frozenset()


def nudge(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor whose gradient is the same and whose elements are larger by a rounding where `name` is nudged."""
    factor = 1 + (2**-6 if tensor.dtype is torch.bfloat16 else 2**-20)
    return tensor * factor if name in Nudged.names else tensor


class _NudgedGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * (1 + 2**-20)


class Layer(nn.Linear):
    """A linear layer that can be nudged, in its forward (``name``) or its backward (``name'``)."""

    def __init__(self, name: str, inputs: int = 4, outputs: int = 4) -> None:
        super().__init__(inputs, outputs)
        self.name = name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the product, float[*, outputs]."""
        if f"{self.name}'" in Nudged.names:
            x = _NudgedGradient.apply(x)
        return nudge(self.name, super().forward(x))


def replay_here(
    function: Callable[[], Any],
    path: Path,
    *nudged: str,
    step: int = 0,
    capture: str = "full",
    quiet: bool = True,
) -> tuple[Own, ...]:
    """Record a function, replay a step of it as it is and with something nudged; return what came of it.

    Args:
        function: Trains.
        path: Directory of its own.
        nudged: What computes otherwise.
        step: The step.
        capture: How it is recorded.
        quiet: Whether nothing is set while nothing is nudged.
    """
    Nudged.names = frozenset()
    with recording(path / "a", capture=capture):
        function()
    control, forced_control = _replay(function, path, "control", step)
    Nudged.names = frozenset(nudged)
    try:
        changed, forced_changed = _replay(function, path, "changed", step)
    finally:
        Nudged.names = frozenset()
    with Run(path / "a") as a:
        told = [str(a.first.address(row)) for row in forced_control.written]
        assert not (quiet and told), told
    with Run(path / "a") as a, Run(control) as of_control, Run(changed) as of_changed:
        assert trouble(of_changed.first) == []
        return replayed(
            a.first,
            step,
            Side(file=of_control.first, forced=forced_control),
            Side(file=of_changed.first, forced=forced_changed),
        )


def _replay(function: Callable[[], Any], path: Path, name: str, step: int) -> tuple[Path, Forced]:
    folder = path / name
    folder.mkdir()
    replay = ReplaySettings(run=str(path / "a"), step=step, folder=str(folder))
    settings = Settings(
        run=str(folder),
        options=RecordOptions(capture=Capture.FULL, steps=(step, step + 1)),
        trial=TrialSettings(stop_after_step=sys.maxsize, scratch=str(folder), replay=replay),
    )
    recorder, patches = install(settings)
    try:
        function()
    finally:
        finish(recorder, patches, State.COMPLETE)
    forced = read_forced(folder, 0)
    assert forced is not None
    return folder, forced


def differing(owns: tuple[Own, ...], part: Part = Part.MODULE) -> dict[str, list[str]]:
    """Return name and call of what differs to the parts of its own code that do."""
    return {_name(own): [moved.inside for moved in own.moved] for own in owns if own.part is part and own.moved}


def reasons(owns: tuple[Own, ...]) -> dict[str, str]:
    """Return what cannot be replayed in place, and why."""
    return {_name(own): own.reason for own in owns if own.reason}


def equal(owns: tuple[Own, ...], part: Part) -> int:
    """Return how many of a part are equal."""
    return sum(own.part is part and not own.moved and not own.reason for own in owns)


def _name(own: Own) -> str:
    slot = f":{own.address.slot}" if own.part in (Part.GRADIENT, Part.OUTSIDE) else ""
    return f"{own.address.fqn or own.address.root}#{own.address.call}{slot}"
