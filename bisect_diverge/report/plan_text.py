"""What a search would do, before it does it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bisect_diverge.report.fold import fold
from bisect_diverge.report.words import Paint, change, duration, moment, place, plain, plural, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.model.address import Address
    from bisect_diverge.model.trial import Unit, Untested


START_SECONDS = 3.0
"""What a process needs to start and to import torch, which a recording does not see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A search and its price."""

    first: Address
    """The divergence that is looked for."""
    units: Sequence[Unit]
    """What is moved."""
    ways: Sequence[str]
    """How each of them is swapped, in a word."""
    untestable: Sequence[Untested]
    """What cannot be moved here."""
    least: int
    """Trials, for the cheapest cause."""
    typical: int
    """Trials, for most causes."""
    most: int
    """Trials, for two partners."""
    unrecorded: int = 0
    """Runs beside the trials, without recording."""
    clamped: int = 0
    """Runs before the trials, of A and B with clamps."""
    samples: int = 0
    """Runs of a search by repeats, where A or B does not repeat itself; 0: there is none then."""
    divisible: bool = False
    """Whether some unit is taken apart where it is guilty, which costs more."""
    last_step: int
    """Last step of each trial."""
    steps: int
    """Steps of A."""
    seconds: float
    """What A took from its first row to its last."""
    most_trials: int | None = None
    """The search ends after so many runs; None: no limit."""
    most_seconds: float | None = None
    """The search ends after this time; None: no limit."""

    @property
    def expected_seconds(self) -> float:
        """What a typical search takes, one run after the other: each starts, and runs A's steps up to the last."""
        share = min(1.0, (self.last_step + 1) / max(self.steps, 1))
        return (self.typical + self.unrecorded + self.clamped) * (START_SECONDS + self.seconds * share)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON values."""
        return {
            "schema": 1,
            "first": {"address": str(self.first)},
            "units": [u.to_json() | {"swapped_by": way} for u, way in zip(self.units, self.ways, strict=True)],
            "untestable": [row.to_json() for row in self.untestable],
            "trials": {"least": self.least, "typical": self.typical, "most": self.most},
            "seconds": round(self.expected_seconds, 1),
            "unrecorded": self.unrecorded,
            "clamped": self.clamped,
            "samples": self.samples,
            "budget": {"trials": self.most_trials, "seconds": self.most_seconds},
            "last_step": self.last_step,
            "steps": self.steps,
        }


def plan_json(plan: Plan) -> str:
    """Return a plan as an indented JSON document."""
    return json.dumps(plan.to_json(), indent=2, ensure_ascii=False, allow_nan=False)


def plan_text(plan: Plan, paint: Paint = plain) -> str:
    """Return a plan as text, without a line end."""
    return fold("\n".join(_lines(plan, paint)))


def _lines(plan: Plan, paint: Paint) -> Iterator[str]:
    yield f"to explain: the divergence at {moment(plan.first)}, {place(plan.first)}"
    many = f"{plural(len(plan.units), 'unit')} to move: each can be given B's value here"
    yield paint(many if plan.units else "nothing that differs can be moved here", "title")
    width = max((len(way) for way in plan.ways), default=0)
    for unit, way in zip(plan.units, plan.ways, strict=True):
        yield printable(f"  {way.ljust(width)}  {change(unit)}")
    if plan.untestable:
        yield paint("not testable here", "title")
        yield from (printable(f"  {row.unit.layer} {row.unit.knob}: {row.reason}") for row in plan.untestable)
    yield paint("what that takes", "title")
    yield from (f"  {line}" for line in _price(plan))


def _price(plan: Plan) -> Iterator[str]:
    count = f"{plan.least} to {plan.most} trials, typically {plan.typical}"
    yield (
        f"{plural(plan.most, 'trial') if plan.least == plan.most else count}, with the replays that a proof takes; "
        f"each ends after step {plan.last_step}; A made {plural(plan.steps, 'step')} in {duration(plan.seconds)}"
    )
    if plan.unrecorded:
        yield f"and {plan.unrecorded} runs of A and B unrecorded, to see what recording does (--no-observer-check)"
    if plan.clamped:
        yield f"and {plan.clamped} runs of A and B with every clamp on, which the trials are compared with"
    if plan.samples:
        yield (
            f"if A or B does not repeat itself, {plan.samples} runs or more instead, to tell one cause by repeats "
            "(--confidence)"
        )
    if plan.divisible:
        yield "and a search of the same kind among the parts of a guilty unit that has any"
    yield f"about {duration(plan.expected_seconds)} in all, if typical and one after the other"
    limits = [plural(plan.most_trials, "run")] if plan.most_trials is not None else []
    limits += [duration(plan.most_seconds)] if plan.most_seconds is not None else []
    if limits:
        yield f"the budget ends it after {' or '.join(limits)}"
