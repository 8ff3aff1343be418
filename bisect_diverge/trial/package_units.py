"""Packages that differ between two runs: a unit each, or one for those that must move together; their releases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from bisect_diverge.environment.dependencies import EDITED, FOLDER, normal, origin_in
from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import Unit, Untested
from bisect_diverge.trial.interpreters import interpreter_of, program_of
from bisect_diverge.trial.packages import CannotBuildError, build, entries, find
from bisect_diverge.trial.releases import between, listed
from bisect_diverge.trial.requirements import Versions, groups, info_of, ordered, requirements

if TYPE_CHECKING:
    from bisect_diverge.model.environment import Difference
    from bisect_diverge.model.run import RunRecord

PYTHONPATH = "PYTHONPATH"
TOGETHER = "+"
"""Between the names of packages that move together; no package has it in its name."""
NO_VERSION = "none"
_AND = ", "


def package_units(a: RunRecord, b: RunRecord, differing: Sequence[Difference]) -> tuple[Unit | Untested, ...]:
    """Return the units of the packages that differ.

    Args:
        a: The baseline.
        b: The candidate.
        differing: Packages with their versions.
    """
    packages = {d.knob: (d.a, d.b) for d in differing}
    found: list[Unit | Untested] = []
    for names in groups(packages, (places(a), places(b))):
        unit = _unit(names, packages)
        reason = next(filter(None, (_why_not(a, b, name, packages[name]) for name in names)), "")
        found.append(Untested(unit=unit, reason=reason) if reason else unit)
    return tuple(found)


def package_parts(a: RunRecord, b: RunRecord, unit: Unit) -> tuple[Unit, ...]:
    """Return the steps from A's version of a package to B's, release by release.

    Raises:
        ReplayError: if the index does not tell.
    """
    if TOGETHER in unit.knob:
        return _releases_together(a, b, unit)
    if unit.a is None or unit.b is None or unit.knob.isupper():
        return ()
    if (unit.a, unit.b) != (version_of(a, unit.knob), version_of(b, unit.knob)):
        return ()  # it is a step already
    way = between(unit.knob, unit.a, unit.b, program_of(a))
    return tuple(Unit(layer=unit.layer, knob=unit.knob, a=one, b=other) for one, other in pairwise(way))


def _releases_together(a: RunRecord, b: RunRecord, unit: Unit) -> tuple[Unit, ...]:
    """Return the steps of packages that move together: the releases of the one that requires the others, with these.

    Raises:
        ReplayError: if the index does not tell.
    """
    names = unit.knob.split(TOGETHER)
    versions = {name: (version_of(a, name), version_of(b, name)) for name in names}
    ends = [tuple(versions[name][side] or NO_VERSION for name in names) for side in (0, 1)]
    required = set().union(*(_required(name, versions[name], a, b) for name in names))
    lead = next((name for name in names if name not in required), names[0])
    one, other = versions[lead]
    if (unit.a, unit.b) != tuple(map(_AND.join, ends)) or one is None or other is None:
        return ()  # it is a step already
    program = program_of(a)
    between_them = [_fitting(lead, release, versions, program) for release in between(lead, one, other, program)[1:-1]]
    way = dict.fromkeys((ends[0], *filter(None, between_them), ends[1]))
    steps = pairwise(map(_AND.join, way))
    return tuple(Unit(layer=unit.layer, knob=unit.knob, a=begin, b=end) for begin, end in steps)


def _required(name: str, versions: Versions, a: RunRecord, b: RunRecord) -> set[str]:
    """Return the packages that a package requires in A or B, as far as its versions lie here."""
    sides = zip((a, b), versions, strict=True)
    return {normal(row.name) for record, version in sides for row in requirements(name, version, places(record))}


def _fitting(lead: str, release: str, versions: Mapping[str, Versions], program: str) -> tuple[str, ...] | None:
    """Return a release of a package with those versions of others that it requires; None where there are none."""
    try:
        wanted = {normal(r.name): r.specifier for r in requirements(lead, release, (build(lead, release, program),))}
    except CannotBuildError:
        return None
    found = []
    for name, (one, other) in versions.items():
        if name == lead:
            found.append(release)
            continue
        if one is None or other is None:
            known = ordered(listed(name, program)) if name in wanted else [NO_VERSION]
        else:
            known = between(name, one, other, program)
        fit = [version for version in known if name not in wanted or wanted[name].contains(version, prereleases=True)]
        if not fit:
            return None
        found.append(fit[-1])
    return tuple(found)


def members(unit: Unit) -> dict[str, str | None]:
    """Return the packages of a unit with B's versions; None: B does not have it."""
    if TOGETHER not in unit.knob:
        return {unit.knob: unit.b}
    versions = (unit.b or "").split(_AND)
    return {
        name: None if version == NO_VERSION else version
        for name, version in zip(unit.knob.split(TOGETHER), versions, strict=False)
    }


def version_of(record: RunRecord, name: str) -> str | None:
    """Return the version of a package that a run had."""
    return record.environment.value(Layer.DEPENDENCIES, name, resolved=False)


def places(record: RunRecord) -> tuple[str, ...]:
    """Return the directories in which the packages of a run lie, as far as they are on this machine."""
    path = version_of(record, PYTHONPATH)
    found = interpreter_of(record)
    return (*entries(path, record.cwd), *(found.search_path if found is not None else ()))


def _unit(names: Sequence[str], packages: dict[str, tuple[str | None, str | None]]) -> Unit:
    if len(names) == 1:
        a, b = packages[names[0]]
        return Unit(layer=Layer.DEPENDENCIES, knob=names[0], a=a, b=b)
    a, b = (_AND.join(packages[name][side] or NO_VERSION for name in names) for side in (0, 1))
    return Unit(layer=Layer.DEPENDENCIES, knob=TOGETHER.join(names), a=a, b=b)


def _why_not(a: RunRecord, b: RunRecord, name: str, versions: tuple[str | None, str | None]) -> str:
    """Return why a package cannot be swapped here; empty if it can, as far as is known."""
    one, other = versions
    if EDITED in (origin_in(one or ""), origin_in(other or "")):
        if other is None:
            return "B does not have it, and in A it is installed to be edited: its files cannot be hidden"
        return "it is installed to be edited: its modules are swapped by their content, as source"
    if other is None:
        return _why_not_removed(a, name, one)
    if origin_in(other) == FOLDER and find(name, other, (*places(b), *places(a))) is None:
        return "it was installed from a folder, not from an index, and is not on this machine any more"
    return ""


def _why_not_removed(a: RunRecord, name: str, version: str | None) -> str:
    info = info_of(name, version or "", places(a))
    if info is None:
        return "B does not have it, and where A has it is not known"
    return "" if (info / "RECORD").is_file() else "B does not have it, and which files it put in A is not known"
