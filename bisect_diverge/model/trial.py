"""Trials of a bisection: what is moved, what came of it, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from bisect_diverge.model.address import Address
from bisect_diverge.model.divergence import Divergence
from bisect_diverge.model.environment import Difference, Layer
from bisect_diverge.model.sampling import Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A requested input of the environment that differs between A and B: what the search moves."""

    layer: Layer
    """Layer of the knob."""
    knob: str
    """Name of the knob (``OMP_NUM_THREADS``, ``argv.--workers``, ``numpy``, ...)."""
    a: str | None
    """Value in A; None where it is not set."""
    b: str | None
    """Value in B; None where it is not set."""
    files: tuple[str, ...] = field(default=(), compare=False)
    """Files in which the two sources differ, where it is a source and they are known."""

    def __str__(self) -> str:
        return f"{self.layer}.{self.knob}"

    def to_json(self) -> dict[str, Any]:
        """Return the unit as plain JSON values."""
        row: dict[str, Any] = {"layer": str(self.layer), "knob": self.knob, "a": self.a, "b": self.b}
        return row | ({"files": list(self.files)} if self.files else {})

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Unit:
        """Return the unit that `to_json` wrote.

        Raises:
            KeyError, ValueError: if it is none.
        """
        files = tuple(row.get("files", ()))
        return cls(layer=Layer(row["layer"]), knob=row["knob"], a=row["a"], b=row["b"], files=files)


class Outcome(StrEnum):
    """What the bits of a trial are, up to the end of the step after the known divergence."""

    A = "=A"
    B = "=B"
    OTHER = "other"
    SKIP = "skip"
    """It did not build or run: never taken for different."""
    FLAKY = "flaky"
    """Repeats of it differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One re-run under one configuration."""

    n: int
    """Number in the search, from 1."""
    base: str
    """``a`` or ``b``: the run whose command and environment the configuration starts from."""
    swapped: tuple[Unit, ...]
    """Units that have B's value; the others have A's."""
    outcome: Outcome
    """Its bits."""
    signature: str = ""
    """Names the bits, so that two `other` can be told apart; empty: not known, then equal to no other."""
    inert: tuple[Unit, ...] = ()
    """Units whose resolved values did not move with them; their bits count for the search all the same."""
    consequences: tuple[Difference, ...] = ()
    """Resolved values that moved against A, beside the swapped units themselves."""
    first_against_a: Address | None = None
    """First divergence from A; None where it equals A or did not run."""
    first_against_b: Address | None = None
    """First divergence from B; None where it equals B or did not run."""
    seconds: float = 0.0
    """Wall time."""
    startup: float = 0.0
    """Part of it that passed before the first record: start of the interpreter, imports, reading data."""
    stopped_at_step: int | None = None
    """Last step that was run."""
    reason: str = ""
    """Why it was skipped; empty otherwise."""
    reused: bool = False
    """Taken from the journal of an earlier search, not run again."""
    clamps: tuple[str, ...] = ()
    """What was held in it against noise, beside its configuration."""
    overridden: tuple[str, ...] = ()
    """Calls of the script that set a knob otherwise than the trial held it, a sentence each."""
    nearness: float | None = None
    """How far it is on the way from A's record (0) to B's (1), in bits and numbers; None: not measured."""
    numbers: tuple[float, ...] = ()
    """Some recorded numbers of one element, the same ones in every trial; infinite where it has none."""

    def to_json(self) -> dict[str, Any]:
        """Return the trial as plain JSON values."""
        return {
            "n": self.n,
            "base": self.base,
            "swapped": [unit.to_json() for unit in self.swapped],
            "outcome": str(self.outcome),
            "signature": self.signature,
            "inert": [unit.to_json() for unit in self.inert],
            "seconds": round(self.seconds, 2),
            "startup": round(self.startup, 2),
            "stopped_at_step": self.stopped_at_step,
            "first_against_a": None if self.first_against_a is None else str(self.first_against_a),
            "first_against_b": None if self.first_against_b is None else str(self.first_against_b),
            "reason": self.reason,
            "reused": self.reused,
            "clamps": list(self.clamps),
            **({"overridden": list(self.overridden)} if self.overridden else {}),
            **({} if self.nearness is None else {"nearness": self.nearness, "numbers": _finite(self.numbers)}),
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Trial:
        """Return the trial that `to_json` wrote, which leaves out its consequences.

        Raises:
            KeyError, ValueError: if it is none.
        """
        against = [None if row[name] is None else Address.parse(row[name]) for name in _AGAINST]
        return cls(
            n=row["n"],
            base=row["base"],
            swapped=tuple(map(Unit.from_json, row["swapped"])),
            outcome=Outcome(row["outcome"]),
            signature=row["signature"],
            inert=tuple(map(Unit.from_json, row["inert"])),
            first_against_a=against[0],
            first_against_b=against[1],
            seconds=row["seconds"],
            startup=row.get("startup", 0.0),  # journals of earlier versions have none of these two
            stopped_at_step=row["stopped_at_step"],
            reason=row["reason"],
            reused=row["reused"],
            clamps=tuple(row.get("clamps", ())),
            overridden=tuple(row.get("overridden", ())),
            nearness=row.get("nearness"),
            numbers=tuple(math.inf if x is None else x for x in row.get("numbers", ())),
        )


def _finite(numbers: tuple[float, ...]) -> list[float | None]:
    return [x if math.isfinite(x) else None for x in numbers]


_AGAINST = ("first_against_a", "first_against_b")


class Oracle(Protocol):
    """Runs trials; all that the bisector knows of the world."""

    def __call__(self, swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
        """Return the trial of A's environment with these units at B's values.

        Args:
            swapped: Units at B's values. All of them: B itself. None: A itself.
            repeat: 0 may be answered from the journal; 1, 2, ... ask for further independent repeats. Those from
                `model.sampling.SAMPLED` on are a sample, and are taken from the journal whatever is swapped.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One configuration run once without being recorded, beside the same one recorded."""

    unrecorded: str = ""
    """Names the bits of the unrecorded run at some place."""
    recorded: str = ""
    """Names the bits that the recording of it has there."""
    where: str = ""
    """That place, in words (``the parameters after step 4``)."""
    reason: str = ""
    """Why it cannot be told; empty where it can."""


class Observer(StrEnum):
    """What recording does to A and B, as far as it was looked at."""

    UNCHANGED = "unchanged"
    """Both have the same bits unrecorded."""
    CHANGED = "changed"
    """One of them has other bits unrecorded; they differ from one another all the same."""
    CREATES = "creates"
    """Unrecorded they do not differ."""
    HIDES = "hides"
    """Unrecorded they differ where recorded they do not."""
    NOT_TESTED = "not-tested"


class Role(StrEnum):
    """What a cause is to the divergence."""

    CAUSE = "cause"
    """Sufficient and necessary."""
    REDUNDANT = "redundant"
    """Sufficient, but another unit does the same."""
    PARTNERS = "partners"
    """These together, none of them alone."""
    STARTS = "starts"
    """One of several; the divergence begins with this one."""
    MASKED = "masked"
    """Changes A, but in B it is covered by another."""


class BisectVerdict(StrEnum):
    """The answer of a bisection."""

    CAUSE = "cause"
    LIKELY = "likely"
    """A cause with a stated confidence: the run does not repeat itself, and nothing about it is proved."""
    NO_DIFFERENCE = "no-difference"
    BY_ELIMINATION = "by-elimination"
    INCONCLUSIVE = "inconclusive"
    NOT_REPEATABLE = "baseline-not-repeatable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A smallest set of units that was found to make the divergence."""

    units: tuple[Unit, ...]
    """More than one: partners, or a group that trials between them could not separate."""
    role: Role
    """What they are to it."""
    sufficient: bool
    """A with only these swapped becomes B; False also where no trial shows it."""
    necessary: bool
    """B with only these put back becomes A; False also where no trial shows it."""
    same_divergence: bool
    """The proving trials first differ at the same address as B does."""
    consequences: tuple[Difference, ...] = ()
    """Resolved values that moved with them."""
    proof: tuple[int, ...] = ()
    """Numbers of the proving trials."""
    part_of: tuple[Unit, ...] = ()
    """Guilty units that were taken apart, and of which some of these are the guilty parts."""

    def to_json(self) -> dict[str, Any]:
        """Return the cause as plain JSON values."""
        return {
            "units": [unit.to_json() for unit in self.units],
            "role": str(self.role),
            "sufficient": self.sufficient,
            "necessary": self.necessary,
            "same_divergence": self.same_divergence,
            "consequences": [{"layer": str(d.layer), "knob": d.knob, "a": d.a, "b": d.b} for d in self.consequences],
            "proof": list(self.proof),
            "part_of": [unit.to_json() for unit in self.part_of],
        }


LEFT_OUT = "left out by "
"""So begins the reason of a unit that was not tested because the user said so; it may well be swappable."""


IDENTICAL = ": identical"
"""So ends the note on replays of A, or of B, that have the bits of the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Untested:
    """A unit about which the search can say nothing, and why."""

    unit: Unit
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return self.unit.to_json() | {"reason": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisection:
    """The result of a bisection, whole or partial."""

    verdict: BisectVerdict
    """The answer."""
    causes: tuple[Cause, ...] = ()
    """What moved."""
    innocent: tuple[Unit, ...] = ()
    """Tested, and without effect on this divergence."""
    inert: tuple[Untested, ...] = ()
    """Swapping these did not move their resolved values: they were not tested."""
    untestable: tuple[Untested, ...] = ()
    """These cannot be swapped here."""
    trials: tuple[Trial, ...] = ()
    """Every trial in the order in which it was made."""
    first: Address | None = None
    """The divergence that was looked for."""
    notes: tuple[str, ...] = ()
    """What the controls showed, where the horizon lies, what was clamped, why the search stopped."""
    finished: bool = True
    """False: interrupted, or out of budget."""
    observer: Observer = Observer.NOT_TESTED
    """What recording does to A and B; the notes say it in words."""
    divergence: Divergence | None = None
    """A against B as they were recorded: what kind of difference `first` is, and how large; None: not told."""
    taken_apart: tuple[tuple[Unit, tuple[Unit, ...]], ...] = ()
    """Guilty units with their parts, the outermost first; the parts stand for the unit among the innocent."""
    sampling: Sampling | None = None
    """How a search by repeats came to its answer; None: every trial was judged by its bits."""
    remedies: tuple[str, ...] = ()
    """Options of `bd bisect` with which the same search may come further, the best first."""
    reason: str = ""
    """Why nothing is proved, where the verdict is `INCONCLUSIVE`; mostly one of the notes. Where it is
    `NOT_REPEATABLE`, what moves by itself, if that is known."""

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values."""
        return {
            "schema": 1,
            "verdict": str(self.verdict),
            "causes": [cause.to_json() for cause in self.causes],
            "innocent": [unit.to_json() for unit in self.innocent],
            "inert": [row.to_json() for row in self.inert],
            "untestable": [row.to_json() for row in self.untestable],
            "trials": [trial.to_json() for trial in self.trials],
            "first": None if self.first is None else {"address": str(self.first)} | self._kind(),
            "notes": list(self.notes),
            "finished": self.finished,
            "observer": str(self.observer),
            "taken_apart": [
                unit.to_json() | {"parts": [part.to_json() for part in parts]} for unit, parts in self.taken_apart
            ],
            "sampling": None if self.sampling is None else self.sampling.to_json(),
            "remedies": list(self.remedies),
            "reason": self.reason,
        }

    def _kind(self) -> dict[str, Any]:
        """Return what is known of the first divergence beside its address."""
        found = self.divergence
        if found is None:
            return {}
        return {
            "kind": None if found.kind is None else str(found.kind),
            "is_origin": found.is_origin,
            "tensor": None if found.tensor is None else found.tensor.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Where a search stops of itself."""

    trials: int | None = None
    """Most trials to make; None: no limit."""
    seconds: float | None = None
    """Most wall time; None: no limit."""
    repeats: int = 1
    """Repeats of each control beside the recorded run itself."""
    used_trials: int = 0
    """Runs that were made before the search."""
    used_seconds: float = 0.0
    """Wall time that passed before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """How to search."""

    mode: str = "chain"
    """``chain``: endpoint-chain bisection; ``matrix``: each unit alone in A and alone put back in B."""
    budget: Budget = field(default_factory=Budget)
    jobs: int = 1
    """Trials at a time: all of the matrix, and trials that tell roles; a chain is one by one by nature."""
    observe: bool = True
    """Whether A and B are run once each without recording, where the oracle can do that."""
    confidence: float | None = None
    """With what confidence to search by repeats where A or B does not repeat itself, 0 to 1; None: not at all."""
