"""Records pairs of runs of a tiny script, and searches for what makes them differ."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from tests.helpers.command import bd, run
from tests.helpers.repositories import CONFIGURATION

_HEAD = """
import os, sys
import torch
scale = 1.0
"""
_TAIL = """
torch.manual_seed(0)
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    loss = (model(torch.ones(2, 8)) * float(scale)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def script(body: str) -> str:
    """Return a script of two steps; `body` may set ``scale``, on which all bits depend."""
    return _HEAD + textwrap.dedent(body) + _TAIL


def record(
    folder: Path, name: str, *options: str, command: Sequence[str] = (sys.executable, "train.py"), **variables: str
) -> None:
    """Record a command as ``runs/NAME``, with ``bd`` of its own interpreter.

    Args:
        folder: Working directory.
        name: Name of the run.
        options: Of ``bd record``.
        command: The command.
        variables: Environment variables.
    """
    words = (command[0], "-m", "bisect_diverge", "record", "-o", f"runs/{name}", *options, "--", *command)
    run(*words, cwd=folder, **CONFIGURATION, **variables)


def search(folder: Path, *options: str, a: str = "a", b: str = "b", **variables: str) -> dict:
    """Return what ``bd bisect`` finds."""
    words = ("bisect", f"runs/{a}", f"runs/{b}", "--no-observer-check", "--format", "json", *options)
    return json.loads(bd(*words, cwd=folder, **CONFIGURATION, **variables).stdout)


def only_cause(folder: Path, *options: str, **variables: str) -> list[str]:
    """Return the units of the one cause that ``bd bisect`` proves both ways at the place where the runs part."""
    found = search(folder, *options, **variables)
    assert found["verdict"] == "cause", found
    (cause,) = found["causes"]
    assert (cause["sufficient"], cause["necessary"], cause["same_divergence"]) == (True, True, True)
    return [f"{unit['layer']}.{unit['knob']}: {unit['a']} -> {unit['b']}" for unit in cause["units"]]
