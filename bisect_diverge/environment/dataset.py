"""Dataset: the declared files, by content, size, and the order in which they are listed.

What the script itself opens is in `environment.inputs`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import xxhash

from bisect_diverge.environment.hashing import hash_file
from bisect_diverge.environment.knobs import Variable, setting
from bisect_diverge.model.environment import Layer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.model.environment import Setting

VARIABLES: tuple[Variable, ...] = (
    Variable("HF_HOME", "where Hugging Face libraries keep data and models"),
    Variable("HF_DATASETS_CACHE", "where datasets are kept"),
    Variable("HF_HUB_CACHE", "where models are kept"),
    Variable("TORCH_HOME", "where torch.hub keeps models"),
    Variable("DATA_DIR", "a name that scripts use"),
    Variable("DATA_PATH", "a name that scripts use"),
    Variable("DATA_ROOT", "a name that scripts use"),
    Variable("DATASET", "a name that scripts use"),
)

DECLARED = re.compile(r"data\.\d+")
"""Knobs of the declared paths themselves."""

WHOLE_BYTES = 2 << 30
"""Data up to this size are hashed whole; of larger ones the start, middle and end of each file."""


def read_outside(cwd: Path, data: Sequence[Path]) -> Iterator[Setting]:
    """Yield, for the n-th declared path: ``data.n`` (the path, requested) and what lies there (resolved)."""
    for number, path in enumerate(data):
        name = f"data.{number}"
        yield _setting(name, _relative(path, cwd), resolved=False)
        try:
            for knob, value in _contents(cwd / path):
                yield _setting(f"{name}.{knob}", value, resolved=True)
        except OSError as error:
            yield _setting(f"{name}.content", error.strerror or type(error).__name__, resolved=True)


def files_below(path: Path) -> list[Path]:
    """Return the files below a declared directory in the order in which they are listed, or the path itself."""
    return [path / name for name in _walk(path, set())] if path.is_dir() else [path]


def _contents(path: Path) -> Iterator[tuple[str, object]]:
    if not path.is_dir():
        size = path.stat().st_size
        yield "bytes", size
        yield "content", hash_file(path, sampled=size > WHOLE_BYTES)
        return
    listed = list(_walk(path, set()))
    sizes = {name: (path / name).stat().st_size for name in listed}
    total = sum(sizes.values())
    order, content = xxhash.xxh3_128(), xxhash.xxh3_128()
    for name in listed:
        order.update(os.fsencode(name) + b"\0")
    for name in sorted(listed):
        content.update(os.fsencode(name) + b"\0" + hash_file(path / name, sampled=total > WHOLE_BYTES).encode())
    yield "files", len(listed)
    yield "bytes", total
    yield "content", f"{'xxh3-sampled' if total > WHOLE_BYTES else 'xxh3'}:{content.hexdigest()}"
    # A script that goes through a directory without sorting sees this order; two file systems give two.
    yield "order", f"xxh3:{order.hexdigest()}"


def _walk(root: Path, seen: set[str], below: str = "") -> Iterator[str]:
    """Yield the files below a directory in the order in which the file system lists them, links followed."""
    real = os.path.realpath(root / below)
    if real in seen:
        return
    seen.add(real)
    with os.scandir(root / below) as entries:
        listed = list(entries)
    for entry in listed:
        name = f"{below}/{entry.name}" if below else entry.name
        if entry.is_dir():
            yield from _walk(root, seen, name)
        elif entry.is_file():
            yield name


def _relative(path: Path, cwd: Path) -> str:
    """Return a path below the working directory, so that a moved checkout changes nothing."""
    try:
        return str((cwd / path).resolve().relative_to(cwd.resolve()))
    except ValueError:
        return str(path)


def _setting(knob: str, value: object, *, resolved: bool) -> Setting:
    return setting(Layer.DATASET, knob, value, resolved=resolved)
