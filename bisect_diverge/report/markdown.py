"""Markdown for comments of code hosts: texts of any origin that render as themselves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bisect_diverge.report.words import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

LONGEST = 200
"""Characters of a cell that are shown."""

_ACTIVE = re.compile(r"([\\`*_\[\]<>#|~@&$])")


def text(value: str) -> str:
    """Return a text in which nothing is markup, a link, a mention or HTML."""
    return _ACTIVE.sub(
        lambda match: f"&#{ord(match[1])};" if match[1] in "<>&@|$" else f"\\{match[1]}", printable(value)
    )


def code(value: str) -> str:
    """Return a text as a code span that also fits into a cell of a table; what is cut off is counted."""
    value = printable(value)
    more = len(value) - LONGEST
    value = f"{value[:LONGEST]}... ({more} more)" if more > 0 else value
    if not value:
        return ""
    ticks = "`" * (max((len(run) for run in re.findall("`+", value)), default=0) + 1)
    pad = " " if value.startswith("`") or value.endswith("`") else ""
    return f"{ticks}{pad}{value}{pad}{ticks}".replace("|", "\\|")


def setting(value: str | None) -> str:
    """Return the value of a setting as a cell."""
    return "(not set)" if value is None else code(value) or '""'


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table of cells that are Markdown already."""
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def details(summary: str, lines: Iterable[str]) -> Iterator[str]:
    """Yield a block that is folded until a reader opens it; nothing if it would be empty."""
    body = list(lines)
    if body:
        yield from ("", f"<details><summary>{text(summary)}</summary>", "", *body, "", "</details>")


def block(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines of commands as a block of code."""
    body = [printable(line) for line in lines]
    ticks = "`" * max(3, max((len(run) for line in body for run in re.findall("`+", line)), default=0) + 1)
    yield from (f"{ticks}sh", *body, ticks)
