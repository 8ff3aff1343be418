"""Where a row of a trace stands, in words of the result: its address, and what is known of the two records there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.model.address import PHASE_CODE, Phase
from bisect_diverge.model.divergence import Place, Side, Sides
from bisect_diverge.model.elements import BY_NAME, Kind, shape_text
from bisect_diverge.model.record import Flag, TensorRecord

if TYPE_CHECKING:
    from bisect_diverge.diff.trace import Trace
    from bisect_diverge.model.address import Address
    from bisect_diverge.store.reader import RunFile

_INIT = PHASE_CODE[Phase.INIT]

LONGEST_TEXT = 60
"""Characters of a recorded text that are shown."""


def late_starts(trace: Trace) -> NDArray[np.int64]:
    """Return the rows of the trace for which `starts_late` names a run, in order."""
    if trace.row_a is trace.row_b:  # the same addresses in the same order, which is the usual case
        return np.zeros(0, np.int64)
    paired = np.flatnonzero(trace.paired)
    of_a, of_b = trace.row_a[paired], trace.row_b[paired]
    other = trace.a.events["phase"][of_a] != trace.b.events["phase"][of_b]
    other |= trace.a.events["step"][of_a].astype(np.int64) != trace.b.events["step"][of_b].astype(np.int64) + (
        trace.offset_b
    )
    return np.asarray(paired[other])


def starts_late(trace: Trace, i: int) -> str:
    """Return which run, A or B, starts from a row that is paired with what the other had by then; empty: none."""
    row_a, row_b = int(trace.row_a[i]), int(trace.row_b[i])
    if row_a < 0 or row_b < 0:
        return ""
    of_a, of_b = trace.a.events[row_a], trace.b.events[row_b]
    later = int(of_b["step"]) + trace.offset_b - int(of_a["step"])
    if not later and of_a["phase"] == of_b["phase"]:
        return ""
    return "B" if later > 0 or (not later and of_b["phase"] == _INIT) else "A"


def address_at(trace: Trace, i: int) -> Address:
    """Return the address of a row of the trace: as A has it, or as B has it, in A's steps, where only B does.

    What a run starts from, where the other was under way, has the address that it has in that run.
    """
    row_a, row_b = int(trace.row_a[i]), int(trace.row_b[i])
    if row_a >= 0 and starts_late(trace, i) != "B":
        return trace.a.address(row_a)
    of_b = trace.b.address(row_b)
    return replace(of_b, step=of_b.step + trace.offset_b)


def records_at(trace: Trace, i: int) -> tuple[TensorRecord | None, TensorRecord | None]:
    """Return the records of a row in A and in B, None where a run has none, with their own addresses."""
    row_a, row_b = int(trace.row_a[i]), int(trace.row_b[i])
    return (
        trace.a.record_at(row_a) if row_a >= 0 else None,
        trace.b.record_at(row_b) if row_b >= 0 else None,
    )


def place_at(trace: Trace, i: int) -> Place:
    """Return a row of the trace as a place of the result."""
    of_a, of_b = records_at(trace, i)
    side = Side.BOTH if of_a and of_b else Side.A if of_a else Side.B
    record = of_b if starts_late(trace, i) == "B" else of_a or of_b
    assert record is not None
    other = of_b.module_type if of_b and not starts_late(trace, i) else record.module_type
    return Place(
        address=address_at(trace, i),
        side=side,
        module_type=record.module_type,
        module_type_b=other if other != record.module_type else "",
        site=record.site,
    )


def types_at(trace: Trace, i: int) -> Sides | None:
    """Return element type and shape of a row in both runs; None where only one has it."""
    of_a, of_b = records_at(trace, i)
    return Sides(_type(of_a), _type(of_b)) if of_a and of_b else None


def values_at(trace: Trace, i: int) -> Sides | None:
    """Return the values of a row that holds one number, or one text, in both runs; None for any other."""
    of_a, of_b = records_at(trace, i)
    if of_a is None or of_b is None:
        return None
    a, b = _value(trace.a, of_a), _value(trace.b, of_b)
    return Sides(a, b) if a and b else None


def _type(record: TensorRecord) -> str:
    return "no tensor" if record.dtype == "none" else shape_text(record.dtype, record.shape)


def _value(file: RunFile, record: TensorRecord) -> str:
    """Return the value of a record that holds one number or one text; empty for any other."""
    kind = BY_NAME[record.dtype].kind
    if kind is Kind.OPAQUE:
        return _text(file, record)
    if any(size != 1 for size in record.shape):
        return ""
    tensor = file.tensor(record.row)
    if tensor is not None:
        from bisect_diverge.numerics.bits import decode

        return repr(decode(tensor, record.dtype).reshape(-1)[0].item())
    convert = {Kind.FLOAT: float, Kind.INTEGER: int, Kind.BOOL: bool}.get(kind)
    return repr(convert(record.value)) if convert else ""


def _text(file: RunFile, record: TensorRecord) -> str:
    tensor = file.tensor(record.row) if record.dtype == "bytes" and Flag.SCALAR in record.flags else None
    if tensor is None:
        return ""
    text = tensor.tobytes().decode("utf-8", "replace")
    return repr(text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "...")
