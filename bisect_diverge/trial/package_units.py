"""Packages that differ between two runs: a unit each, or one for those that must move together; their releases."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import Unit, Untested
from bisect_diverge.trial.interpreters import interpreter_of, program_of
from bisect_diverge.trial.packages import entries
from bisect_diverge.trial.releases import between
from bisect_diverge.trial.requirements import groups, info_of

if TYPE_CHECKING:
    from bisect_diverge.model.environment import Difference
    from bisect_diverge.model.run import RunRecord

PYTHONPATH = "PYTHONPATH"
TOGETHER = "+"
"""Between the names of packages that move together; no package has it in its name."""
NO_VERSION = "none"


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
        removed = [name for name in names if packages[name][1] is None]
        reason = next(filter(None, (_why_not_removed(a, name, packages[name][0]) for name in removed)), "")
        found.append(Untested(unit=unit, reason=reason) if reason else unit)
    return tuple(found)


def package_parts(a: RunRecord, b: RunRecord, unit: Unit) -> tuple[Unit, ...]:
    """Return the steps from A's version of a package to B's, release by release.

    Raises:
        ReplayError: if the index does not tell.
    """
    if TOGETHER in unit.knob or unit.a is None or unit.b is None or unit.knob.isupper():
        return ()
    if (unit.a, unit.b) != (version_of(a, unit.knob), version_of(b, unit.knob)):
        return ()  # it is a step already
    way = between(unit.knob, unit.a, unit.b, program_of(a))
    return tuple(Unit(layer=unit.layer, knob=unit.knob, a=one, b=other) for one, other in pairwise(way))


def members(unit: Unit) -> dict[str, str | None]:
    """Return the packages of a unit with B's versions; None: B does not have it."""
    if TOGETHER not in unit.knob:
        return {unit.knob: unit.b}
    versions = (unit.b or "").split(", ")
    return {
        name: None if version == NO_VERSION else version
        for name, version in zip(unit.knob.split(TOGETHER), versions, strict=False)
    }


def version_of(record: RunRecord, name: str) -> str | None:
    """Return the version of a package that a run had."""
    rows = record.environment.settings
    return next((s.value for s in rows if (s.layer, s.knob) == (Layer.DEPENDENCIES, name) and not s.resolved), None)


def places(record: RunRecord) -> tuple[str, ...]:
    """Return the directories in which the packages of a run lie, as far as they are on this machine."""
    path = version_of(record, PYTHONPATH)
    found = interpreter_of(record)
    return (*entries(path, record.cwd), *(found.search_path if found is not None else ()))


def _unit(names: Sequence[str], packages: dict[str, tuple[str | None, str | None]]) -> Unit:
    if len(names) == 1:
        a, b = packages[names[0]]
        return Unit(layer=Layer.DEPENDENCIES, knob=names[0], a=a, b=b)
    a, b = (", ".join(packages[name][side] or NO_VERSION for name in names) for side in (0, 1))
    return Unit(layer=Layer.DEPENDENCIES, knob=TOGETHER.join(names), a=a, b=b)


def _why_not_removed(a: RunRecord, name: str, version: str | None) -> str:
    info = info_of(name, version or "", places(a))
    if info is None:
        return "B does not have it, and where A has it is not known"
    try:
        origin = json.loads((info / "direct_url.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        origin = {}
    if origin.get("dir_info", {}).get("editable"):
        return "B does not have it, and in A it is installed to be edited: its files cannot be hidden"
    return "" if (info / "RECORD").is_file() else "B does not have it, and which files it put in A is not known"
