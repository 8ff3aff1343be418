"""What the pane says of a line of the trace: from values to styled text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content

from bisect_diverge.model.divergence import ElementStatistics
from bisect_diverge.model.elements import shape_text
from bisect_diverge.model.record import Flag
from bisect_diverge.numerics.summary import Summary
from bisect_diverge.tui import states, words
from bisect_diverge.tui.comparison import Comparison
from bisect_diverge.tui.numbers import Values
from bisect_diverge.tui.records import Records, Row
from bisect_diverge.tui.source import Site
from bisect_diverge.tui.trace import Line

_LINKS = 8
"""Neighbours in the data flow that are listed; the number of the others is said."""

_FLAGS = {
    Flag.PARTIAL: "the step was cut short",
    Flag.HOOKED: "the module has hooks of its own, which may replace this output",
    Flag.SKIPPED: "the update was skipped by GradScaler",
    Flag.UNHASHABLE: "no readable bytes: only its kind was compared",
    Flag.ON_DEVICE: "its digest was made on an accelerator",
}


def styled(text: str, state: int) -> Content:
    """Return text in the colour of a state."""
    return Content.styled(text, f"$state-{states.LOOKS[state].name}")


def failure(why: str) -> list[Content]:
    """Return how a failed read is shown."""
    return [styled(f"! unreadable: {words.plain(why)}", states.UNREADABLE)]


def stretch(line: Line, comparison: Comparison) -> list[Content]:
    """Return what stands in the pane for a folded stretch."""
    step = comparison.step
    text = words.fold_of(line, int(step[line.index]), int(step[line.last]))
    return [styled(text, states.EQUAL), Content(""), Content("space unfolds them, d unfolds all")]


def head(row: Row, comparison: Comparison) -> list[Content]:
    """Return name, type, moment and state of a record: all that the index tells."""
    record = row.record
    if record is None:
        return failure(row.problem)
    address = record.address
    kind = f"   {words.plain(record.module_type)}" if record.module_type else ""
    out = [
        Content.styled(f"{words.name_of(address)}{kind}", "bold"),
        Content(f"{words.moment(address)}{words.SEPARATOR}call {address.call}"),
        Content(words.SEPARATOR.join([words.slot_of(address), f"{record.dtype} {list(record.shape)}"])),
        _state(row),
    ]
    flags = (row.a.flags if row.a else Flag(0)) | (row.b.flags if row.b else Flag(0))
    out += [Content(text) for flag, text in _FLAGS.items() if flag & flags]
    found = comparison.divergence
    if row.index == comparison.first and found.origin_reason:
        out.append(Content(words.plain(found.origin_reason)))
    return out


def _state(row: Row) -> Content:
    look = states.LOOKS[row.state]
    why = f": {words.plain(row.problem)}" if row.problem else ""
    if row.state == states.DIFFERS and row.a and row.b and row.reshaped:
        why = f": {shape_text(row.a.dtype, row.a.shape)} → {shape_text(row.b.dtype, row.b.shape)}"
    return styled(f"{look.glyph} {look.word}{why}", row.state)


def values_without_tensors(row: Row, width: int) -> list[Content]:
    """Return what can be said of the values when no tensor was kept."""
    cells = [_digests(row)]
    if row.a is not None and row.b is not None and not math.isnan(row.a.value):
        same = row.a.digest == row.b.digest
        cells.insert(0, _Cells("value", words.magnitude(row.a.value), words.magnitude(row.b.value), same=same))
    out = _table(cells, width)
    kept = [side for side, record in (("A", row.a), ("B", row.b)) if record is not None and not record.kept]
    if kept and not row.problem:
        out += [Content(""), Content(f"only a digest was kept in {' and '.join(kept)}")]
    return out


def values(row: Row, found: Values, width: int) -> list[Content]:
    """Return the table of A and B, and how their elements differ."""
    out = _table([*_summaries(found.a, found.b, width), _digests(row)], width)
    note = _missing(row, found)
    if note:
        out += [Content(""), Content(note)]
    if found.statistics is not None and found.statistics.differing:
        out += [Content(""), *_elements(found, width)]
    return out


@dataclass(frozen=True, slots=True)
class _Cells:
    """One line of the table of A and B."""

    label: str
    a: str
    b: str
    same: bool


def _digests(row: Row) -> _Cells:
    a, b = ("" if record is None else f"{record.digest[:4]}…{record.digest[-4:]}" for record in (row.a, row.b))
    return _Cells("digest", a, b, same=row.a is not None and row.b is not None and row.a.digest == row.b.digest)


def _summaries(a: Summary | None, b: Summary | None, width: int) -> list[_Cells]:
    """Return smallest, largest, mean and the counts of what is no number."""
    if a is None and b is None:
        return []
    digits = 8 if width >= 44 else 6
    lines = zip(("min", "max", "mean", "nan/inf"), _parts(a), _parts(b), strict=True)
    return [_Cells(label, _text(x, digits), _text(y, digits), same=x == y) for label, x, y in lines]


_Part = tuple[float | int | None, ...]


def _parts(summary: Summary | None) -> list[_Part]:
    """Return the numbers of each line of the table."""
    if summary is None:
        return [()] * 4
    return [(summary.minimum,), (summary.maximum,), (summary.mean,), (summary.nan, summary.inf)]


def _text(part: _Part, digits: int) -> str:
    """Return the numbers of a line; empty where there are none, ``-`` for one that does not exist."""
    return " / ".join(
        "-" if value is None else words.compact(value, 6) if isinstance(value, int) else f"{value:.{digits}g}"
        for value in part
    )


def _missing(row: Row, found: Values) -> str:
    if row.reshaped:
        return "no comparison by element: dtype or shape differ"
    missing = [side for side, r, s in (("A", row.a, found.a), ("B", row.b, found.b)) if r is not None and s is None]
    return f"only a digest was kept in {' and '.join(missing)}" if missing else ""


def _elements(found: Values, width: int) -> list[Content]:
    statistics = found.statistics
    if statistics is None:
        return []
    out = [Content(_differing(statistics, width)), Content(f"the first at {list(statistics.first_index)}")]
    if statistics.max_ulp:
        out.append(Content(f"at most {words.compact(statistics.max_ulp, width - 12)} ULP"))
    if statistics.max_abs is not None:
        relative = "" if statistics.max_rel is None else f"   relative ≤ {statistics.max_rel:.2g}"
        out.append(Content(f"|Δ| ≤ {statistics.max_abs:.2g}{relative}"))
    if found.histogram:
        out += _packed("ULP", [f"{label}: {words.compact(n, 7)}" for label, n in found.histogram], width)
    if statistics.signature:
        out.append(Content(f"pattern: {words.plain(statistics.signature)}?"))
    return out


def _differing(found: ElementStatistics, width: int) -> str:
    """Return how many elements differ, no number broken at the end of a line."""
    text = f"{words.count(found.differing)} of {words.plural(found.numel, 'element')} differ"
    if len(text) <= width:
        return text
    return f"{words.compact(found.differing, 7)} of {words.compact(found.numel, 7)} differ"


def _packed(head: str, parts: Sequence[str], width: int) -> list[Content]:
    """Return parts after a head, as many on a line as it holds; none is broken."""
    blank, lines = " " * len(head), [head]
    for part in parts:
        if len(lines[-1]) + 2 + len(part) > width and lines[-1].strip() not in ("", head):
            lines.append(blank)
        lines[-1] += f"  {part}"
    return [Content(line) for line in lines]


def _table(rows: list[_Cells], width: int) -> list[Content]:
    """Return lines of label, A, B and whether both are the same."""
    room = max(10, min(15, (width - 11) // 2))
    out = [Content(f"{'':8}{'A':{room}} {'B':{room}}")]
    for row in rows:
        state = states.EQUAL if row.same else states.DIFFERS
        glyph = styled(states.LOOKS[state].glyph, state) if row.a and row.b else Content("")
        a, b = words.fit(row.a or "-", room), words.fit(row.b or "-", room)
        out.append(Content.assemble(f"{row.label:8}{a} {b} ", glyph))
    return out


def links(producers: Sequence[int], consumers: Sequence[int], records: Records, width: int) -> list[Content]:
    """Return the neighbours in the data flow, one a line of at most `width` cells."""
    lines = [*_links("in ", producers, records, width), *_links("out", consumers, records, width)]
    return lines or [Content("none known")]


def _links(word: str, indices: Sequence[int], records: Records, width: int) -> list[Content]:
    out = []
    for index in indices[:_LINKS]:
        row = records.at(index)
        look = states.LOOKS[row.state]
        record = row.record
        name = row.problem
        if record is not None:
            name = f"{words.name_of(record.address)}  {words.slot_of(record.address)}"
        name = words.shorten_left(words.plain(name), max(20, width - 6))
        out.append(Content.assemble(f"{word} ", styled(f"{look.glyph} ", row.state), name))
    if len(indices) > _LINKS:
        out.append(Content(f"{word} … {len(indices) - _LINKS} more"))
    return out


def source(site: Site | None) -> list[Content]:
    """Return the source line: where, and what the file says there now."""
    if site is None:
        return [Content("not known")]
    text = site.text()
    where = Content(words.plain(f"{site.path}:{site.line}"))
    if text is None:
        return [where, Content.styled("this line is not here", "$state-equal")]
    return [where, Content(f"> {words.plain(text)}")]
