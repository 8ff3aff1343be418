"""A running bisection as its screen sees it: a source of events that can be stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from bisect_diverge.model.address import Address
from bisect_diverge.model.environment import Difference, Layer
from bisect_diverge.model.sampling import Sampling
from bisect_diverge.model.trial import (
    Bisection,
    BisectVerdict,
    Cause,
    Observer,
    Role,
    Trial,
    Unit,
    Untested,
)


@dataclass(frozen=True, slots=True)
class Planned:
    """What is going to be moved; comes again when more is found."""

    units: tuple[Unit, ...]
    """What can be swapped."""
    untestable: tuple[Untested, ...]
    """What cannot."""
    most: int
    """Trials that one cause costs."""
    first: Address | None
    """Where the runs first differ."""


@dataclass(frozen=True, slots=True)
class Started:
    """A trial runs."""

    swapped: tuple[Unit, ...]
    """Units at B's values."""


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """A or B runs without being recorded, which is no trial."""

    of: str
    """``A`` or ``B``."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A trial was judged."""

    trial: Trial


@dataclass(frozen=True, slots=True)
class Output:
    """A line that the running trial has printed."""

    line: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something that the user should know at once."""

    text: str


@dataclass(frozen=True, slots=True)
class Result:
    """The answer, whole or partial."""

    bisection: Bisection


@dataclass(frozen=True, slots=True)
class Ended:
    """The search is over; the last event."""

    status: int
    """Exit status of ``bd bisect``."""
    message: str = ""
    """What it said beside its progress."""


Event = Planned | Started | Unrecorded | Finished | Output | Note | Result | Ended


class Search(Protocol):
    """A search that runs elsewhere."""

    def start(self, tell: Callable[[Event], None]) -> None:
        """Begin; `tell` may be called from any thread."""
        ...

    def stop(self) -> None:
        """End after the running trial."""
        ...

    def stop_now(self) -> None:
        """End now."""
        ...

    def close(self) -> None:
        """End now if it is not over, and return when nothing of it runs any more."""
        ...


def event_of(line: str) -> Event | None:
    """Return the event that a line of ``--progress json`` tells; None for any other line."""
    try:
        found = json.loads(line)
        return _event(found)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _event(found: dict[str, Any]) -> Event | None:
    make = _EVENTS.get(found["event"])
    return None if make is None else make(found)


def _planned(found: Mapping[str, Any]) -> Event:
    untestable = tuple(_untested(row) for row in found["untestable"])
    return Planned(_units(found["units"]), untestable, int(found["most"]), _address(found["first"]))


_EVENTS: dict[str, Callable[[Mapping[str, Any]], Event]] = {
    "plan": _planned,
    "started": lambda found: Started(_units(found["swapped"])),
    "unrecorded": lambda found: Unrecorded(str(found["of"])),
    "finished": lambda found: Finished(Trial.from_json(found["trial"])),
    "output": lambda found: Output(str(found["line"])),
    "note": lambda found: Note(str(found["text"])),
    "result": lambda found: Result(_bisection(found["bisection"])),
}


def _units(rows: list[Mapping[str, Any]]) -> tuple[Unit, ...]:
    return tuple(map(Unit.from_json, rows))


def _untested(row: Mapping[str, Any]) -> Untested:
    return Untested(unit=Unit.from_json(row), reason=row["reason"])


def _address(text: str | None) -> Address | None:
    return None if text is None else Address.parse(text)


def _cause(row: Mapping[str, Any]) -> Cause:
    return Cause(
        units=_units(row["units"]),
        role=Role(row["role"]),
        sufficient=row["sufficient"],
        necessary=row["necessary"],
        same_divergence=row["same_divergence"],
        consequences=tuple(
            Difference(layer=Layer(d["layer"]), knob=d["knob"], a=d["a"], b=d["b"]) for d in row["consequences"]
        ),
        proof=tuple(row["proof"]),
        part_of=_units(row["part_of"]),
    )


def _bisection(row: Mapping[str, Any]) -> Bisection:
    return Bisection(
        verdict=BisectVerdict(row["verdict"]),
        causes=tuple(_cause(cause) for cause in row["causes"]),
        innocent=_units(row["innocent"]),
        inert=tuple(_untested(unit) for unit in row["inert"]),
        untestable=tuple(_untested(unit) for unit in row["untestable"]),
        trials=tuple(Trial.from_json(trial) for trial in row["trials"]),
        first=_address(row["first"] and row["first"]["address"]),
        notes=tuple(row["notes"]),
        finished=row["finished"],
        observer=Observer(row["observer"]),
        taken_apart=tuple((Unit.from_json(unit), _units(unit["parts"])) for unit in row["taken_apart"]),
        sampling=None if row.get("sampling") is None else Sampling.from_json(row["sampling"]),
        remedies=tuple(row.get("remedies", ())),
        reason=row.get("reason", ""),
    )
