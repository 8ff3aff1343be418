"""How many threads compute a loader's samples: without workers those of the process, in a worker one.

torch gives each worker one thread as it starts, so that moving the samples into a worker changes bits without any
randomness. A worker that has another number all the same (a ``worker_init_fn`` may set it) tells its parent.
"""

from __future__ import annotations

import contextlib
import functools
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils.data import dataloader, get_worker_info
from torch.utils.data._utils import worker

from bisect_diverge.environment.knobs import setting
from bisect_diverge.model.environment import Layer, Setting
from bisect_diverge.record import files, worker_seeds
from bisect_diverge.record.patches import Patches
from bisect_diverge.record.worker_seeds import BETWEEN

_KIND = "t"
"""How a line begins that a worker writes; see `files.opened`."""
_IN_WORKER = 1
_told = False


def threads_of(workers: int) -> int | None:
    """Return how many threads a torch operation has where samples are made; None where this torch does not say.

    Args:
        workers: Number of workers; with none it is this process.
    """
    if not workers:
        return torch.get_num_threads()
    return _IN_WORKER if "set_num_threads" in worker._worker_loop.__code__.co_names else None


def follow(run: str, patches: Patches) -> None:
    """Let forked workers tell that they compute with another number of threads than torch gives them.

    It is read when a worker begins to make samples, after its ``worker_init_fn``.

    Args:
        run: Directory of the run.
        patches: Takes it back.
    """
    kind: Any = dataloader._DatasetKind
    original = kind.create_fetcher

    @functools.wraps(original)
    def create_fetcher(*args: Any, **kwargs: Any) -> Any:
        fetcher = original(*args, **kwargs)
        with contextlib.suppress(Exception):  # nothing of ours may end a worker
            _tell(run)
        return fetcher

    patches.replace(kind, "create_fetcher", staticmethod(create_fetcher))


def _tell(run: str) -> None:
    global _told  # noqa: PLW0603 - a worker's own copy
    here = get_worker_info()
    if here is None or _told or torch.get_num_threads() == _IN_WORKER:
        return
    _told = True
    loader = worker_seeds.starting()
    files.tell(run, _KIND + BETWEEN.join((loader, str(here.id), str(here.num_workers), str(torch.get_num_threads()))))


def settings(lines: Iterable[str]) -> tuple[Setting, ...]:
    """Return what workers have told, a row for each loader: a number, or those of the workers that have another."""
    found: dict[str, dict[int, str]] = defaultdict(dict)
    sizes: dict[str, int] = {}
    for line in lines:
        if line.startswith(_KIND):
            loader, number, size, threads = line[1:].split(BETWEEN)
            found[loader][int(number)] = threads
            sizes[loader] = int(size)
    return tuple(
        setting(Layer.HARDWARE, f"loader.{loader}.threads", _text(of_worker, sizes[loader]), resolved=True)
        for loader, of_worker in sorted(found.items())
    )


def _text(of_worker: dict[int, str], size: int) -> str:
    numbers = set(of_worker.values())
    if len(of_worker) == size and len(numbers) == 1:
        return numbers.pop()
    others = [f"{_IN_WORKER}"] if len(of_worker) < size else []
    return ", ".join([*(f"{threads} in worker {n}" for n, threads in sorted(of_worker.items())), *others])
