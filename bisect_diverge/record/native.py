"""Functions of libraries that open a file by themselves, led in a trial to the file that the trial reads or writes.

One row of the table each. A function is replaced when its module has been imported, and in trials only: a recording
replaces nothing, and sees such files as the system tells (`record.looks`).

Standard library only.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

READ, WRITE, CHANGE = "read", "write", "change"
"""What is done to a file: it is read, made anew, or written with what is in it kept."""


@dataclass(frozen=True, slots=True)
class Opener:
    """A row of the table."""

    module: str
    """Module that holds the function."""
    function: str
    """Name in it, or ``Class.method``."""
    at: int = 0
    """Position of the path among the arguments, the object of a method not counted."""
    name: str = "path"
    """Its keyword."""
    use: str = READ
    """What is done, if no argument says so."""
    mode: tuple[int, str, str] | None = None
    """Position, keyword and default of an argument that says so: ``r``, ``w``, ``a``, ``r+``, ``x``."""
    flag: tuple[int, str, str] | None = None
    """Position, keyword, and what is done where that argument is true."""
    uri: tuple[int, str] | None = None
    """Position and keyword of an argument that says that the path may be a URI."""


OPENERS: tuple[Opener, ...] = (
    Opener("h5py", "File.__init__", name="name", mode=(1, "mode", "r")),
    Opener("safetensors", "safe_open", name="filename"),
    Opener("safetensors", "serialize_file", at=1, name="filename", use=WRITE),
    Opener("sqlite3.dbapi2", "connect", name="database", use=CHANGE, uri=(7, "uri")),
    Opener("sqlite3", "connect", name="database", use=CHANGE, uri=(7, "uri")),
    Opener("torch", "from_file", name="filename", flag=(1, "shared", CHANGE)),
    Opener("torch", "UntypedStorage.from_file", name="filename", flag=(1, "shared", CHANGE)),
    Opener("cv2", "imread", name="filename"),
    Opener("cv2", "imwrite", name="filename", use=WRITE),
    Opener("pyarrow", "memory_map", mode=(1, "mode", "r")),
    Opener("pyarrow", "OSFile", mode=(1, "mode", "r")),
    Opener("lmdb", "open"),
)
"""All of them. Those of cv2, pyarrow and lmdb were written after their documentation, and have not been tried."""

Place = Callable[[Any, str], Any]
"""Returns where a path is read or written in the trial."""


def lead(place: Place, openers: Sequence[Opener] = OPENERS) -> None:
    """Lead the functions of the table, now or as soon as their modules have been imported.

    Args:
        place: Is given the path and `READ`, `WRITE` or `CHANGE`.
        openers: Rows.
    """
    waiting: dict[str, list[Opener]] = {}
    for row in openers:
        if row.module in sys.modules:
            _replace(sys.modules[row.module], row, place)
        else:
            waiting.setdefault(row.module, []).append(row)
    if waiting:
        sys.meta_path.insert(0, _Finder(waiting, place))


class _Finder:
    """Finds nothing itself; it lets a module's own loader call us when it is done."""

    def __init__(self, waiting: dict[str, list[Opener]], place: Place) -> None:
        self._waiting = waiting
        self._place = place

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Find the module with the finders behind this one: those before it may ask it in turn."""
        if name not in self._waiting or self not in sys.meta_path:
            return None
        behind = sys.meta_path[sys.meta_path.index(self) + 1 :]
        spec = next(filter(None, (_ask(finder, name, path, target) for finder in behind)), None)
        loader = None if spec is None else spec.loader
        if loader is None:
            return spec
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            for row in self._waiting.pop(name, ()):
                _replace(module, row, self._place)

        try:
            loader.exec_module = exec_module  # type: ignore[method-assign]
        except AttributeError:  # a loader with slots
            return spec
        return spec


def _ask(finder: Any, name: str, path: Any, target: Any) -> ModuleSpec | None:
    find = getattr(finder, "find_spec", None)
    found: ModuleSpec | None = None if find is None else find(name, path, target)
    return found


def _replace(module: ModuleType, row: Opener, place: Place) -> None:
    owner_name, _, name = row.function.rpartition(".")
    owner: Any = getattr(module, owner_name, None) if owner_name else module
    original = getattr(owner, name, None)
    if original is None or hasattr(original, _LED):  # another version of the library; `sqlite3` takes it from `dbapi2`
        return
    is_method = name == "__init__"

    def led(*args: Any, **kwargs: Any) -> Any:
        own, rest = (args[:1], list(args[1:])) if is_method else ((), list(args))
        lead_to = functools.partial(_led, row, _use(row, rest, kwargs), _argument(row.uri, rest, kwargs), place)
        if row.name in kwargs:
            kwargs[row.name] = lead_to(kwargs[row.name])
        elif len(rest) > row.at:
            rest[row.at] = lead_to(rest[row.at])
        return original(*own, *rest, **kwargs)

    functools.update_wrapper(led, original)
    setattr(led, _LED, True)
    setattr(owner, name, staticmethod(led) if owner_name and not is_method else led)


_LED = "_is_led"
"""Attribute of a function that has been replaced."""


def _led(row: Opener, use: str, may_be_uri: Any, place: Place, path: Any) -> Any:
    """Return what a call is given for a path."""
    if not may_be_uri:
        return place(path, use)
    from bisect_diverge.record.databases import is_uri, led

    if not is_uri(path):
        return place(path, use)
    return led(path, lambda inner, only_read: place(inner, READ if only_read else row.use))


def _argument(which: tuple[int, str] | None, args: Sequence[Any], kwargs: dict[str, Any], default: Any = None) -> Any:
    """Return an argument of a call, given by its position or its keyword."""
    if which is None:
        return default
    at, name = which
    return kwargs.get(name, args[at] if len(args) > at else default)


def _use(row: Opener, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """Return what a call does to the file."""
    if row.flag is not None:
        return row.flag[2] if _argument(row.flag[:2], args, kwargs) else row.use
    if row.mode is None:
        return row.use
    mode = str(_argument(row.mode[:2], args, kwargs, row.mode[2]))
    if "w" in mode or "x" in mode:
        return WRITE
    return CHANGE if "a" in mode or "+" in mode else READ


def is_path(value: Any) -> bool:
    """Whether an argument is a path: not a file object, not what stands for memory."""
    return isinstance(value, str | bytes | os.PathLike) and os.fsdecode(value) not in ("", ":memory:")
