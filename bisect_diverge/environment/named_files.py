"""Data files that the command names, a variable, or a configuration file.

Nobody has seen that they were opened: a library may do that by itself. What a command names as its configuration is
`environment.configuration`'s, what it names in a repository `environment.source`'s.
"""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.environment.arguments import split
from bisect_diverge.environment.configuration import FILE_SUFFIXES
from bisect_diverge.environment.documents import parse
from bisect_diverge.environment.given import as_given
from bisect_diverge.environment.inputs import is_configuration, sizes_of
from bisect_diverge.environment.variables import layer_of
from bisect_diverge.model.environment import Layer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

TEXTS_BYTES = 64 << 10
"""A configuration file of this size is searched for paths of data; a larger one is data itself."""
MOST_TEXTS_BYTES = 512 << 10
"""Bytes of configuration files that are searched for paths in all: YAML takes four seconds for a megabyte."""
MOST_WORDS = 10_000
"""Words that are looked for as paths."""
_LONGEST_PATH = 4096
_PROGRAMS = (".py", ".pyc", ".so", ".sh")
"""What a command names to run it."""


def named_files(command: Sequence[str], cwd: Path, read: Iterable[str] = ()) -> Iterator[str]:
    """Yield the absolute paths of the data files that a command names, a variable, or a configuration file.

    Args:
        command: Program and arguments.
        cwd: Working directory of the run.
        read: Absolute paths of files that were read; the configuration files among them are looked into.
    """
    known = (Layer.CONFIGURATION, Layer.DATASET)
    words = [argument.value for argument in split(command[1:])]
    words += [value for name, value in (as_given() or {}).items() if layer_of(name) in known]
    for path in _first_bytes(filter(is_configuration, read), MOST_TEXTS_BYTES):
        words += texts_in(path)
    found = dict.fromkeys(os.path.normpath(cwd / word) for word in words if word and "\0" not in word)
    for path in islice(found, MOST_WORDS):
        if os.path.isfile(path) and not _is_program(path) and not is_configuration(path):  # noqa: PTH113
            yield path


def _first_bytes(paths: Iterable[str], most: int) -> Iterator[str]:
    """Yield the first of some files, of those that are small, that have no more bytes together."""
    for path, size in sizes_of(paths):
        if size <= TEXTS_BYTES:
            most -= size
            if most < 0:
                return
            yield path


def texts_in(path: str) -> list[str]:
    """Return the values of a configuration file that are texts and may be paths; none of a file that is none."""
    suffix = os.path.splitext(path)[1].lower()  # noqa: PTH122
    try:
        if suffix not in FILE_SUFFIXES or os.stat(path).st_size > TEXTS_BYTES:  # noqa: PTH116
            return []
        tree = parse(Path(path).read_text(encoding="utf-8"), suffix)
    except (OSError, UnicodeDecodeError):
        return []
    return list(_texts(tree))


def _texts(tree: object) -> Iterator[str]:
    if isinstance(tree, str):
        if 0 < len(tree) <= _LONGEST_PATH and "\n" not in tree:
            yield tree
        return
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list | tuple) else ()
    for part in parts:
        yield from _texts(part)


def _is_program(path: str) -> bool:
    return path.endswith(_PROGRAMS) or os.access(path, os.X_OK)
