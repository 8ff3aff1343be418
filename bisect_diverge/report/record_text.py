"""One record of a run, or a list of matching records, as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.model.elements import shape_text
from bisect_diverge.report.record_detail import flag_names, holds_number
from bisect_diverge.report.words import plural, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.model.record import TensorRecord
    from bisect_diverge.numerics.summary import Summary
    from bisect_diverge.report.record_detail import Matches, RecordDetail


def record_text(details: Sequence[RecordDetail]) -> str:
    """Return records as text, without a line end."""
    return "\n".join(line for detail in details for line in _lines(detail))


def matches_text(found: Matches) -> str:
    """Return matching records as text, one a line; what is not shown is counted."""
    lines = [
        f"{printable(str(record.address))}  {_type(record)}  {record.digest}{_value(record)}" for record in found.shown
    ]
    if not found.total:
        lines.append("no record matches")
    elif found.total > len(found.shown):
        lines.append(f"... {found.total - len(found.shown)} more (--limit shows more, --step and --match narrow it)")
    return "\n".join(lines)


def _lines(detail: RecordDetail) -> Iterator[str]:
    record = detail.record
    yield printable(str(record.address))
    yield f"  row       {record.row}"
    yield f"  tensor    {_type(record)} ({record.dtype})"
    yield f"  digest    {record.digest}"
    if record.module_type:
        yield f"  module    {printable(record.module_type)}"
    if record.site:
        yield f"  called    {printable(record.site)}"
    if record.flags:
        yield f"  flags     {', '.join(flag_names(record.flags))}"
    if detail.source is not None:
        yield f"  same as   {printable(str(detail.source))} (the same tensor, or one it is a view of)"
    if holds_number(record):
        yield f"  value     {record.value!r}"
    if detail.summary is None:
        yield "  values    not kept, only the digest"
        return
    yield f"  summary   {_summary(detail.summary)}"
    more = detail.summary.numel - len(detail.values)
    tail = f" ... {more} more" if more else ""
    yield f"  values    {', '.join(detail.values)}{tail}"


def _value(record: TensorRecord) -> str:
    return f"  {record.value!r}" if holds_number(record) else ""


def _type(record: TensorRecord) -> str:
    return shape_text(record.dtype, record.shape)


def _summary(summary: Summary) -> str:
    parts = [plural(summary.numel, "element")]
    if summary.minimum is not None:
        parts.append(f"min {summary.minimum:.6g}, max {summary.maximum:.6g}, mean {summary.mean:.6g}")
    parts += [f"{count} {name}" for count, name in ((summary.nan, "nan"), (summary.inf, "inf")) if count]
    return ", ".join(parts)
