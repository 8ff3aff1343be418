"""The result of a bisection as one HTML page that needs nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.model.trial import BisectVerdict
from bisect_diverge.report.bisection_parts import answer, repeat_commands, trial_row, units
from bisect_diverge.report.html_page import bullets, command_list, e, page, section, table
from bisect_diverge.report.words import whole

if TYPE_CHECKING:
    from bisect_diverge.model.trial import Bisection

_LOOKS = {BisectVerdict.CAUSE: ("✓", "good"), BisectVerdict.NO_DIFFERENCE: ("=", "good")}
"""Glyph and look of a verdict; of all others ``?``."""


def bisection_html(bisection: Bisection, label_a: str, label_b: str) -> str:
    """Return the result of a bisection as an HTML document.

    Args:
        bisection: The result, whole or partial.
        label_a: The baseline as the user named it.
        label_b: The candidate as the user named it.
    """
    verdict, proof = answer(bisection, label_a, label_b)
    glyph, look = _LOOKS.get(bisection.verdict, ("?", "odd"))
    rows = [
        (row.result, str(row.unit.layer), row.unit.knob, whole(row.unit.a), whole(row.unit.b), row.reason)
        for row in units(bisection)
    ]
    wholes = [unit for unit, _ in bisection.taken_apart]
    trials = [trial_row(trial, wholes) for trial in bisection.trials]
    body = [
        f'<h1 class="{look}">{glyph} {e(verdict)}</h1>',
        f'<p class="soft">A <code>{e(label_a)}</code> · B <code>{e(label_b)}</code></p>',
        bullets(proof),
        *section("What differs, and what came of it", [table(("", "layer", "knob", "A", "B", "why"), rows)]),
        *section("Trials", [table(("n", "configuration", "outcome", "seconds"), trials)]),
        *section("Notes", [bullets(bisection.notes)]),
        *section("Commands", [command_list(repeat_commands(bisection, label_a, label_b))]),
    ]
    return page(f"{bisection.verdict}: {label_a} and {label_b}", body)
