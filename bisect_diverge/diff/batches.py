"""What two batches that differ have in common: the same samples in another order, some of them, augmented anew.

A sample is one index of the first axis. That a whole batch of B is one that A has at another step is known from
digests alone; the rest takes the tensors of the batch.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.diff.keys import Columns
from bisect_diverge.diff.statistics import tensors_at
from bisect_diverge.diff.trace import Trace
from bisect_diverge.model.elements import ELEMENT_TYPES
from bisect_diverge.model.findings import Batches, BatchRelation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Samples = list[bytes]
"""The bytes of each sample, or of what is compared of it."""

BATCHES_SEARCHED = 256
"""Batches of the other run that are searched for samples that are not in its batch of the same step."""
BYTES_SEARCHED = 1 << 26
"""Bytes of them that are read at most."""


@dataclass(frozen=True, slots=True)
class _Pair:
    """The two batches at a row of a trace."""

    trace: Trace
    index: int
    slot: str
    a: NDArray[Any]
    b: NDArray[Any]
    samples_a: Samples
    samples_b: Samples
    shared: int
    """Samples that both have."""
    beside: tuple[int, ...]
    """Rows of the other tensors of the same batch."""

    def answer(self, relation: BatchRelation, sentence: str, shared: int | None = None) -> Batches:
        """Return the answer."""
        return Batches(
            relation=relation,
            sentence=sentence,
            samples_a=len(self.samples_a),
            samples_b=len(self.samples_b),
            shared=self.shared if shared is None else shared,
        )


def batches_at(trace: Trace, index: int) -> Batches | None:
    """Return what the batches at a row have in common; None where nothing can be told of them.

    Args:
        trace: The trace.
        index: A row that differs and that both runs have: of a loader, or fed to a root from outside.
    """
    if not trace.paired[index]:
        return None
    a, b = tensors_at(trace, index)
    event = trace.b.events[trace.row_b[index]]
    shapes = trace.a.shapes[trace.a.events[trace.row_a[index]]["shape"]], trace.b.shapes[event["shape"]]
    if not all(shapes) or not ELEMENT_TYPES[event["dtype"]].storage:
        return None  # a number, or a text
    known = None
    if a is not None and b is not None and a.dtype == b.dtype and a.shape[1:] == b.shape[1:]:
        known = a, b
    tensor_a, tensor_b = known or (np.zeros(0), np.zeros(0))
    samples_a, samples_b = map(_samples, known) if known else ([b""] * shape[0] for shape in shapes)
    pair = _Pair(
        trace=trace,
        index=index,
        slot=trace.tables.slots[trace.rows.slot[index]],
        a=tensor_a,
        b=tensor_b,
        samples_a=samples_a,
        samples_b=samples_b,
        shared=_shared(samples_a, samples_b) if known else 0,
        beside=_beside(trace, index),
    )
    rules = _RULES if known else _DIGEST_RULES
    return next((found for rule in rules if (found := rule(pair)) is not None), None)


# -- the rules: the first that fits is the answer


def _elsewhere(pair: _Pair) -> Batches | None:
    """B's whole batch is one of A's at another step, known from its digest."""
    trace, index = pair.trace, pair.index
    event = trace.b.events[trace.row_b[index]]
    rows = _like(trace.rows, index, trace.row_a)
    events = trace.a.events[trace.row_a[rows]]
    found = rows[(events["digest0"] == event["digest0"]) & (events["digest1"] == event["digest1"])]
    if not len(found):
        return None
    own, other = int(trace.rows.step[index]), trace.rows.step[found]
    step = int(other[np.abs(other - own).argmin()])
    if step == own:
        return pair.answer(
            BatchRelation.LATER, f"B's batch is another of A's batches of step {own}", len(pair.samples_b)
        )
    when = "later" if step > own else "earlier"
    distance = abs(step - own)
    return pair.answer(
        BatchRelation.LATER,
        f"B's batch of step {own} is A's of step {step}, {distance} step{'s' * (distance != 1)} {when}",
        len(pair.samples_b),
    )


def _reordered(pair: _Pair) -> Batches | None:
    if not pair.shared == len(pair.samples_a) == len(pair.samples_b):
        return None
    moved = next(n for n, (a, b) in enumerate(zip(pair.samples_a, pair.samples_b, strict=True)) if a != b)
    to = pair.samples_b.index(pair.samples_a[moved])
    beside = _equal_beside(pair)
    also = f", while {beside} is equal in the same order" if beside else ""
    return pair.answer(
        BatchRelation.REORDERED,
        f"the same {len(pair.samples_a)} samples in another order: A's sample {moved} is B's sample {to}{also}",
    )


def _duplicated(pair: _Pair) -> Batches | None:
    in_a, in_b = Counter(pair.samples_a), Counter(pair.samples_b)
    for name, own, other_name, other in (("B", in_b, "A", in_a), ("A", in_a, "B", in_b)):
        more = (own - other).total()
        if more and own.keys() <= other.keys() and max(own.values()) > 1:
            sentence = f"{name}'s batch has samples of {other_name}'s more than once: {more} too many"
            return pair.answer(BatchRelation.DUPLICATED, sentence)
    return None


def _subset(pair: _Pair) -> Batches | None:
    size_a, size_b = len(pair.samples_a), len(pair.samples_b)
    if pair.shared != min(size_a, size_b):
        return None
    has, lacks, size, whole = ("A", "B", size_b, size_a) if size_b < size_a else ("B", "A", size_a, size_b)
    return pair.answer(BatchRelation.SUBSET, f"{lacks}'s batch is {size} of the {whole} samples of {has}'s")


def _augmented(pair: _Pair) -> Batches | None:
    """The same samples with other values: told by equal elements in another order, or by equal labels beside."""
    size = min(len(pair.samples_a), len(pair.samples_b))
    if pair.shared == size or pair.a.ndim < 2 or pair.a[0].size < FEWEST_ELEMENTS:
        return None
    turned = _shared(_ordered(pair.a), _ordered(pair.b))
    if turned == size:
        return pair.answer(
            BatchRelation.AUGMENTED,
            f"the same samples: {size - pair.shared} of {size} have the same elements in another order, as if flipped "
            "or rolled by an augmentation",
        )
    beside = _equal_beside(pair)
    if not beside:
        return None
    changed = sum(a != b for a, b in zip(pair.samples_a, pair.samples_b, strict=True))
    have = "has" if changed == 1 else "have"
    return pair.answer(
        BatchRelation.AUGMENTED,
        f"{beside} is equal in the same order, but {changed} of {size} samples {have} other values: the same samples, "
        "augmented or read otherwise",
    )


def _numbers(pair: _Pair) -> Batches | None:
    """Labels, tokens, indices: that one of a few whole numbers is in another batch too says nothing of its sample."""
    if pair.a.dtype.kind not in "iub" or pair.a.ndim != 1 or pair.a.shape != pair.b.shape:
        return None
    changed = int(np.count_nonzero(pair.a != pair.b))
    verb = "differs" if changed == 1 else "differ"
    return pair.answer(
        BatchRelation.OTHER, f"{changed} of {len(pair.a)} numbers (labels, tokens, indices) {verb}, place by place"
    )


def _shuffled(pair: _Pair) -> Batches | None:
    """A has all of B's samples, but in other batches: another order of the data set."""
    searched: set[bytes] = set()
    steps: list[int] = []
    for step, tensor in _batches_of(pair):
        searched.update(_samples(tensor))
        steps.append(step)
    if not searched.issuperset(pair.samples_b):
        return None
    return pair.answer(
        BatchRelation.REORDERED,
        f"all {len(pair.samples_b)} samples of B's batch are in A's batches of steps {min(steps)} to {max(steps)}: "
        "another order of the samples",
    )


def _overlapping(pair: _Pair) -> Batches | None:
    if not pair.shared:
        return None
    sizes = len(pair.samples_a), len(pair.samples_b)
    size = f"{sizes[0]}" if sizes[0] == sizes[1] else f"{sizes[0]} and {sizes[1]}"
    verb = "is" if pair.shared == 1 else "are"
    return pair.answer(BatchRelation.OVERLAPPING, f"{pair.shared} of {size} samples {verb} in both batches")


def _other(pair: _Pair) -> Batches | None:
    return pair.answer(BatchRelation.OTHER, "no sample of one batch is in the other")


_DIGEST_RULES: tuple[Callable[[_Pair], Batches | None], ...] = (_elsewhere,)
"""Rules that take digests only."""
_RULES = (_elsewhere, _reordered, _numbers, _duplicated, _subset, _augmented, _shuffled, _overlapping, _other)

FEWEST_ELEMENTS = 4
"""Elements of a sample from which equal elements in another order tell that it is the same."""


# -- helpers


def _samples(tensor: NDArray[Any]) -> Samples:
    """Return the bytes of each index of the first axis."""
    return [sample.tobytes() for sample in tensor] if tensor.ndim else []


def _ordered(tensor: NDArray[Any]) -> Samples:
    """Return the bytes of each sample with its elements sorted."""
    flat = np.ascontiguousarray(tensor).reshape(len(tensor), -1)
    return _samples(np.sort(flat.view(f"<u{flat.itemsize}") if flat.itemsize <= LARGEST_INTEGER else flat, axis=1))


LARGEST_INTEGER = 8
"""Bytes of the largest integer type, as which bits are sorted."""


def _shared(a: Samples, b: Samples) -> int:
    return (Counter(a) & Counter(b)).total()


def _like(rows: Columns, index: int, row_a: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows of A of the same loader (or root) and slot, of any step."""
    same = (rows.phase == rows.phase[index]) & (rows.place == rows.place[index]) & (rows.slot == rows.slot[index])
    return np.flatnonzero(same & (row_a >= 0))


def _beside(trace: Trace, index: int) -> tuple[int, ...]:
    """Return the other rows of the same batch that both runs have."""
    rows = trace.rows
    near = np.arange(max(index - NEAR, 0), min(index + NEAR, len(trace)))
    alike = np.ones(len(near), np.bool_)
    for part in (rows.step, rows.micro_batch, rows.phase, rows.place, rows.call):
        alike &= part[near] == part[index]
    given = np.array([slot.startswith(_GIVEN) for slot in trace.tables.slots], np.bool_)
    alike &= given[rows.slot[near]]  # outputs of the same call are no labels
    return tuple(near[alike & trace.paired[near] & (near != index)].tolist())


_GIVEN = ("batch", "input", "kwarg")
"""How the slots of a batch, or of what a root is given, begin."""
NEAR = 64
"""Rows before and behind a row among which the other tensors of its batch are."""


def _equal_beside(pair: _Pair) -> str:
    """Return the slot of a tensor of the batch that is equal and tells samples apart; empty where there is none."""
    trace = pair.trace
    for index in pair.beside:
        if not trace.same[index]:
            continue
        a, b = tensors_at(trace, index)
        known = a if a is not None else b
        if known is None or not known.ndim or len(known) != len(pair.samples_a) or len(known) != len(pair.samples_b):
            continue
        if len(set(_samples(known))) > 1:
            return str(trace.tables.slots[trace.rows.slot[index]])
    return ""


def _batches_of(pair: _Pair) -> Iterator[tuple[int, NDArray[Any]]]:
    """Return steps and tensors of A's batches, those near first, within a budget of bytes."""
    trace, index = pair.trace, pair.index
    rows = _like(trace.rows, index, trace.row_a)
    nearest = rows[np.argsort(np.abs(rows - index), kind="stable")][:BATCHES_SEARCHED]
    left = BYTES_SEARCHED
    for row in nearest.tolist():
        tensor = trace.a.tensor(int(trace.row_a[row]))
        if tensor is None or tensor.dtype != pair.b.dtype or tensor.shape[1:] != pair.b.shape[1:]:
            continue
        left -= tensor.nbytes
        if left < 0:
            return
        yield int(trace.rows.step[row]), tensor
