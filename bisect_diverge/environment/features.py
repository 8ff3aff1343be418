"""Features: the code and fitted values that make a batch out of the data, file by file as declared."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bisect_diverge.environment.hashing import hash_file
from bisect_diverge.environment.knobs import setting
from bisect_diverge.model.environment import Layer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bisect_diverge.model.environment import Setting


def read_outside(cwd: Path, features: Sequence[Path]) -> Iterator[Setting]:
    """Yield ``file:<path>`` with the content hash of each declared file, directories expanded."""
    for declared in features:
        for path in _files(cwd / declared):
            name = os.path.relpath(path, cwd)
            try:
                value = hash_file(path)
            except OSError as error:
                value = error.strerror or type(error).__name__
            yield setting(Layer.FEATURES, f"file:{name}", value, resolved=False)


def _files(path: Path) -> list[Path]:
    """Return the files below a path, or the path itself; what Python compiles is left out."""
    if not path.is_dir():
        return [path]
    return sorted(p for p in path.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
