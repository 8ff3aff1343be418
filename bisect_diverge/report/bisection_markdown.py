"""The result of a bisection as Markdown that fits a comment on a pull request."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from bisect_diverge.report.bisection_next import next_lines
from bisect_diverge.report.bisection_parts import repeat_commands, units
from bisect_diverge.report.bisection_proof import proofs
from bisect_diverge.report.bisection_table import HEAD, trial_rows
from bisect_diverge.report.bisection_text import kind_lines, verdict_sentence
from bisect_diverge.report.markdown import block, code, details, setting, table, text
from bisect_diverge.report.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.model.trial import Bisection

LISTED = 50
"""Rows of a table; the rest is counted."""


def bisection_markdown(bisection: Bisection, label_a: str, label_b: str, asked: Sequence[str] = ()) -> str:
    """Return the result of a bisection as Markdown, without a line end.

    Args:
        bisection: The result, whole or partial.
        label_a: The baseline as the user named it.
        label_b: The candidate as the user named it.
        asked: Options of ``bd bisect`` that it was found with, each in one word.
    """
    rows = [
        (
            text(row.result),
            code(f"{row.unit.layer} {row.unit.knob}"),
            setting(row.unit.a),
            setting(row.unit.b),
            text(row.reason),
        )
        for row in units(bisection)
    ]
    found = groupby(repeat_commands(bisection, label_a, label_b, asked), key=lambda row: row[0])
    commands = [line for what, same in found for line in (f"# {what}", *(command for _, command in same))]
    lines = [
        f"**{text(verdict_sentence(bisection))}**",
        "",
        f"A {code(label_a)}, B {code(label_b)}",
        "",
        *_proof(bisection, asked),
        *(["", *table(("", "what differs", "A", "B", "why"), rows[:LISTED])] if rows else []),
        *(["", f"... {len(rows) - LISTED} more"] if len(rows) > LISTED else []),
        *details(plural(len(bisection.trials), "trial"), _trials(bisection)),
        *details("notes", [f"* {text(note)}" for note in bisection.notes]),
        *details("commands", block(commands)),
    ]
    return "\n".join(lines)


def _proof(bisection: Bisection, asked: Sequence[str]) -> Iterator[str]:
    """Yield the proof of each cause, the kind of the difference, and what to do next."""
    for proof in proofs(bisection):
        yield from (f"* {text(proof.title)}",) if proof.title else ()
        yield from (f"{'  ' if proof.title else ''}* {text(line)}" for line in proof.lines)
    yield from (f"* {text(line)}" for line in kind_lines(bisection))
    yield from (f"* {text(line)}" for line in next_lines(bisection, asked))


def _trials(bisection: Bisection) -> Iterator[str]:
    if bisection.trials:
        rows = zip(trial_rows(bisection), bisection.trials, strict=True)
        yield from table((*HEAD, "why"), [(*map(text, row), text(trial.reason)) for row, trial in rows])
