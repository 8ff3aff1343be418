"""Seeds that the script gives inside loader workers: told to the parent, since a worker's memory is its own.

What torch itself gives there, from the loader's base seed, is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torch.utils.data import get_worker_info

from bisect_diverge.environment import setters
from bisect_diverge.environment.seeds import IN_WORKER, SHOWN, seed_settings
from bisect_diverge.record import files

if TYPE_CHECKING:
    from bisect_diverge.model.environment import Setting

OF_WORKERS = "torch/utils/data/_utils/worker.py"
"""File of torch in which a worker gives its generators their seeds, and sets its number of threads."""
_KIND = "s"
"""How a line begins that a worker writes; see `files.opened`."""
BETWEEN = "\x1f"
"""Stands between the parts of a line that a worker writes."""

_starting = ("", 0)
"""Loader whose workers are being started, and the number of its iteration: forked workers inherit it."""
_told: dict[str, int] = {}


def start(loader: str, iteration: int) -> None:
    """Say that workers of a loader may be started now."""
    global _starting  # noqa: PLW0603 - what a fork copies
    _starting = (loader, iteration)


def starting() -> str:
    """Return the loader whose workers were being started when this one was forked."""
    return _starting[0]


def follow(run: str) -> None:
    """Let forked workers tell what their setters are given.

    Args:
        run: Directory of the run.
    """

    def note(setter: str, text: str) -> None:
        worker = get_worker_info()
        if worker is None or _caller().endswith(OF_WORKERS) or _told.get(setter, 0) >= SHOWN:
            return
        _told[setter] = _told.get(setter, 0) + 1
        loader, iteration = _starting
        order = f"{iteration:09}.{_told[setter]:03}"
        knob = f"loader.{loader}{IN_WORKER}{worker.id}.{setter}"
        files.tell(run, _KIND + BETWEEN.join((knob, order, text)))

    setters.in_child = note


def _caller() -> str:
    """Return the file that called the setter, whoever has wrapped it."""
    frame = sys._getframe(3)  # this function, the note, the watched setter
    while frame.f_back is not None and frame.f_code.co_filename.endswith("record/seeds.py"):
        frame = frame.f_back
    return frame.f_code.co_filename


def settings(lines: Iterator[str] | list[str]) -> tuple[Setting, ...]:
    """Return what workers have told, a row for each loader, worker and setter."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in lines:
        if line.startswith(_KIND):
            knob, order, text = line[1:].split(BETWEEN, 2)
            found.setdefault(knob, []).append((order, text))
    return seed_settings({knob: [text for _, text in sorted(calls)] for knob, calls in sorted(found.items())})
