"""Runs that another version of this package has recorded: it read other settings than trials do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bisect_diverge import __version__
from bisect_diverge.model.environment import Environment

if TYPE_CHECKING:
    from bisect_diverge.model.run import RunRecord
    from bisect_diverge.model.trial import Bisection


def version_note(a: RunRecord, b: RunRecord | None = None) -> str:
    """Return a sentence that says which runs another version has recorded; empty if none was.

    Args:
        a: The baseline.
        b: The candidate, if there is one.
    """
    by = {name: record.version for name, record in (("A", a), ("B", b)) if record is not None}
    other = {name: f"version {v}" if v else "an earlier version" for name, v in by.items() if v != __version__}
    if not other:
        return ""
    if len(set(other.values())) == 1:
        whose = f"{' and '.join(other)} {'was' if len(other) == 1 else 'were'} recorded by {next(iter(other.values()))}"
    else:
        whose = " and ".join(f"{name} was recorded by {version}" for name, version in other.items())
    return (
        f"{whose} of bisect-diverge, and trials are by {__version__}: settings and records that only one of them knows "
        "have no partner, and what A's does not know is not listed as moved; recording again makes it exact"
    )


def as_read_by(record: RunRecord, environment: Environment) -> Environment:
    """Return the environment of a trial without the resolved knobs that the version which recorded a run did not know.

    Args:
        record: The run.
        environment: What the trial has read.
    """
    if record.version == __version__:
        return environment
    known = {(s.layer, s.knob) for s in record.environment.settings}
    return Environment(tuple(s for s in environment.settings if not s.resolved or (s.layer, s.knob) in known))


def with_versions(bisection: Bisection, a: RunRecord, b: RunRecord) -> Bisection:
    """Return a bisection that says if A or B was recorded by another version."""
    said = version_note(a, b)
    return replace(bisection, notes=(*bisection.notes, said)) if said else bisection
