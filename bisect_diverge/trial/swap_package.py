"""Packages: a directory with B's version is searched before the installed ones, one that B lacks is not found."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.trial.interpreters import EXECUTABLE, VERSION, interpreter_at, interpreter_of, minor, value_of
from bisect_diverge.trial.package_units import members, package_parts, version_of
from bisect_diverge.trial.packages import CannotBuildError, build, entries, find, only, versions, without
from bisect_diverge.trial.parts import PARTS
from bisect_diverge.trial.requirements import ordered
from bisect_diverge.trial.units import package_differences, path_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bisect_diverge.model.run import RunRecord
    from bisect_diverge.model.trial import Unit
    from bisect_diverge.trial.draft import Draft, Sides


def swap(sides: Sides, units: Sequence[Unit], draft: Draft) -> Draft:
    """Let the swapped packages be found in B's version and the others in A's.

    Raises:
        CannotBuildError: if a version cannot be had here.
    """
    differ = {d.knob for d in package_differences(sides.a, sides.b)}
    swapped = _wanted(sides, units)
    wanted = swapped | _put_back(sides, differ - swapped.keys(), draft)
    of_a, of_b = draft.search_path, entries(path_of(sides.b), sides.b.cwd)
    first = _overlays(sides, {n: v for n, v in wanted.items() if v is not None}, swapped, differ, draft)
    gone = [e for e in of_a if e not in of_b and (here := versions(e).keys() & differ) and here <= swapped.keys()]
    draft.search_path = list(dict.fromkeys((*first, *(entry for entry in of_a if entry not in gone))))
    _hide([name for name, version in wanted.items() if version is None], draft)
    return draft


def _put_back(sides: Sides, names: Iterable[str], draft: Draft) -> dict[str, str | None]:
    """Return A's version of packages that are installed in another one now, or with B's interpreter."""
    running = interpreter_at(draft.python)
    known = value_of(sides.a, EXECUTABLE) and running is not None and not draft.prefix
    if running is None or not known or running.minor != minor(value_of(sides.a, VERSION)):
        return {}
    present: dict[str, str] = {}
    for place in (*draft.search_path, *running.search_path):
        present = versions(place) | present
    found = {name: version_of(sides.a, name) for name in names}
    places = (*entries(path_of(sides.a), sides.a.cwd), *_installed(sides.a, draft))
    return {
        name: version
        for name, version in found.items()
        if present.get(name) != version and (version is None or _can_be_had(name, version, places, draft.python))
    }


@lru_cache(maxsize=256)
def _can_be_had(name: str, version: str, places: tuple[str, ...], interpreter: str) -> bool:
    """Whether A's version is here, or can be built; where it cannot, A's replay tells whether it matters."""
    try:
        return bool(find(name, version, places) or build(name, version, interpreter))
    except CannotBuildError:
        return False


def _wanted(sides: Sides, units: Sequence[Unit]) -> dict[str, str | None]:
    """Return the version of each swapped package: of several steps that of the last, seen from A."""
    chosen: dict[str, list[str | None]] = {}
    for unit in units:
        for name, version in members(unit).items():
            chosen.setdefault(name, []).append(version)
    return {name: _last(version_of(sides.a, name), found) for name, found in chosen.items()}


def _last(of_a: str | None, found: list[str | None]) -> str | None:
    if len(found) == 1:
        return found[0]
    way = ordered({of_a or "", *(version or "" for version in found)})
    return way[-1] if way[0] == (of_a or "") else way[0]


def _overlays(
    sides: Sides, wanted: Mapping[str, str], swapped: Mapping[str, str | None], differ: set[str], draft: Draft
) -> list[str]:
    """Return directories in which some packages lie in the wanted versions, and no other that differs."""
    own = {side: entries(path_of(record), record.cwd) for side, record in (("a", sides.a), ("b", sides.b))}
    chosen: dict[str, list[str]] = {}
    installed: set[str] = set()
    for name, version in sorted(wanted.items()):
        side, record = ("b", sides.b) if name in swapped else ("a", sides.a)
        beside = _installed(record, draft)
        place = find(name, version, (*own[side], *beside)) or build(name, version, draft.python)
        installed |= {place} & set(beside)
        chosen.setdefault(place, []).append(name)
    found = []
    for place, names in chosen.items():
        others = place in installed or versions(place).keys() & differ - set(names)
        found.append(only(names, place, draft.folder) if others else place)
    return found


def _installed(record: RunRecord, draft: Draft) -> tuple[str, ...]:
    """Return where the packages of a run's interpreter lie, if the trial's interpreter can load them."""
    theirs, ours = interpreter_of(record), interpreter_at(draft.python)
    fit = theirs is not None and ours is not None and theirs.minor == ours.minor
    return theirs.search_path if fit and theirs is not None else ()


def _hide(names: Sequence[str], draft: Draft) -> None:
    """Let some packages not be found: whatever else lies beside them is linked into a directory without them."""
    if not names:
        return
    running = interpreter_at(draft.python)
    if running is None:
        raise CannotBuildError(f"the interpreter does not run: {draft.python}")
    for place in _holding(names, running.search_path):
        draft.sites[place] = without(names, place, draft.folder)
    replaced = {place: without(names, place, draft.folder) for place in _holding(names, draft.search_path)}
    draft.search_path = [replaced.get(place, place) for place in draft.search_path]


def _holding(names: Iterable[str], places: Iterable[str]) -> list[str]:
    wanted = set(names)
    return [place for place in places if Path(place).is_dir() and wanted & versions(os.path.normpath(place)).keys()]


PARTS["dependencies:*"] = package_parts
