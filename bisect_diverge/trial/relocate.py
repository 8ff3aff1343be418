"""Leads a command that was written for the user's directory to the one that takes its place in a trial."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from bisect_diverge.environment.variables import layer_of

if TYPE_CHECKING:
    from bisect_diverge.trial.draft import Draft

Value = TypeVar("Value")


def relocated(draft: Draft) -> Draft:
    """Return a draft whose paths name files of the checkout where it has them; what is only linked keeps its path."""
    if not draft.roots:
        return draft
    draft.command = tuple(_token(token, draft.roots) for token in draft.command)
    draft.search_path = [_moved(path, draft.roots) for path in draft.search_path]
    draft.variables = {
        name: _moved(value, draft.roots) if layer_of(name) is not None else value
        for name, value in draft.variables.items()
    }
    everywhere = draft.above | draft.roots
    draft.paths = _both(draft.paths, everywhere)
    draft.listings = _both(draft.listings, everywhere)
    draft.expected |= _both(draft.expected, everywhere)
    draft.hidden = both(draft.hidden, everywhere)
    return draft


def both(paths: Iterable[str], roots: Mapping[str, str]) -> set[str]:
    """Return absolute paths, those below a directory that is replaced under their new names too."""
    return set(_both(dict.fromkeys(paths), roots))


def _both(table: Mapping[str, Value], roots: Mapping[str, str]) -> dict[str, Value]:
    more = {place: value for path, value in table.items() for place in _places(path, roots)}
    return {**table, **more}


def _places(path: str, roots: Mapping[str, str]) -> list[str]:
    """Return the paths that a path has in the directories that replace those that it lies in."""
    return [new + path.removeprefix(old) for old, new in roots.items() if path == old or path.startswith(f"{old}/")]


def _token(token: str, roots: Mapping[str, str]) -> str:
    flag, sign, value = token.partition("=")
    return f"{flag}={_moved(value, roots)}" if sign and value.startswith("/") else _moved(token, roots)


def _moved(path: str, roots: Mapping[str, str]) -> str:
    """Return where a path lies in a checkout, if it is a file or folder of its own there."""
    if not path.startswith("/"):
        return path
    for place in _places(os.path.normpath(path), roots):
        root = next(new for new in roots.values() if place.startswith(new))
        if os.path.lexists(place) and f"{os.path.realpath(place)}/".startswith(f"{os.path.realpath(root)}/"):
            return place
    return path
