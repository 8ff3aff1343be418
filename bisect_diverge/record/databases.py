"""Which file SQLite opens for the name that it is given: a path, or a URI (https://sqlite.org/uri.html).

Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, quote, unquote

_URI = "file:"
_MEMORY = ":memory:"


def file_of(database: Any) -> str | None:
    """Return the path of the file that a database lies in; None for one in memory, and for what is no name.

    A name that begins like a URI is taken for one, unless there is a file of that very name.
    """
    if not isinstance(database, str | bytes | os.PathLike):
        return None
    name = os.fsdecode(database)
    if name.startswith(_URI) and not os.path.lexists(name):
        return _taken_apart(name)[0]
    return name if name not in ("", _MEMORY) else None


def led(uri: Any, place: Callable[[str, bool], Any]) -> Any:
    """Return a URI with another path in it, all else as it was; what is no URI of a file is returned as it is.

    Args:
        uri: What SQLite is given.
        place: Returns another path for a path, and for whether nothing is written to it.
    """
    name = os.fsdecode(uri)
    path, rest = _taken_apart(name)
    if path is None:
        return uri
    options = parse_qs(rest.partition("#")[0].removeprefix("?"))
    only_read = "ro" in options.get("mode", ()) or "1" in options.get("immutable", ())
    return f"{_URI}{quote(os.fspath(place(path, only_read)))}{rest}"


def is_uri(database: Any) -> bool:
    """Whether SQLite takes a name for a URI, where it is told that it may be one."""
    return isinstance(database, str | bytes | os.PathLike) and os.fsdecode(database).startswith(_URI)


def _taken_apart(uri: str) -> tuple[str | None, str]:
    """Return the path in a URI, None for memory, and what follows it."""
    text = uri.removeprefix(_URI)
    ends = [at for at in (text.find("?"), text.find("#")) if at >= 0]
    end = min(ends, default=len(text))
    path, rest = text[:end], text[end:]
    if path.startswith("//"):  # an authority: empty, or localhost
        path = f"/{path[2:].partition('/')[2]}"
    path = unquote(path)
    in_memory = path in ("", _MEMORY) or "mode=memory" in rest
    return (None if in_memory else path), rest
