"""The result of a comparison as Markdown that fits a comment on a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.report.commands import commands
from bisect_diverge.report.divergence_text import facts, origins, verdict_sentence
from bisect_diverge.report.markdown import block, code, details, setting, table, text
from bisect_diverge.report.numbers_text import PARTS, distance_text, listed_steps
from bisect_diverge.report.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bisect_diverge.model.divergence import Divergence
    from bisect_diverge.model.environment import Difference

LISTED = 20
"""Rows of a table; the rest is counted."""

_AS_CODE = ("address", "called")


def divergence_markdown(divergence: Divergence, label_a: str, label_b: str, options: tuple[str, ...] = ()) -> str:
    """Return the result of a comparison as Markdown, without a line end.

    Args:
        divergence: The result.
        label_a: The baseline as the user named it.
        label_b: The candidate as the user named it.
        options: Options of ``bd diff`` that it was made with, as they are typed.
    """
    lines = [
        f"**{text(verdict_sentence(divergence))}**",
        "",
        f"A {code(label_a)}, B {code(label_b)}",
        "",
        *table(("", ""), _facts(divergence)),
        *_environment(divergence),
        *details("origins in that step", _origins(divergence)),
        *details("distance from A in each step", _growth(divergence)),
        *details("what has no partner", _unpaired(divergence)),
        *details("notes", [f"* {text(note)}" for note in divergence.notes]),
        *details("commands", block(command for _, command in commands(divergence, label_a, label_b, options))),
    ]
    return "\n".join(lines)


def _facts(divergence: Divergence) -> Iterator[tuple[str, str]]:
    return ((label, code(fact) if label in _AS_CODE else text(fact)) for label, fact in facts(divergence) if fact)


def _environment(divergence: Divergence) -> Iterator[str]:
    if divergence.environment:
        yield from ("", "**What differs in the environment**", "")
        yield from table(("layer", "knob", "A", "B"), map(_difference, divergence.environment[:LISTED]))
        more = len(divergence.environment) - LISTED
        yield from ("", f"... {more} more") if more > 0 else ()


def _difference(row: Difference) -> tuple[str, str, str, str]:
    return text(row.layer), code(row.knob), setting(row.a), setting(row.b)


def _origins(divergence: Divergence) -> Iterator[str]:
    found = origins(divergence)
    yield from (f"* {code(str(address))}" for address in found[:LISTED])
    if len(found) > LISTED:
        yield f"* ... {len(found) - LISTED} more"


def _growth(divergence: Divergence) -> Iterator[str]:
    if divergence.growth is None or not divergence.growth.steps:
        return
    steps, shown = divergence.growth.steps, listed_steps(divergence.growth)
    rows = [(str(step.step), *(text(distance_text(getattr(step, part))) for part in PARTS)) for step in shown]
    yield from table(("step", *(f"{part}: ULP, L2" for part in PARTS)), rows)
    if len(shown) < len(steps):
        yield from ("", f"{plural(len(steps) - len(shown), 'step')} between them left out")


def _unpaired(divergence: Divergence) -> Iterator[str]:
    if divergence.unpaired:
        rows = [
            (text(entry.why), str(entry.only_in_a), str(entry.only_in_b), code(str(entry.first)))
            for entry in divergence.unpaired
        ]
        yield from table(("records that", "only in A", "only in B", "the first"), rows)
