"""The view as a file: the verdict and the lines as they are folded and filtered now."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bisect_diverge.errors import OutputExistsError, UsageError
from bisect_diverge.tui import states, words
from bisect_diverge.tui.comparison import Comparison
from bisect_diverge.tui.records import Records, Row
from bisect_diverge.tui.trace import Line, Trace
from bisect_diverge.tui.widgets import verdict_bar

MOST_LINES = 10_000
"""Lines that are written; a file says how many are left out."""

_WIDTH = 120
"""Cells of a line of text."""


@dataclass(frozen=True, slots=True)
class View:
    """What is exported."""

    comparison: Comparison
    """The two runs."""
    records: Records
    """Their records."""
    trace: Trace
    """The lines."""
    command: str
    """The command that prints the comparison."""

    def lines(self) -> Iterator[Line]:
        """Yield the lines, at most `MOST_LINES`."""
        return (self.trace.line(number) for number in range(min(len(self.trace), MOST_LINES)))

    def left_out(self) -> str:
        """Return what is said of the lines that are not written; empty when all are."""
        more = len(self.trace) - MOST_LINES
        return f"{words.plural(more, 'more line')} not written; {self.command} has them" if more > 0 else ""

    def fold(self, line: Line) -> str:
        """Return the text of a folded stretch."""
        step = self.comparison.step
        return words.fold_of(line, int(step[line.index]), int(step[line.last]))

    def row(self, line: Line) -> tuple[Row, str]:
        """Return a record and its last column."""
        row = self.records.at(line.index)
        return row, words.detail_of(row, self.records.statistics(line.index))


def check(path: Path, suffixes: tuple[str, ...]) -> None:
    """Raise UsageError for a name without one of the suffixes, OutputExistsError for a file that is there."""
    if path.suffix not in suffixes:
        raise UsageError(f"the name has to end with one of {' '.join(suffixes)}")
    if path.exists():
        raise OutputExistsError(f"{path} is there already")


def text(view: View) -> str:
    """Return the view as plain text."""
    first, second = verdict_bar.lines(view.comparison.divergence, _WIDTH)
    out = [f"A {view.comparison.label_a}", f"B {view.comparison.label_b}", first, second, view.command, ""]
    layout = words.Layout(_WIDTH, 12)
    for line in view.lines():
        if line.folded:
            out.append(f"    {view.fold(line)}")
        else:
            row = view.records.at(line.index)
            glyph, rest = layout.cells(row, view.records.statistics(line.index), ranks=True)
            out.append(f"  {glyph} {rest}")
    return "\n".join(part.rstrip() for part in [*out, view.left_out()]).rstrip() + "\n"


def markdown(view: View) -> str:
    """Return the view as a Markdown table."""
    first, second = verdict_bar.lines(view.comparison.divergence, 10_000)
    out = [f"A `{view.comparison.label_a}`, B `{view.comparison.label_b}`: `{view.command}`", ""]
    out += [f"**{first}**", "", second.strip(), "", "| | address | detail |", "|---|---|---|"]
    for line in view.lines():
        if line.folded:
            out.append(f"| = | | {view.fold(line)} |")
            continue
        row, detail = view.row(line)
        address = "" if row.record is None else f"`{row.record.address}`"
        cells = [states.LOOKS[row.state].glyph, address.replace("|", r"\|"), detail.replace("|", r"\|")]
        out.append(f"| {' | '.join(cells)} |")
    return "\n".join([*out, "", view.left_out()]).rstrip() + "\n"


def as_json(view: View) -> str:
    """Return the view as JSON: what `bd diff --format json` prints, and the lines."""
    lines = [_json_line(view, line) for line in view.lines()]
    document = {
        "a": view.comparison.label_a,
        "b": view.comparison.label_b,
        "divergence": view.comparison.divergence.to_json(),
        "lines": lines,
        "lines_left_out": max(0, len(view.trace) - MOST_LINES),
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _json_line(view: View, line: Line) -> dict[str, Any]:
    if line.folded:
        return {"state": "equal", "records": line.count, "ignored": line.ignored}
    row, detail = view.row(line)
    address = None if row.record is None else str(row.record.address)
    return {"state": states.LOOKS[row.state].word, "address": address, "detail": detail}


FORMATS: dict[str, Callable[[View], str]] = {".txt": text, ".md": markdown, ".json": as_json}
"""Suffix to how the view is written; `.svg` is a picture of the screen and made by the screen itself."""

SUFFIXES = (*FORMATS, ".svg")
"""What the name of an exported file may end with."""
