"""Whether recording changed what a command does: what was compared, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

SCHEMA = 1
"""Version of the JSON."""
NUMBER_OF_LINES = "number of lines"
"""Part of an output; where it differs the lines are not compared one by one."""


class Finding(StrEnum):
    """What came of comparing one thing."""

    EQUAL = "equal"
    """The same with and without recording."""
    CHANGED = "changed"
    """The same in both unrecorded runs, and not in the recorded one."""
    UNREPEATABLE = "does not repeat itself"
    """Already the two unrecorded runs differ, so that nothing can be said of recording."""
    NOT_COMPARED = "not compared"
    """It is not there, or cannot be seen."""


class Neutral(StrEnum):
    """The verdict on a command."""

    NEUTRAL = "neutral"
    CHANGED = "changed"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One part that recording changed."""

    part: str
    """Which: a parameter, a file, a line; empty where there is only one."""
    unrecorded: str | None
    """What it is in the unrecorded runs; None: it is not there."""
    recorded: str | None
    """What it is in the recorded run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing that was compared, with all its parts."""

    name: str
    """What it is: ``parameters``, ``standard output``, ..."""
    finding: Finding
    """The worst of its parts."""
    equal: int = 0
    """Number of parts that are equal."""
    changed: tuple[Change, ...] = ()
    """Parts that recording changed."""
    unrepeatable: tuple[str, ...] = ()
    """Parts that differ between two unrecorded runs."""
    reason: str = ""
    """Why it was not compared."""
    bits: bool = True
    """Whether a run that repeats itself has to repeat this; a line with a time or a log file does not count."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "name": self.name,
            "finding": str(self.finding),
            "equal": self.equal,
            "changed": [{"part": c.part, "unrecorded": c.unrecorded, "recorded": c.recorded} for c in self.changed],
            "unrepeatable": list(self.unrepeatable),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """One run of the command."""

    capture: str
    """Capture mode; empty: it was not recorded."""
    seconds: float
    """Wall time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neutrality:
    """Everything that was found."""

    items: tuple[Item, ...]
    """In the order in which they are reported."""
    runs: tuple[Repetition, ...]
    """In the order in which they were made."""

    @property
    def verdict(self) -> Neutral:
        """A change in anything that repeats itself counts first, then what does not repeat itself."""
        if any(item.finding is Finding.CHANGED for item in self.items):
            return Neutral.CHANGED
        if any(item.finding is Finding.UNREPEATABLE and item.bits for item in self.items):
            return Neutral.INCONCLUSIVE
        return Neutral.NEUTRAL

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "schema": SCHEMA,
            "verdict": str(self.verdict),
            "items": [item.to_json() for item in self.items],
            "runs": [{"capture": run.capture or None, "seconds": round(run.seconds, 3)} for run in self.runs],
        }
