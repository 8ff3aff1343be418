"""Which packages must move together: those of which a mixture would break what one of them requires of another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from bisect_diverge.environment.dependencies import normal, release

_EXTRA = re.compile(r"\bextra\b")
Versions = tuple[str | None, str | None]
"""A's and B's version of a package; None where a run does not have it."""


def groups(packages: Mapping[str, Versions], places: tuple[Iterable[str], Iterable[str]]) -> list[tuple[str, ...]]:
    """Return the packages in groups that must move together, the one that most others are tied to first.

    A package that is tied to no other is a group of its own. What a version requires is read where it lies; of a
    version that is nowhere on this machine nothing is known.

    Args:
        packages: Those that differ.
        places: Where A's and B's versions lie.
    """
    ties: dict[str, set[str]] = {name: set() for name in packages}
    for name, versions in packages.items():
        for side in (0, 1):
            for requirement in requirements(name, versions[side], tuple(places[side])):
                other = normal(requirement.name)
                if other in packages and other != name and _breaks(requirement, packages[other], side):
                    ties[name].add(other)
                    ties[other].add(name)
    found: list[tuple[str, ...]] = []
    seen: set[str] = set()
    for name in packages:
        if name not in seen:
            group = _reached(name, ties)
            seen |= group
            found.append(tuple(sorted(group, key=lambda each: (-len(ties[each]), each))))
    return found


@lru_cache(maxsize=512)
def requirements(name: str, version: str | None, places: tuple[str, ...]) -> tuple[Requirement, ...]:
    """Return what a version of a package requires here, extras left out."""
    info = None if version is None else info_of(name, version, places)
    if info is None or not (info / "METADATA").is_file():
        return ()
    head, _, _ = (info / "METADATA").read_text(encoding="utf-8", errors="replace").partition("\n\n")
    found = []
    for line in head.splitlines():
        if line.startswith("Requires-Dist:"):
            try:
                requirement = Requirement(line.partition(":")[2].strip())
            except InvalidRequirement:
                continue
            marker = requirement.marker
            if marker is None or (not _EXTRA.search(str(marker)) and marker.evaluate()):
                found.append(requirement)
    return tuple(found)


def info_of(name: str, version: str, places: Iterable[str]) -> Path | None:
    """Return the folder with what is known of a version of a package; None if it lies nowhere."""
    for place in places:
        for info in Path(place).glob("*.dist-info"):
            found, _, rest = info.name.removesuffix(".dist-info").partition("-")
            if normal(found) == name and rest == release(version):
                return info
    return None


def ordered(versions: Iterable[str]) -> list[str]:
    """Return versions from the oldest to the newest; what is no version comes first."""
    return sorted(versions, key=_key)


def _key(version: str) -> tuple[bool, Version]:
    try:
        return True, Version(version)
    except InvalidVersion:
        return False, Version("0")


def _breaks(requirement: Requirement, versions: Versions, side: int) -> bool:
    """Whether the other run's version does not do where this run's does."""
    mine, other = versions[side], versions[1 - side]
    return _does(requirement, mine) and not _does(requirement, other)


def _does(requirement: Requirement, version: str | None) -> bool:
    if version is None:
        return False
    try:
        return requirement.specifier.contains(Version(release(version)), prereleases=True)
    except InvalidVersion:
        return False


def _reached(name: str, ties: Mapping[str, set[str]]) -> set[str]:
    todo, seen = [name], {name}
    while todo:
        for other in ties[todo.pop()] - seen:
            seen.add(other)
            todo.append(other)
    return seen
