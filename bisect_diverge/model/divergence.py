"""The result of comparing two runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from bisect_diverge.model.address import Address
from bisect_diverge.model.environment import Difference
from bisect_diverge.model.findings import Batches, Growth, Heat, Numbers, Stretch, Unpaired

JSON_SCHEMA = 1
"""Version of the JSON that `Divergence.to_json` returns."""


class Verdict(StrEnum):
    """What a comparison of two runs found."""

    DIVERGED = "diverged"
    EQUAL = "equal"
    EQUAL_SO_FAR = "equal-so-far"
    """Everything paired is equal, but a run is unfinished or was limited by ``--steps``."""
    NOT_COMPARABLE = "not-comparable"


class DivergenceKind(StrEnum):
    """In what sort of thing two runs first differ."""

    INITIALIZATION = "initialization"
    DATA = "data"
    RNG = "rng"
    HYPERPARAMETER = "hyperparameter"
    COMPUTATION = "computation"
    GRADIENT = "gradient"
    OPTIMIZER = "optimizer"
    STRUCTURE = "structure"


class Side(StrEnum):
    """Which runs have a record."""

    BOTH = "both"
    A = "a"
    B = "b"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A record at which two runs differ."""

    address: Address
    """Its address (in A's steps; in B's where only B has it)."""
    side: Side
    """Which runs have it."""
    module_type: str
    """Class of the module (in A where both have it); empty where there is none."""
    site: str
    """``file:line`` that called the module; empty if not known."""
    module_type_b: str = ""
    """Class of the module in B where it is another; else empty."""

    def to_json(self) -> dict[str, Any]:
        """Return the place as plain JSON values."""
        a = self.address
        other = {"module_type_b": self.module_type_b} if self.module_type_b else {}
        return {
            "address": str(a),
            "side": str(self.side),
            "rank": a.rank,
            "step": a.step,
            "micro_batch": a.micro_batch,
            "phase": str(a.phase),
            "root": a.root,
            "fqn": a.fqn,
            "call": a.call,
            "slot": a.slot,
            "module_type": self.module_type,
            **other,
            "site": self.site,
        }


@dataclass(frozen=True, slots=True)
class Sides:
    """The same property of a record in both runs, as text."""

    a: str
    """In A."""
    b: str
    """In B."""

    def to_json(self) -> dict[str, str]:
        """Return both as plain JSON values."""
        return {"a": self.a, "b": self.b}


@dataclass(frozen=True, slots=True)
class LoneNan:
    """The first element that is NaN in one run only."""

    side: str
    """``a`` or ``b``: the run in which it is NaN."""
    index: tuple[int, ...]
    """Its index, row-major."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {"side": self.side, "index": list(self.index)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementStatistics:
    """How two tensors of one dtype and shape differ, element by element."""

    dtype: str
    """Element type."""
    shape_a: tuple[int, ...]
    """Shape in A."""
    shape_b: tuple[int, ...]
    """Shape in B."""
    numel: int
    """Number of elements."""
    differing: int
    """Number of elements whose bits differ."""
    max_ulp: int | None
    """Largest ULP distance over elements that are numbers in both; None where there is none."""
    max_abs: float | None
    """Largest absolute difference over elements that are finite in both; None if there is none."""
    max_rel: float | None
    """Largest ``|a-b| / max(|a|, |b|)`` over the same elements; None if there is none."""
    first_index: tuple[int, ...]
    """Index of the first element, in row-major order, whose bits differ."""
    signature: str
    """A hint at the cause, a name of `numerics.signature`."""
    rounded_as: str = ""
    """Shorter type in which the difference is as small as rounding, as under autocast; empty: that of the tensor."""
    nan: LoneNan | None = None
    """The first element that is NaN in one run only; None: there is none."""
    across_zero: bool = False
    """Whether the largest ULP distance is one of two numbers of different sign."""

    def to_json(self) -> dict[str, Any]:
        """Return the statistics as plain JSON values; the last three keys only where they say something."""
        more: dict[str, Any] = {"rounded_as": self.rounded_as} if self.rounded_as else {}
        if self.across_zero:
            more["across_zero"] = True
        if self.nan is not None:
            more["nan"] = self.nan.to_json()
        return {
            "dtype": self.dtype,
            "shape_a": list(self.shape_a),
            "shape_b": list(self.shape_b),
            "numel": self.numel,
            "differing": self.differing,
            "max_ulp": self.max_ulp,
            "max_abs": self.max_abs,
            "max_rel": self.max_rel,
            "first_index": list(self.first_index),
            "signature": self.signature,
            **more,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """How much was compared."""

    steps: int = 0
    """Steps that both runs have."""
    records: int = 0
    """Records that both runs have and that were compared."""
    equal: int = 0
    """Of these, equal ones."""
    differing: int = 0
    """Of these, differing ones."""
    only_in_a: int = 0
    """Records without partner in B."""
    only_in_b: int = 0
    """Records without partner in A."""
    unreadable: int = 0
    """Of the equal ones, tensors without readable bytes, of which class and shape were compared."""

    def to_json(self) -> dict[str, int]:
        """Return the counts as plain JSON values; `unreadable` only where there are such records."""
        names = ["steps", "records", "equal", "differing", "only_in_a", "only_in_b"]
        names += ["unreadable"] * bool(self.unreadable)
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """What two recorded runs have in common and where they part."""

    verdict: Verdict
    """The answer."""
    kind: DivergenceKind | None = None
    """Sort of the first divergence; None when nothing differs."""
    first: Place | None = None
    """The first divergence; None when nothing differs."""
    is_origin: bool | None = None
    """Whether everything that went into `first` is equal; None: undetermined."""
    origin_reason: str = ""
    """One sentence: why it is, is not, or cannot be told to be, the origin."""
    origins_in_first_step: tuple[Address, ...] = ()
    """Every place in the first differing step whose inputs were all equal."""
    tensor: ElementStatistics | None = None
    """Element statistics of `first`; None when shapes differ or only digests were kept."""
    types: Sides | None = None
    """Element type and shape of `first` in each run; None where only one has it."""
    cast: str = ""
    """How the values of `first` go together where its types differ, one clause; empty: by no cast, or not known."""
    values: Sides | None = None
    """The values of `first` where it holds one number or one text; else None."""
    structure: str = ""
    """What one run does and the other does not, where `first` has no partner and a sentence tells; else empty."""
    limited: str = ""
    """Why the verdict is *equal so far*, one clause; empty for other verdicts."""
    compared: Compared = field(default_factory=Compared)
    """How much was compared."""
    environment: tuple[Difference, ...] = ()
    """What differs in the environment."""
    propagated: int = 0
    """Differing records of the first differing step that follow from others, or are not known to begin there."""
    stretch: Stretch | None = None
    """Where in a module's ``forward`` the difference begins, if between two modules; else None."""
    numbers: Numbers | None = None
    """More on how the tensors of `first` differ; None where `tensor` is."""
    batches: Batches | None = None
    """What the batches at `first` have in common; None where it is no batch, or only digests were kept."""
    unpaired: tuple[Unpaired, ...] = ()
    """What has no partner, and why."""
    growth: Growth | None = None
    """How the difference grows from step to step; None unless asked for."""
    heat: Heat | None = None
    """How much of which module differs in which step; None unless asked for."""
    offset_b: int | None = None
    """Offset of B's steps that is proposed, where B seems to go on from a later step of A; None: none is."""
    notes: tuple[str, ...] = ()
    """What was left out and why, offsets proposed, generators ignored."""

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values; what is unknown or empty is left out from `types` on."""
        more: dict[str, Any] = {}
        if self.types is not None and self.types.a != self.types.b:
            more["types"] = self.types.to_json()
        if self.values is not None:
            more["values"] = self.values.to_json()
        if self.cast:
            more["cast"] = self.cast
        if self.propagated:
            more["propagated"] = self.propagated
        for name in ("stretch", "numbers", "batches", "growth", "heat"):
            part = getattr(self, name)
            if part is not None:
                more[name] = part.to_json()
        if self.offset_b is not None:
            more["offset_b"] = self.offset_b
        if self.unpaired:
            more["unpaired"] = [entry.to_json() for entry in self.unpaired]
        return {
            "schema": JSON_SCHEMA,
            "verdict": str(self.verdict),
            "kind": None if self.kind is None else str(self.kind),
            "first": None if self.first is None else self.first.to_json(),
            "is_origin": self.is_origin,
            "origin_reason": self.origin_reason,
            "origins_in_first_step": [str(address) for address in self.origins_in_first_step],
            "tensor": None if self.tensor is None else self.tensor.to_json(),
            **more,
            "compared": self.compared.to_json(),
            "environment": [difference.to_json() for difference in self.environment],
            "notes": list(self.notes),
        }
