"""YAML files: read as PyYAML reads them, and changed in their own text.

A file that is written anew has no comments and no anchors any more, and another loader than PyYAML's (YAML 1.2,
OmegaConf) may read it otherwise: ``yes`` becomes ``true``, ``"1e-3"`` loses its quotes. So only the text of the keys
that change is replaced, by the other file's text of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]
"""Keys and list indices from the root of a tree."""


class Documents(dict[int, Any]):
    """The documents of a file that has several, by their numbers from 0."""


@dataclass(frozen=True, slots=True)
class Tagged:
    """A value with a tag of an application (``!include x.yaml``), as it is written."""

    tag: str
    text: str


@dataclass(frozen=True, slots=True)
class Edit:
    """One key that is to be as in the other file."""

    path: Path
    """Where it is."""
    text: str | None = None
    """Value of its own, where it is not the other file's."""


class CannotEditError(Exception):
    """The text cannot be changed in place."""


def read(text: str) -> Any:
    """Return the tree of a file; a file of several documents is a table of them.

    Raises:
        Exception: whatever PyYAML raises.
    """
    documents = list(_yaml().load_all(text, Loader=_loader()))
    return Documents(enumerate(documents)) if len(documents) > 1 else documents[0] if documents else None


def write(tree: Any) -> str:
    """Return the text of a tree, in the order of its keys."""
    documents = list(tree.values()) if isinstance(tree, Documents) else [tree]
    text: str = _yaml().dump_all(documents, Dumper=_dumper(), sort_keys=False, allow_unicode=True)
    return text


def edited(text: str, other: str, edits: Sequence[Edit]) -> str:
    """Return a file in which some keys have the text that they have in another; all else is as it was.

    Args:
        text: The file.
        other: The other one.
        edits: The keys. One that the other file does not have, and that has no value of its own, is taken out.

    Raises:
        CannotEditError: if it cannot be done so, in a line of ``{...}`` for example.
    """
    mine, theirs = _Text(text), _Text(other)
    changes = [_change(mine, theirs, edit) for edit in edits]
    for begin, end, new in sorted(changes, reverse=True):
        text = text[:begin] + new + text[end:]
    return text


def _change(mine: _Text, theirs: _Text, edit: Edit) -> tuple[int, int, str]:
    """Return begin and end of what is replaced, and what replaces it."""
    here, there = mine.entry(edit.path), theirs.entry(edit.path)
    if here is not None:
        begin, end = mine.span(here[1])
        if edit.text is None and there is None:
            return (*mine.lines(here), "")
        new = edit.text if edit.text is not None else theirs.slice(there, mine.column(begin))
        return begin, end, new if end > begin else f" {new}"
    if there is None and edit.text is None:  # neither file has it: it comes along with an anchor
        return 0, 0, ""
    if there is None:
        raise CannotEditError
    parent, inside = mine.node(edit.path[:-1]), theirs.node(edit.path[:-1])
    before = _before(parent, inside, edit.path[-1])
    lines = theirs.block(there)
    at = mine.lines(before)
    if mine.column(mine.span(before[0])[0]) != theirs.column(theirs.span(there[0])[0]):
        raise CannotEditError
    return at[1], at[1], ("" if at[1] == 0 or mine.text[at[1] - 1] == "\n" else "\n") + lines


def _before(parent: Any, inside: Any, key: str | int) -> tuple[Any, Any]:
    """Return the entry that a new one follows: the nearest of those before it in the other file."""
    if not isinstance(getattr(parent, "value", None), list) or parent.flow_style or inside is None:
        raise CannotEditError
    names = [_key(entry) for entry, _ in inside.value]
    earlier = names[: names.index(key)]
    found = [entry for entry in parent.value if _key(entry[0]) in earlier]
    if not found:
        raise CannotEditError
    last: tuple[Any, Any] = max(found, key=lambda entry: earlier.index(_key(entry[0])))
    return last


class _Text:
    """A file with the places of its nodes.

    Args:
        text: Its content.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._documents = list(_yaml().compose_all(text, Loader=_loader()))

    def node(self, path: Path) -> Any:
        """Return the node at a path; None if there is none."""
        if not path and len(self._documents) == 1:
            return self._documents[0]
        found = self.entry(path)
        return None if found is None else found[1]

    def entry(self, path: Path) -> tuple[Any, Any] | None:
        """Return the nodes of a key and its value (of an item twice its own); None where there are none."""
        if len(self._documents) > 1:
            number, *rest = path
            if not isinstance(number, int) or number >= len(self._documents):
                return None
            node, path = self._documents[number], tuple(rest)
        else:
            node = self._documents[0] if self._documents else None
        entry = (node, node)
        for step in path:
            found = next((entry for entry in _entries(entry[1]) if entry[0] == step), None)
            if found is None:
                return None
            entry = found[1]
        return entry

    def span(self, node: Any) -> tuple[int, int]:
        """Return begin and end of a node, without what follows its last character."""
        if isinstance(node.value, str) or node.flow_style or not node.value:
            begin, end = node.start_mark.index, node.end_mark.index
            return begin, begin + len(self.text[begin:end].rstrip())
        last = node.value[-1]
        return node.start_mark.index, self.span(last[1] if isinstance(last, tuple) else last)[1]

    def column(self, index: int) -> int:
        """Return how far a place is from the begin of its line."""
        return index - (self.text.rfind("\n", 0, index) + 1)

    def slice(self, entry: tuple[Any, Any] | None, column: int) -> str:
        """Return the text of a value that is to stand in a column.

        Raises:
            CannotEditError: if it has several lines, for another column.
        """
        if entry is None:
            raise CannotEditError
        begin, end = self.span(entry[1])
        found = self.text[begin:end]
        if "\n" in found and self.column(begin) != column:
            raise CannotEditError
        return found or "null"

    def lines(self, entry: tuple[Any, Any]) -> tuple[int, int]:
        """Return begin and end of the lines of a key and its value.

        Raises:
            CannotEditError: if there is something else before it in its line.
        """
        begin, _ = self.span(entry[0])
        _, end = self.span(entry[1])
        start = begin - self.column(begin)
        if self.text[start:begin].strip():
            raise CannotEditError
        line_end = self.text.find("\n", end)
        stop = len(self.text) if line_end < 0 else line_end + 1
        if self.text[end:stop].strip() and not self.text[end:stop].lstrip().startswith("#"):
            raise CannotEditError
        return start, stop

    def block(self, entry: tuple[Any, Any]) -> str:
        """Return the lines of a key and its value."""
        begin, end = self.lines(entry)
        found = self.text[begin:end]
        return found if found.endswith("\n") else f"{found}\n"


def _entries(node: Any) -> Iterator[tuple[str | int, tuple[Any, Any]]]:
    if node is None or isinstance(node.value, str):
        return
    for number, entry in enumerate(node.value):
        yield (_key(entry[0]), entry) if isinstance(entry, tuple) else (number, (entry, entry))


def _key(node: Any) -> Any:
    """Return a key as the tree has it; one that brings other keys along, or is no plain value, is none."""
    if node.tag.endswith(":merge"):
        return None
    return _yaml().load(_yaml().serialize(node), Loader=_loader()) if isinstance(node.value, str) else None


def _yaml() -> Any:
    return importlib.import_module("yaml")


_classes: dict[str, Any] = {}


def _loader() -> Any:
    """Return PyYAML's safe loader that takes the tags of applications as they are."""
    if "loader" not in _classes:
        loader: Any = type("Loader", (_yaml().SafeLoader,), {})
        loader.add_multi_constructor("!", lambda _, suffix, node: Tagged(f"!{suffix}", _yaml().serialize(node)))
        _classes["loader"] = loader
    return _classes["loader"]


def _dumper() -> Any:
    if "dumper" not in _classes:
        dumper: Any = type("Dumper", (_yaml().SafeDumper,), {"ignore_aliases": lambda _self, _data: True})
        dumper.add_representer(Tagged, lambda _self, data: _yaml().compose(data.text))
        _classes["dumper"] = dumper
    return _classes["dumper"]
