"""How a difference grows from step to step, in parameters, gradients and loss.

Which records differ is known from digests alone; how far they are apart takes the tensors, so their bytes are
read only here, only when asked for, and at no more than a choice of the steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.diff.statistics import tensors_at
from bisect_diverge.diff.trace import RowState, Trace
from bisect_diverge.model.address import PHASE_CODE, Phase
from bisect_diverge.model.elements import ELEMENT_TYPES, ElementType, Kind
from bisect_diverge.model.findings import Distance, Growth, Rate, StepDistance

if TYPE_CHECKING:
    from collections.abc import Sequence

STEPS_SHOWN = 200
"""Steps of a growth; of more, an evenly spaced choice."""
ELEMENTS_READ = 1 << 28
"""Elements of one run that are read in all; of more, those of fewer steps."""
FEWEST_STEPS = 8
"""Steps whose elements are read however many there are."""

_QUANTITIES = {
    "parameters": (Phase.OPTIMIZER, "param"),
    "gradients": (Phase.OPTIMIZER, "grad"),
    "loss": (Phase.FORWARD, "value"),
}
"""Phase and slot of the rows of each quantity, in the order in which a rate is looked for."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of one quantity in one trace, of steps from the first that differs."""

    trace: Trace
    index: NDArray[np.int64]
    step: NDArray[np.int64]
    differs: NDArray[np.bool_]


@dataclass(slots=True)
class _Sum:
    """Sums over the elements of some pairs of tensors."""

    max_ulp: int | None = 0
    squares: float = 0.0
    """Of A's elements."""
    gaps: float = 0.0
    """Squares of the differences."""
    complete: bool = True
    """Every tensor was kept."""

    def distance(self, records: int, differing: int) -> Distance:
        known = self.complete and math.isfinite(self.squares) and math.isfinite(self.gaps)
        length = math.sqrt(self.gaps / self.squares) if known and self.squares else None
        if known and not self.gaps:
            length = 0.0
        return Distance(
            records=records,
            differing=differing,
            max_ulp=self.max_ulp if self.complete else None,
            relative_l2=length,
        )


@dataclass(slots=True)
class _Missing:
    """Why distances are missing."""

    digests: dict[str, set[int]] = field(default_factory=dict)
    """Quantity to the steps at which tensors were not kept."""
    skipped: int = 0
    """Steps whose elements are not read."""

    def clause(self, shown: int) -> str:
        """Return the reasons in words; `shown` is the number of steps shown."""
        lost = {name: len(self.digests[name]) for name in _QUANTITIES if self.digests.get(name)}
        parts = []
        if lost:
            names, most = " and ".join(lost), max(lost.values())
            parts.append(f"only digests were kept of {names} at {most} of {shown} steps: only counts are known there")
        if self.skipped:
            parts.append(f"parameters and gradients were read at {shown - self.skipped} of {shown} steps")
        return "; ".join(parts)


def growth(traces: Sequence[Trace], first_step: int) -> Growth:
    """Return how a difference grows.

    Args:
        traces: The trace of each common rank; the sums go over all of them.
        first_step: First step that differs.
    """
    rows = {name: [_rows(trace, name, first_step) for trace in traces] for name in _QUANTITIES}
    shown = _spread(_steps_of(rows), STEPS_SHOWN)
    read = set(_spread(shown, _affordable(rows, len(shown))).tolist())
    missing = _Missing(skipped=len(shown) - len(read))
    distances = tuple(
        StepDistance(
            step=step,
            **{name: _distance(rows[name], step, name, missing, read=step in read) for name in _QUANTITIES},
        )
        for step in shown.tolist()
    )
    again = _equal_again(rows)
    loss = rows["loss"]
    loss_steps = [int(part.step[part.differs].min()) for part in loss if part.differs.any()]
    return Growth(
        steps=distances,
        loss_first_differs=min(loss_steps, default=None),
        rate=_rate(distances),
        dies_out=again is not None,
        equal_again_at=again,
        without_values=missing.clause(len(shown)),
    )


def _rows(trace: Trace, quantity: str, first_step: int) -> _Rows:
    phase, slot = _QUANTITIES[quantity]
    slots = np.array([text == slot for text in trace.tables.slots], np.bool_)
    chosen = (trace.rows.phase == PHASE_CODE[phase]) & slots[trace.rows.slot]
    chosen &= (trace.rows.step >= first_step) & (trace.state <= RowState.DIFFERS)
    index = np.flatnonzero(chosen)
    return _Rows(trace, index, trace.rows.step[index].astype(np.int64), trace.state[index] == RowState.DIFFERS)


def _steps_of(rows: dict[str, list[_Rows]]) -> NDArray[np.int64]:
    return np.unique(np.concatenate([part.step for parts in rows.values() for part in parts]))


def _spread(steps: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return at most so many of some steps, evenly spaced, the first and the last among them."""
    if len(steps) <= most:
        return steps
    return steps[np.unique(np.linspace(0, len(steps) - 1, most).round().astype(np.int64))]


def _affordable(rows: dict[str, list[_Rows]], shown: int) -> int:
    """Return the number of steps whose elements may be read."""
    total = 0
    for name in ("parameters", "gradients"):
        for part in rows[name]:
            first = part.index[part.step == part.step.min(initial=np.iinfo(np.int64).max)]
            file = part.trace.a
            shapes = file.events["shape"][part.trace.row_a[first]] if len(first) else ()
            total += sum(math.prod(file.shapes[shape]) for shape in shapes)
    return max(min(shown, ELEMENTS_READ // max(total, 1)), FEWEST_STEPS)


def _distance(rows: list[_Rows], step: int, quantity: str, missing: _Missing, *, read: bool) -> Distance:
    spans = [(part, *np.searchsorted(part.step, [step, step + 1]).tolist()) for part in rows]
    records = sum(end - begin for _, begin, end in spans)
    differing = sum(int(np.count_nonzero(part.differs[begin:end])) for part, begin, end in spans)
    if not differing:
        return Distance(records=records, max_ulp=0, relative_l2=0.0) if records else Distance()
    found = _Sum(complete=read or quantity == "loss")
    for part, begin, end in spans:
        if found.complete:
            kept = _sum_up(found, part.trace, part.index[begin:end], part.differs[begin:end])
            missing.digests.setdefault(quantity, set()).update(() if kept else (step,))
    return found.distance(records, differing)


def _sum_up(found: _Sum, trace: Trace, index: NDArray[np.int64], differs: NDArray[np.bool_]) -> bool:
    """Add some pairs of records to a sum; return False where that took tensors that were not kept."""
    events_a, events_b = trace.a.events[trace.row_a[index]], trace.b.events[trace.row_b[index]]
    have = [(events["offset"] >= 0) | ~np.isnan(events["value"]) for events in (events_a, events_b)]
    if not np.where(differs, have[0] & have[1], have[0] | have[1])[_FLOATING[events_a["dtype"]]].all():
        found.complete = False
        return False
    for at, event_a, event_b, unequal in zip(index.tolist(), events_a, events_b, differs.tolist(), strict=True):
        _add(found, trace, at, event_a, event_b, differs=unequal)
    return True


_FLOATING = np.array([element.kind in (Kind.FLOAT, Kind.COMPLEX) for element in ELEMENT_TYPES])


def _add(found: _Sum, trace: Trace, index: int, event_a: Any, event_b: Any, *, differs: bool) -> None:
    """Add one pair of records to a sum."""
    if not (_FLOATING[event_a["dtype"]] and _FLOATING[event_b["dtype"]]):
        found.complete &= not differs
        return
    alike = event_a["dtype"] == event_b["dtype"]
    alike &= trace.a.shapes[event_a["shape"]] == trace.b.shapes[event_b["shape"]]
    element = ELEMENT_TYPES[event_a["dtype"]]
    a, b = _tensors(trace, index, element) if alike else (None, None)
    if a is None and not differs:
        a = b
    if a is None or (differs and b is None):
        found.complete = False
        return
    _add_tensors(found, a, b if differs else None, element.name)


def _tensors(trace: Trace, index: int, element: ElementType) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Return both tensors; a number is known even where only its digest was kept."""
    a, b = tensors_at(trace, index)
    if element.storage != f"<f{element.itemsize}":
        return a, b
    event_a, event_b = trace.a.events[trace.row_a[index]], trace.b.events[trace.row_b[index]]
    return (
        np.array([event_a["value"]], element.storage) if a is None and not np.isnan(event_a["value"]) else a,
        np.array([event_b["value"]], element.storage) if b is None and not np.isnan(event_b["value"]) else b,
    )


def _add_tensors(found: _Sum, a: NDArray[Any], b: NDArray[Any] | None, dtype: str) -> None:
    """Add the elements of two tensors; b is None where they are equal."""
    from bisect_diverge.numerics.bits import decode
    from bisect_diverge.numerics.summary import blocks
    from bisect_diverge.numerics.ulp import ulp_distance

    with np.errstate(over="ignore", invalid="ignore"):
        for pair in blocks(a, a if b is None else b.reshape(a.shape)):
            of_a = decode(pair[0], dtype)
            found.squares += float((np.abs(of_a) ** 2).sum())
            if b is None:
                continue
            found.gaps += float((np.abs(of_a - decode(pair[1], dtype)) ** 2).sum())
            largest = int(ulp_distance(pair[0], pair[1], dtype).max(initial=0))
            found.max_ulp = max(found.max_ulp or 0, largest)


def _equal_again(rows: dict[str, list[_Rows]]) -> int | None:
    """Return from which step on nothing differs up to the last whole one; None where the last one differs."""
    differing = np.unique(np.concatenate([part.step[part.differs] for parts in rows.values() for part in parts]))
    whole = np.unique(np.concatenate([part.step for part in rows["parameters"]]))
    if not len(differing) or not len(whole) or whole[-1] <= differing[-1]:
        return None
    return int(whole[whole > differing[-1]][0])


def _rate(distances: Sequence[StepDistance]) -> Rate | None:
    from bisect_diverge.numerics.trend import trend

    for name in _QUANTITIES:
        known = [(step.step, getattr(step, name).relative_l2) for step in distances]
        usable = [(step, value) for step, value in known if value]
        found = trend(*zip(*usable, strict=True)) if usable else None
        if found is not None:
            return Rate(of=name, factor=found.factor, low=found.low, high=found.high, steps=found.points)
    return None
