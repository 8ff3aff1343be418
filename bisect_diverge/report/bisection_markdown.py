"""The result of a bisection as Markdown that fits a comment on a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.report.bisection_parts import answer, repeat_commands, trial_row, units
from bisect_diverge.report.markdown import block, code, details, setting, table, text
from bisect_diverge.report.words import plural

if TYPE_CHECKING:
    from bisect_diverge.model.trial import Bisection


def bisection_markdown(bisection: Bisection, label_a: str, label_b: str) -> str:
    """Return the result of a bisection as Markdown, without a line end.

    Args:
        bisection: The result, whole or partial.
        label_a: The baseline as the user named it.
        label_b: The candidate as the user named it.
    """
    verdict, proof = answer(bisection, label_a, label_b)
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
    wholes = [unit for unit, _ in bisection.taken_apart]
    trials = [tuple(map(text, trial_row(trial, wholes))) for trial in bisection.trials]
    commands = [
        line for what, command in repeat_commands(bisection, label_a, label_b) for line in (f"# {what}", command)
    ]
    lines = [
        f"**{text(verdict)}**",
        "",
        f"A {code(label_a)}, B {code(label_b)}",
        "",
        *(f"* {text(line)}" for line in proof),
        *(["", *table(("", "what differs", "A", "B", "why"), rows)] if rows else []),
        *details(
            plural(len(trials), "trial"), table(("n", "configuration", "outcome", "seconds"), trials) if trials else ()
        ),
        *details("notes", [f"* {text(note)}" for note in bisection.notes]),
        *details("commands", block(commands)),
    ]
    return "\n".join(lines)
