"""Whether recording changed a command, as text for people."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bisect_diverge.model.neutrality import NUMBER_OF_LINES, Finding, Neutral
from bisect_diverge.report.words import Paint, plain, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bisect_diverge.model.neutrality import Change, Item, Neutrality

MOST_NAMED = 4
"""Parts of one thing that are named."""
LONGEST = 72
"""Characters of a value that are shown."""
SHOWN = 8
"""Characters of a digest that are shown."""

_DIGEST = re.compile(r"(?:xxh3:)?([0-9a-f]{32})")

_LOOKS = {Finding.EQUAL: "good", Finding.CHANGED: "bad", Finding.UNREPEATABLE: "bad", Finding.NOT_COMPARED: ""}
_PARTS = {
    "standard output": ("line", "lines"),
    "standard error": ("line", "lines"),
    "exit status": ("", ""),
    "updates": ("", ""),
    "graph breaks": ("", ""),
    "files written": ("file", "files"),
}
"""Thing to the noun for its parts; empty: it has only one."""


def neutral_text(neutrality: Neutrality, *, paint: Paint = plain) -> str:
    """Return what was found, without a line end.

    Args:
        neutrality: What was found.
        paint: Gives the verdict and the findings a look.
    """
    lines = [paint(_sentence(neutrality), "good" if neutrality.verdict is Neutral.NEUTRAL else "bad")]
    for item in neutrality.items:
        lines += _item(item, paint)
    runs = ", ".join(f"{run.capture or 'unrecorded'} {run.seconds:.1f} s" for run in neutrality.runs)
    lines.append(f"{len(neutrality.runs)} runs: {runs}")
    return "\n".join(lines)


def _sentence(neutrality: Neutrality) -> str:
    by_finding = {finding: [i.name for i in neutrality.items if i.finding is finding] for finding in Finding}
    if neutrality.verdict is Neutral.CHANGED:
        return f"recording changes this run: {', '.join(by_finding[Finding.CHANGED])}"
    if neutrality.verdict is Neutral.INCONCLUSIVE:
        bits = [i.name for i in neutrality.items if i.finding is Finding.UNREPEATABLE and i.bits]
        return f"the command does not repeat itself unrecorded, so nothing can be said of: {', '.join(bits)}"
    if by_finding[Finding.UNREPEATABLE]:
        return "recording does not change this run, as far as the run repeats itself"
    return "recording does not change this run"


def _item(item: Item, paint: Paint) -> Iterator[str]:
    yield f"  {paint(f'{item.finding:<24}', _LOOKS[item.finding])}{item.name:<18}{_count(item)}".rstrip()
    for change in item.changed[:MOST_NAMED]:
        yield from _change(change)
    if len(item.changed) > MOST_NAMED:
        yield f"      and {len(item.changed) - MOST_NAMED} more"
    if item.unrepeatable and any(item.unrepeatable):
        named = ", ".join(printable(part) for part in item.unrepeatable[:MOST_NAMED])
        more = len(item.unrepeatable) - MOST_NAMED
        yield f"      differs between two unrecorded runs: {named}{f' and {more} more' if more > 0 else ''}"


def _count(item: Item) -> str:
    if item.reason:
        return item.reason
    if NUMBER_OF_LINES in (*item.unrepeatable, *(change.part for change in item.changed)):
        return ""
    one, many = _PARTS.get(item.name, ("", "parts"))
    if not many:
        return ""
    total = item.equal + len(item.changed) + len(item.unrepeatable)
    noun = one if total == 1 and one else "" if many == "parts" else many
    if item.equal == total:
        return f"{total} {noun}".rstrip()
    return f"{item.equal} of {total} {noun} equal".replace("  ", " ")


def _change(change: Change) -> Iterator[str]:
    yield f"      {printable(change.part) or 'it'}"
    yield f"        unrecorded: {_value(change.unrecorded)}"
    yield f"        recorded:   {_value(change.recorded)}"


def _value(text: str | None) -> str:
    if text is None:
        return "(not there)"
    text = printable(text)
    if digest := _DIGEST.fullmatch(text):
        return digest[1][:SHOWN]
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
