"""How the tensors of a pair of rows differ, element by element; the only reader of tensor bytes here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from bisect_diverge.diff.keys import PARAMETER_SLOTS
from bisect_diverge.model.address import PHASES, Phase
from bisect_diverge.model.divergence import ElementStatistics, LoneNan
from bisect_diverge.model.elements import ELEMENT_TYPES
from bisect_diverge.model.findings import Extent, Layout, Numbers, UlpBucket
from bisect_diverge.model.record import Flag

if TYPE_CHECKING:
    from bisect_diverge.diff.trace import Trace

Tensor = NDArray[Any]


def tensors_at(trace: Trace, index: int) -> tuple[Tensor | None, Tensor | None]:
    """Return the tensors of a row in their storage types; None for a side that has, or kept, none.

    A B that was recorded against A holds no copy of what is equal there: it is read from A.
    """
    row_a, row_b = int(trace.row_a[index]), int(trace.row_b[index])
    tensor_a = trace.a.tensor(row_a) if row_a >= 0 else None
    tensor_b = trace.b.tensor(row_b) if row_b >= 0 else None
    if tensor_b is None and trace.same[index] and trace.b.events["flags"][row_b] & Flag.IN_BASELINE:
        tensor_b = tensor_a
    return tensor_a, tensor_b


def statistics_at(trace: Trace, index: int, *, computed: bool = True) -> ElementStatistics | None:
    """Return how the tensors of a row differ; None unless both are kept, of one type and one shape.

    Args:
        trace: The trace.
        index: Place in it.
        computed: A kernel made them: no batch, and nothing else that was fed in.
    """
    both = comparable_tensors(trace, index)
    return None if both is None else _statistics(trace, index, both, computed=computed)


def measured(
    trace: Trace, index: int, *, computed: bool = True
) -> tuple[ElementStatistics, Numbers] | tuple[None, None]:
    """Return `statistics_at` and `numbers_at` of a row, whose tensors are read once for both."""
    both = comparable_tensors(trace, index)
    return (None, None) if both is None else (_statistics(trace, index, both, computed=computed), _numbers(both))


def _statistics(trace: Trace, index: int, both: tuple[Tensor, Tensor, str], *, computed: bool) -> ElementStatistics:
    phase, slot = PHASES[trace.rows.phase[index]], trace.tables.slots[trace.rows.slot[index]]
    products = slot == "grad" or (phase not in (Phase.INIT, Phase.OPTIMIZER) and slot not in PARAMETER_SLOTS)
    return element_statistics(*both, computed=computed and phase is not Phase.DATA, products=products)


def numbers_at(trace: Trace, index: int) -> Numbers | None:
    """Return more on how the tensors of a row differ; None unless both are kept, of one type and one shape."""
    both = comparable_tensors(trace, index)
    return None if both is None else _numbers(both)


def _numbers(both: tuple[Tensor, Tensor, str]) -> Numbers:
    from bisect_diverge.numerics.elementwise import elementwise

    found = elementwise(*both)
    extent = found.extent
    return Numbers(
        extent=Extent(layout=Layout(extent.layout.value), axis=extent.axis, index=extent.index, touched=extent.touched),
        ulp_percentiles=found.ulp_percentiles,
        ulp_histogram=tuple(UlpBucket(bucket.low, bucket.high, bucket.count) for bucket in found.ulp_histogram),
        no_distance=found.no_distance,
        nan_appearing=found.nan_appearing,
        nan_vanishing=found.nan_vanishing,
        inf_appearing=found.inf_appearing,
        inf_vanishing=found.inf_vanishing,
        sign_flips=found.sign_flips,
    )


def cast_at(trace: Trace, index: int) -> str:
    """Return how the values of a row go together where the types differ; empty: by no cast, or not known."""
    if not trace.paired[index]:
        return ""
    event_a, event_b = trace.a.events[trace.row_a[index]], trace.b.events[trace.row_b[index]]
    alike = trace.a.shapes[event_a["shape"]] == trace.b.shapes[event_b["shape"]]
    names = [ELEMENT_TYPES[event["dtype"]].name for event in (event_a, event_b)]
    a, b = tensors_at(trace, index) if alike and names[0] != names[1] else (None, None)
    if a is None or b is None:
        return ""
    from bisect_diverge.numerics.cast import cast_between

    return _CASTS.get(cast_between(a, names[0], b, names[1]), "")


_CASTS = {
    "same": "the same values in another type",
    "rounded": "the same values, rounded to the shorter type",
}


def comparable_tensors(trace: Trace, index: int) -> tuple[Tensor, Tensor, str] | None:
    """Return both tensors of a row and their type; None unless both are kept, of one type and one shape."""
    row_a, row_b = int(trace.row_a[index]), int(trace.row_b[index])
    if row_a < 0 or row_b < 0:
        return None
    event_a, event_b = trace.a.events[row_a], trace.b.events[row_b]
    if event_a["dtype"] != event_b["dtype"]:
        return None
    if trace.a.shapes[event_a["shape"]] != trace.b.shapes[event_b["shape"]]:
        return None
    tensor_a, tensor_b = tensors_at(trace, index)
    if tensor_a is None or tensor_b is None:
        return None
    return tensor_a, tensor_b, ELEMENT_TYPES[event_a["dtype"]].name


def element_statistics(
    a: Tensor, b: Tensor, dtype: str, *, computed: bool = True, products: bool = True
) -> ElementStatistics:
    """Return how two tensors of one type and shape differ.

    Args:
        a: As stored, any shape.
        b: The same type and shape.
        dtype: Name of their element type.
        computed: A kernel made them, so that rounding may explain the difference.
        products: They may be sums of products, so that arithmetic in a shorter type may.
    """
    from bisect_diverge.numerics.signature import hint
    from bisect_diverge.numerics.summary import gap, lone_nan

    found = gap(a, b, dtype)
    looks = hint(a, b, dtype, computed=computed, products=products)
    nan = lone_nan(a, b, dtype)
    return ElementStatistics(
        dtype=dtype,
        shape_a=a.shape,
        shape_b=b.shape,
        numel=a.size,
        differing=found.differing,
        max_ulp=found.max_ulp,
        across_zero=found.across_zero,
        max_abs=found.max_abs,
        max_rel=found.max_rel,
        first_index=found.first_index or (),
        signature=str(looks.signature),
        rounded_as=looks.rounded_as,
        nan=None if nan is None else LoneNan(*nan),
    )
