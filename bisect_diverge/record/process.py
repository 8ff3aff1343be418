"""This process: its rank, its variables, its environment, and how we speak in it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import warnings
from pathlib import Path

from bisect_diverge.model.environment import Setting
from bisect_diverge.record import files
from bisect_diverge.record.settings import VARIABLE, Settings


def rank_and_world_size() -> tuple[int, int]:
    """Return the process group's rank and size, else those of the launcher's variables, else 0 and 1."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    try:
        return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    except ValueError:
        return 0, 1


def is_helper() -> bool:
    """Whether this is a child of multiprocessing that is no rank: the plain name is left to its parent."""
    distributed = sys.modules.get("torch.distributed")
    initialized = distributed is not None and distributed.is_available() and distributed.is_initialized()
    return multiprocessing.parent_process() is not None and not initialized and "RANK" not in os.environ


def leave_environment(settings: Settings) -> None:
    """Take our variables away, so that what this process starts is not recorded and sees the user's values."""
    os.environ.pop(VARIABLE, None)
    path = os.environ.get("PYTHONPATH")
    if path is not None and settings.bootstrap:
        rest = [part for part in path.split(os.pathsep) if part != settings.bootstrap]
        if rest:
            os.environ["PYTHONPATH"] = os.pathsep.join(rest)
        else:
            del os.environ["PYTHONPATH"]


def read_inside_quietly(settings: Settings) -> tuple[Setting, ...]:
    """Return the environment as this process sees it, with no warning of what was asked."""
    from bisect_diverge.environment.read import read_inside

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_inside(settings.env_names, command=settings.command, asked=settings.given)


def read_again_quietly(start: tuple[Setting, ...], cwd: Path) -> tuple[Setting, ...]:
    """Return what changed since the start; nothing where half of the interpreter is gone already."""
    from bisect_diverge.environment.read import read_again

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read_again(start, cwd, files.code_read())
    except Exception:
        return ()


def reason(error: BaseException) -> str:
    """Return the first line of an error, or its class."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def say(text: str) -> None:
    """Tell the user something, beside the script's own output."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.__stderr__.write(f"bd: {text}\n")  # type: ignore[union-attr]
        sys.__stderr__.flush()  # type: ignore[union-attr]


def human_bytes(count: int) -> str:
    """Return a size for people: 1536 is ``1.5 KiB``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" or size == int(size) else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
