"""The result of a bisection as one HTML page that needs nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.model.trial import BisectVerdict
from bisect_diverge.report.bisection_next import next_lines
from bisect_diverge.report.bisection_parts import Row, repeat_commands, units
from bisect_diverge.report.bisection_proof import proofs
from bisect_diverge.report.bisection_table import HEAD, trial_rows
from bisect_diverge.report.bisection_text import verdict_sentence
from bisect_diverge.report.charts import ulp_histogram
from bisect_diverge.report.divergence_text import facts
from bisect_diverge.report.html_page import LONG_TABLE, bullets, command_list, e, long_table, page, pairs, section
from bisect_diverge.report.search_chart import search_chart
from bisect_diverge.report.words import whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.model.trial import Bisection

_LOOKS = {BisectVerdict.CAUSE: ("✓", "good"), BisectVerdict.NO_DIFFERENCE: ("=", "good")}
"""Glyph and look of a verdict; of all others ``?``."""


def bisection_html(bisection: Bisection, label_a: str, label_b: str, asked: Sequence[str] = ()) -> str:
    """Return the result of a bisection as an HTML document.

    Args:
        bisection: The result, whole or partial.
        label_a: The baseline as the user named it.
        label_b: The candidate as the user named it.
        asked: Options of ``bd bisect`` that it was found with, each in one word.
    """
    glyph, look = _LOOKS.get(bisection.verdict, ("?", "odd"))
    notes = section("Notes", [bullets(bisection.notes)])
    proved = bisection.verdict is BisectVerdict.CAUSE  # else the notes say why not
    body = [
        f'<h1 class="{look}">{glyph} {e(verdict_sentence(bisection))}</h1>',
        f'<p class="soft">A <code>{e(label_a)}</code> · B <code>{e(label_b)}</code></p>',
        *_proofs(bisection),
        *(f"<p>{e(line)}</p>" for line in next_lines(bisection, asked)),
        *(() if proved else notes),
        *section("What to run", [command_list(repeat_commands(bisection, label_a, label_b, asked))]),
        *section("The first divergence", _first(bisection)),
        *section("The search", [search_chart(bisection), _trials(bisection)]),
        *section("What differs, and what came of it", _units(bisection)),
        *(notes if proved else ()),
    ]
    return page(f"{bisection.verdict}: {label_a} and {label_b}", body)


def _proofs(bisection: Bisection) -> Iterator[str]:
    for proof in proofs(bisection):
        yield f"<h3>{e(proof.title)}</h3>" if proof.title else ""
        yield bullets(proof.lines)


def _first(bisection: Bisection) -> Iterator[str]:
    found = bisection.divergence
    if found is not None:
        yield pairs(facts(found), as_code=("address", "called"))
        many = found.tensor is not None and found.tensor.numel > 1
        yield ulp_histogram(found.numbers) if found.numbers and many else ""


def _trials(bisection: Bisection) -> str:
    rows = [(*row, trial.reason) for row, trial in zip(trial_rows(bisection), bisection.trials, strict=True)]
    return long_table((*HEAD, "why"), rows, "trial")


def _units(bisection: Bisection) -> Iterator[str]:
    """Yield a table of all, or where they are many one of what matters and one of the innocent."""
    found = list(units(bisection))
    innocent = set(bisection.innocent) if len(found) > LONG_TABLE else set()
    for rows, what in (
        ([row for row in found if row.unit not in innocent], "setting"),
        ([row for row in found if row.unit in innocent], "innocent setting"),
    ):
        yield long_table(("result", "layer", "knob", "A", "B", "why"), [_cells(row) for row in rows], what)


def _cells(row: Row) -> tuple[str, ...]:
    return row.result, str(row.unit.layer), row.unit.knob, whole(row.unit.a), whole(row.unit.b), row.reason
