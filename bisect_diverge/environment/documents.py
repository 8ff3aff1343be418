"""Configuration files as trees: what differs key by key, and one file with some values of another.

JSON, TOML and INI need nothing beside the standard library; YAML is read where PyYAML is installed, else such a file is
one piece. So is one that cannot be read, or would be read otherwise once it was written.
"""

from __future__ import annotations

import configparser
import datetime as dt
import io
import json
import math
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bisect_diverge.environment import yaml_text
from bisect_diverge.environment.yaml_text import Path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

MISSING = object()
"""Stands for a key that is not there."""


@dataclass(frozen=True, slots=True)
class Format:
    """How a kind of file is read and written."""

    read: Callable[[str], Any]
    """Returns the tree; anything that it raises: the file is none of this kind."""
    write: Callable[[Any], str]
    """Returns the text of a tree."""
    edit: Callable[[str, str, Sequence[yaml_text.Edit]], str] | None = None
    """Returns a text with some keys of another; None: a file with other values is written anew."""


@dataclass(frozen=True, slots=True)
class Change:
    """One key that two files have at different values."""

    name: str
    """Keys and indices, joined by dots."""
    path: Path
    a: Any
    """Value in A, or `MISSING`."""
    b: Any
    """Value in B, or `MISSING`."""


def parse(text: str, suffix: str) -> Any:
    """Return the tree of a configuration file; None if it cannot be read, or would not be written as it was.

    Args:
        text: Its content.
        suffix: Suffix of its name, in small letters (``.json``).
    """
    kind = FORMATS.get(suffix)
    if kind is None:
        return None
    try:
        tree = kind.read(text)
        again = kind.read(kind.write(tree))
    except Exception:  # of whatever library reads it
        return None
    return tree if isinstance(tree, dict) and _same(tree, again) else None


def changes(a: Any, b: Any, path: Path = ()) -> Iterator[Change]:
    """Yield the innermost keys in which two trees differ; lists of one length are compared item by item."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in dict.fromkeys((*a, *b)):
            yield from changes(a.get(key, MISSING), b.get(key, MISSING), (*path, key))
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for index, (one, other) in enumerate(zip(a, b, strict=True)):
            yield from changes(one, other, (*path, index))
    elif not _same(a, b):
        yield Change(".".join(map(str, path)), path, a, b)


def mixed(text: str, suffix: str, values: Mapping[str, str | None], other: str = "") -> str | None:
    """Return a configuration file with other values of some keys; None if it cannot be made.

    Args:
        text: Content of the file.
        suffix: Suffix of its name.
        values: Name of a key, as `Change` has it, to its value as `as_text` writes it; None: the key is left out.
        other: Content of the file that the values are from; a value that it does not have is taken as JSON.
    """
    tree, like = parse(text, suffix), parse(other, suffix)
    if tree is None:
        return None
    tree = _unshared(tree)
    edits = []
    for name, value in values.items():
        found = _find(like, name)
        path = found if found is not None else _find(tree, name) or tuple(name.split("."))
        theirs = MISSING if found is None else _at(like, found)
        new = MISSING if value is None else theirs if as_text(theirs) == value else _from_text(value)
        if not _put(tree, path, new, like):
            return None
        by_hand = value is not None and new is not theirs
        edits.append(yaml_text.Edit(path, value if by_hand else None))
    return _in_place(text, suffix, other, edits, tree) or FORMATS[suffix].write(tree)


def _in_place(text: str, suffix: str, other: str, edits: Sequence[yaml_text.Edit], tree: Any) -> str | None:
    """Return a file with some keys changed in its own text; None where that would not make the wanted tree."""
    edit = FORMATS[suffix].edit
    try:
        made = None if edit is None else edit(text, other, edits)
    except Exception:  # of whatever library reads it
        return None
    return made if made is not None and _same(parse(made, suffix), tree) else None


def _unshared(tree: Any) -> Any:
    """Return a copy in which every table and list stands once: an anchor of YAML is one of several places."""
    if isinstance(tree, dict):
        return type(tree)((key, _unshared(value)) for key, value in tree.items())
    return [_unshared(value) for value in tree] if isinstance(tree, list) else tree


def as_text(value: Any) -> str | None:
    """Return a value as JSON; None for `MISSING`."""
    return None if value is MISSING else json.dumps(value, ensure_ascii=False, default=str)


def _from_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _same(a: Any, b: Any) -> bool:
    """Whether two trees are equal in types too: 1, 1.0 and True are three values, and a NaN is itself."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return bool(a == b)


def _find(tree: Any, name: str) -> Path | None:
    """Return the path that a name stands for in a tree; keys may have dots in them."""
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, child in entries:
        if str(key) == name:
            return (key,)
        if name.startswith(f"{key}."):
            rest = _find(child, name[len(str(key)) + 1 :])
            if rest is not None:
                return (key, *rest)
    return None


def _at(tree: Any, path: Path) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _put(tree: Any, path: Path, value: Any, like: Any) -> bool:
    """Set a value in place, a new key where `like` has it; False where the tree has no such place."""
    *above, last = path
    for key in above:
        if isinstance(tree, dict) and key not in tree:
            tree[key] = {}
        try:
            tree = tree[key]
            like = _at(like, (key,)) if isinstance(like, dict | list) else None
        except (LookupError, TypeError):
            return False
    if isinstance(tree, list):
        if value is MISSING or not isinstance(last, int) or last >= len(tree):
            return False
        tree[last] = value
        return True
    if not isinstance(tree, dict):
        return False
    if value is MISSING:
        tree.pop(last, None)
    elif last in tree:
        tree[last] = value
    else:
        _insert(tree, last, value, list(like) if isinstance(like, dict) else [])
    return True


def _insert(tree: dict[Any, Any], key: Any, value: Any, order: list[Any]) -> None:
    """Add a key behind the one that it follows in `order`, else as the last."""
    before = order[: order.index(key)] if key in order else []
    follows = next((k for k in reversed(before) if k in tree), None)
    items = list(tree.items())
    place = 0 if key in order and follows is None else len(items)
    if follows is not None:
        place = [k for k, _ in items].index(follows) + 1
    items.insert(place, (key, value))
    tree.clear()
    tree.update(items)


# -- the formats ----------------------------------------------------------------------------------------------


def _write_json(tree: Any) -> str:
    return json.dumps(tree, indent=2, ensure_ascii=False) + "\n"


def _ini() -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(default_section="", strict=True, allow_no_value=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign] # names of options keep their letters
    return parser


def _read_ini(text: str) -> Any:
    parser = _ini()
    parser.read_string(text)
    return {section: dict(parser.items(section)) for section in parser.sections()}


def _write_ini(tree: Any) -> str:
    parser = _ini()
    for section, options in tree.items():
        parser.add_section(section)
        for name, value in options.items():
            parser.set(section, name, value if value is None else str(value))
    out = io.StringIO()
    parser.write(out)
    return out.getvalue()


def _write_toml(tree: Any) -> str:
    return "".join(_toml_table(tree, ()))


def _toml_table(table: dict[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a table: its values, then the tables at its end, each under its header.

    A table with a value behind it is written inline, so that the keys keep their order.
    """
    items = list(table.items())
    plain = max((n + 1 for n, (_, value) in enumerate(items) if not _is_toml_table(value)), default=0)
    for key, value in items[:plain]:
        yield f"{_toml_key(key)} = {_toml_value(value)}\n"
    for key, value in items[plain:]:
        name = ".".join(map(_toml_key, (*path, key)))
        for child in value if isinstance(value, list) else ():
            yield f"\n[[{name}]]\n"
            yield from _toml_table(child, (*path, key))
        if isinstance(value, dict):
            yield f"\n[{name}]\n"
            yield from _toml_table(value, (*path, key))


def _is_toml_table(value: Any) -> bool:
    """Whether a value can stand under a header: a table, or a list of tables."""
    rows = value if isinstance(value, list) else [value]
    return bool(rows) and all(isinstance(row, dict) for row in rows)


def _toml_key(key: str) -> str:
    plain = key and all(c.isascii() and (c.isalnum() or c in "-_") for c in key)
    return key if plain else json.dumps(key, ensure_ascii=False)


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_toml_key(k)} = {_toml_value(v)}' for k, v in value.items())}}}"
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return repr(value)


FORMATS: dict[str, Format] = {
    ".json": Format(json.loads, _write_json),
    ".toml": Format(tomllib.loads, _write_toml),
    ".ini": Format(_read_ini, _write_ini),
    ".cfg": Format(_read_ini, _write_ini),
    ".conf": Format(_read_ini, _write_ini),
    ".yaml": Format(yaml_text.read, yaml_text.write, yaml_text.edited),
    ".yml": Format(yaml_text.read, yaml_text.write, yaml_text.edited),
}
"""Suffix to how such a file is read and written."""
