"""Parts of the result of a comparison beside the place of the first divergence.

How two tensors differ element by element, how a difference grows from step to step, what two batches have in
common, what has no partner, and how much of which module differs in which step.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bisect_diverge.model.address import Address


class Layout(StrEnum):
    """Where the differing elements of a tensor lie."""

    ONE_ELEMENT = "one-element"
    """There is one."""
    ONE_INDEX = "one-index"
    """All have the same index along one axis: one sample, one row, one channel."""
    EVERYWHERE = "everywhere"
    """Nearly all elements differ."""
    SCATTERED = "scattered"
    """Some do, along no single index of any axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Where the differing elements of a tensor lie."""

    layout: Layout
    """In what manner."""
    axis: int | None = None
    """For *one-index* the axis along which all have the same index; else None."""
    index: int | None = None
    """That index; else None."""
    touched: tuple[int, ...] = ()
    """For each axis, along how many of its indices something differs."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {"layout": str(self.layout), "axis": self.axis, "index": self.index, "touched": list(self.touched)}


@dataclass(frozen=True, slots=True)
class UlpBucket:
    """Some of the differing elements, by ULP distance."""

    low: int
    """Smallest distance, ULP, inclusive."""
    high: int
    """Largest distance, ULP, inclusive."""
    count: int
    """Elements."""

    def to_json(self) -> dict[str, int]:
        """Return it as plain JSON values."""
        return {"low": self.low, "high": self.high, "count": self.count}


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """More on how two tensors of one type and shape differ; `ElementStatistics` has the rest."""

    extent: Extent
    """Where the differing elements lie."""
    ulp_percentiles: tuple[tuple[int, int], ...] = ()
    """Pairs (percent, ULP): that share of the differing elements with a distance is at most so far apart."""
    ulp_histogram: tuple[UlpBucket, ...] = ()
    """Differing elements by ULP distance, in powers of two; of zeros of another sign the distance is 0."""
    no_distance: int = 0
    """Differing elements without ULP distance: NaN in one run."""
    nan_appearing: int = 0
    """Elements that are NaN in B only."""
    nan_vanishing: int = 0
    """Elements that are NaN in A only."""
    inf_appearing: int = 0
    """Elements that are infinite in B only."""
    inf_vanishing: int = 0
    """Elements that are infinite in A only."""
    sign_flips: int = 0
    """Elements that are positive in one run and negative in the other."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        counts = ("no_distance", "nan_appearing", "nan_vanishing", "inf_appearing", "inf_vanishing", "sign_flips")
        return {
            "extent": self.extent.to_json(),
            "ulp_percentiles": [list(pair) for pair in self.ulp_percentiles],
            "ulp_histogram": [bucket.to_json() for bucket in self.ulp_histogram],
            **{name: getattr(self, name) for name in counts},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """How far some tensors are apart in one step."""

    records: int = 0
    """Pairs of records."""
    differing: int = 0
    """Of these, differing ones."""
    max_ulp: int | None = None
    """Largest ULP distance; None where it is not known, 0 where nothing differs."""
    relative_l2: float | None = None
    """Length of the difference of all elements, divided by the length of A's; None where it is not known."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        names = ("records", "differing", "max_ulp", "relative_l2")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDistance:
    """How far two runs are apart in one step."""

    step: int
    """The step, in A's numbering."""
    parameters: Distance
    """Parameters after the update."""
    gradients: Distance
    """Gradients of parameters that the update used."""
    loss: Distance
    """Values on which ``backward()`` was called."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        parts = {name: getattr(self, name).to_json() for name in ("parameters", "gradients", "loss")}
        return {"step": self.step, **parts}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A straight line through the logarithm of the relative L2 distance over the steps (least squares)."""

    of: str
    """What it was fitted to: ``parameters``, ``gradients`` or ``loss``."""
    factor: float
    """By how much the distance is multiplied in a step; 1: it stays."""
    low: float
    """Lower end of the 95 % interval of `factor` (Student's t)."""
    high: float
    """Its upper end."""
    steps: int
    """Steps that the line was fitted to."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {name: getattr(self, name) for name in ("of", "factor", "low", "high", "steps")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How a difference grows from step to step."""

    steps: tuple[StepDistance, ...]
    """Every step from the first that differs, in order (of very many, an evenly spaced choice)."""
    loss_first_differs: int | None
    """First step whose loss differs; None: it never does, or was not recorded."""
    rate: Rate | None
    """How fast it grows; None where there are too few steps with values."""
    dies_out: bool
    """The last step that both runs have in full is equal in parameters, gradients and loss."""
    equal_again_at: int | None = None
    """First step of the equal end, where the difference dies out; else None."""
    without_values: str = ""
    """Why distances are missing, one clause: digests only, or more steps than are read; empty: none are."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "steps": [step.to_json() for step in self.steps],
            "loss_first_differs": self.loss_first_differs,
            "rate": None if self.rate is None else self.rate.to_json(),
            "dies_out": self.dies_out,
            "equal_again_at": self.equal_again_at,
            "without_values": self.without_values,
        }


class BatchRelation(StrEnum):
    """What two batches of samples have in common."""

    REORDERED = "reordered"
    """The same samples in another order, within the batch or across batches of the step range looked at."""
    SUBSET = "subset"
    """One batch has some of the samples of the other."""
    DUPLICATED = "duplicated"
    """The same samples, but some occur more often in one run."""
    AUGMENTED = "augmented"
    """The same samples, told by what is equal beside them (labels, indices), but other values."""
    LATER = "later"
    """A batch that the other run has at another step."""
    OVERLAPPING = "overlapping"
    """Some samples are shared, others are not."""
    OTHER = "other"
    """No sample is shared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """What the two batches at the first divergence have in common, sample by sample."""

    relation: BatchRelation
    """In a word."""
    sentence: str
    """In a sentence, without a full stop."""
    samples_a: int
    """Samples in A's batch."""
    samples_b: int
    """Samples in B's batch."""
    shared: int
    """Samples that both have, each counted as often as in the run that has fewer."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        counts = {name: getattr(self, name) for name in ("samples_a", "samples_b", "shared")}
        return {"relation": str(self.relation), "sentence": self.sentence, **counts}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpaired:
    """Records that have no partner in the other run, of one reason."""

    reason: str
    """Name of the reason: ``training``, ``no_pass``, ``evaluation``, ``recompute``, ``wrapper``, ``inside``,
    ``opaque``, ``filtered``, ``beyond``."""
    why: str
    """The reason as the end of a sentence: *N records ... have no partner*."""
    only_in_a: int
    """Records of A."""
    only_in_b: int
    """Records of B."""
    first: Address
    """The first of them."""
    modules: tuple[str, ...] = ()
    """``root:fqn`` of the modules that have most of them, most first; at most five."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "reason": self.reason,
            "why": self.why,
            "only_in_a": self.only_in_a,
            "only_in_b": self.only_in_b,
            "first": str(self.first),
            "modules": list(self.modules),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """How much differs: steps across, modules down; several steps share a column where there are very many."""

    steps: tuple[tuple[int, int], ...]
    """First and last step (inclusive) of each column."""
    modules: tuple[str, ...]
    """``root:fqn`` of each line, in order of first occurrence; ``root`` for a root itself."""
    compared: tuple[tuple[int, ...], ...]
    """For each module, for each column: pairs of records."""
    differing: tuple[tuple[int, ...], ...]
    """Of these, differing ones."""
    left_out: int = 0
    """Modules beyond the number of lines asked for: those of which least differs."""

    def fraction(self, module: int, column: int) -> float | None:
        """Return the share of a module's pairs in a column that differ; None where there is no pair."""
        compared = self.compared[module][column]
        return self.differing[module][column] / compared if compared else None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "steps": [list(span) for span in self.steps],
            "modules": list(self.modules),
            "compared": [list(line) for line in self.compared],
            "differing": [list(line) for line in self.differing],
            "left_out": self.left_out,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A stretch of a module's ``forward`` between two of its modules: functional code, or a draw."""

    inside: str
    """``root:fqn`` of the module whose ``forward`` it is; ``root`` for a root itself."""
    module_type: str
    """Class of that module."""
    after: str
    """Name of the module called last before it, below `inside`; empty: it is the beginning."""
    before: str
    """Name of the module called next; empty: it is the end."""
    site: str
    """``file:line`` of the call of `before`, else of `after`: code near the stretch; empty if not known."""
    exact: bool = True
    """It begins there; False: there at the latest, code before an earlier module may have made the tensor."""

    @property
    def sentence(self) -> str:
        """Where it is, as the end of a sentence: *in Block.forward, between attn and mlp*."""
        latest = "" if self.exact else "at the latest "
        both = f"{latest}between {self.after} and {self.before}"
        one = f"after {self.after}" if self.after else f"before {self.before}"
        between = both if self.after and self.before else one if self.after or self.before else ""
        where = f"in {self.module_type or self.inside}.forward" + (f", {between}" if between else "")
        return f"{where} ({self.site})" if self.site else where

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        names = ("inside", "module_type", "after", "before", "site", "exact", "sentence")
        return {name: getattr(self, name) for name in names}
