"""The result of a comparison as one HTML page that needs nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.model.divergence import Verdict
from bisect_diverge.report.charts import growth_plot, heat_map, ulp_histogram
from bisect_diverge.report.commands import commands
from bisect_diverge.report.divergence_text import facts, origins, verdict_sentence
from bisect_diverge.report.html_page import bullets, command_list, e, page, pairs, section, table
from bisect_diverge.report.numbers_text import PARTS, distance_text, growth_sentence
from bisect_diverge.report.words import whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.model.divergence import Divergence
    from bisect_diverge.model.environment import Difference, Layer

LISTED = 200
"""Rows of a table; the rest is counted."""

_LOOKS = {Verdict.EQUAL: "good", Verdict.EQUAL_SO_FAR: "good", Verdict.DIVERGED: "bad", Verdict.NOT_COMPARABLE: "odd"}


def divergence_html(divergence: Divergence, label_a: str, label_b: str, options: tuple[str, ...] = ()) -> str:
    """Return the result of a comparison as an HTML document.

    Args:
        divergence: The result.
        label_a: The baseline as the user named it.
        label_b: The candidate as the user named it.
        options: Options of ``bd diff`` that it was made with, as they are typed.
    """
    body = [
        f'<h1 class="{_LOOKS[divergence.verdict]}">{e(verdict_sentence(divergence))}</h1>',
        f'<p class="soft">A <code>{e(label_a)}</code> · B <code>{e(label_b)}</code></p>',
        pairs(facts(divergence), as_code=("address", "called")),
        *section("Origins in that step", [bullets(map(str, origins(divergence)[:LISTED]))]),
        *section("What differs, by module and step", [heat_map(divergence.heat) if divergence.heat else ""]),
        *section("How the difference grows", _growth(divergence)),
        *section("ULP distance of the first tensor", [ulp_histogram(divergence.numbers) if divergence.numbers else ""]),
        *section("What differs in the environment", _environment(divergence)),
        *section("What has no partner", [_unpaired(divergence)]),
        *section("Notes", [bullets(divergence.notes)]),
        *section("Commands", [command_list(commands(divergence, label_a, label_b, options))]),
    ]
    return page(f"{divergence.verdict}: {label_a} and {label_b}", body)


def _growth(divergence: Divergence) -> Iterator[str]:
    growth = divergence.growth
    if growth is None:
        return
    yield f"<p>{e(growth_sentence(growth))}</p>"
    yield growth_plot(growth)
    rows = [(str(step.step), *(distance_text(getattr(step, part)) for part in PARTS)) for step in growth.steps[:LISTED]]
    inside = table(("step", *(f"{part}: ULP, relative L2" for part in PARTS)), rows)
    yield f"<details><summary>the numbers</summary>{inside}</details>" if inside else ""


def _environment(divergence: Divergence) -> Iterator[str]:
    rows = list(_differences(divergence.environment[:LISTED]))
    yield table(("layer", "knob", "A", "B"), rows)
    if divergence.verdict is Verdict.DIVERGED and not rows:
        yield "<p>Nothing that was recorded differs.</p>"
    if len(divergence.environment) > LISTED:
        yield f"<p>{len(divergence.environment) - LISTED} more: bd env lists all.</p>"


def _differences(differences: Sequence[Difference]) -> Iterator[tuple[str, str, str, str]]:
    shown: set[tuple[Layer, str]] = set()
    for row in differences:
        yield str(row.layer), row.knob, whole(row.a), whole(row.b)
        for inner in row.resolved:
            if (inner.layer, inner.knob) not in shown:  # below the first input that may explain it
                yield "", f"↳ {inner.knob}", whole(inner.a), whole(inner.b)
        shown.update((inner.layer, inner.knob) for inner in row.resolved)


def _unpaired(divergence: Divergence) -> str:
    rows = [
        (entry.why, str(entry.only_in_a), str(entry.only_in_b), str(entry.first), ", ".join(entry.modules))
        for entry in divergence.unpaired
    ]
    return table(("records that", "only in A", "only in B", "the first", "most in"), rows)
