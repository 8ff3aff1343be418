"""Charts of a page as inline SVG: heat map, growth, histogram. Marks and words carry the meaning, colours only add."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bisect_diverge.report.html_page import e
from bisect_diverge.report.numbers_text import PARTS
from bisect_diverge.report.words import magnitude

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.model.findings import Growth, Heat, Numbers, StepDistance

WIDTH = 720
"""Width of the heat map, pixels; a narrow page scrolls it."""
PLOT = 520
"""Width of a plot, pixels: on a telephone it is scaled down and can still be read."""
LABEL = 190
"""Width of the column of module names."""
CHARACTERS = 27
"""Characters of a name in that column; longer ones lose their beginning, and a tooltip has all."""
CELL = 22
"""Height of a line of the heat map."""

LEVELS = ((0.0, "=", "h0"), (0.25, "·", "h1"), (0.5, "+", "h2"), (0.9999, "x", "h3"), (1.0, "#", "h4"))
"""Largest share of differing records, glyph and class of each level."""

LONG_COUNT = 10**9
"""Counts from here on are told by their magnitude."""

GLYPH_WIDTH = 9
"""Narrowest cell in which a glyph can be read."""

_DASHES = ("", "6 3", "2 3")


def heat_map(heat: Heat) -> str:
    """Return how much differs for each module (down) and step (across); empty where there is nothing."""
    if not heat.modules or not heat.steps:
        return ""
    width = min(44.0, (WIDTH - LABEL) / len(heat.steps))
    height = CELL * len(heat.modules) + 24
    body = [svg(WIDTH, height, "share of records that differ, for each module and step")]
    for line, name in enumerate(heat.modules):
        y = 20 + line * CELL
        short = name if len(name) <= CHARACTERS else f"…{name[1 - CHARACTERS :]}"
        body.append(f'<text class="mono" x="0" y="{y + 15}">{e(short)}<title>{e(name)}</title></text>')
        body += [_cell(heat, line, column, width, y) for column in range(len(heat.steps))]
    every = max(1, math.ceil(len(heat.steps) * 34 / (WIDTH - LABEL)))
    for column in range(0, len(heat.steps), every):
        body.append(f'<text class="soft" x="{LABEL + column * width:.1f}" y="14">{heat.steps[column][0]}</text>')
    more = (
        f'<p class="soft">{heat.left_out} more modules in which less differs are left out.</p>' if heat.left_out else ""
    )
    return f'<div class="wide">{"".join(body)}</svg></div>{_legend()}{more}'


def _cell(heat: Heat, line: int, column: int, width: float, y: int) -> str:
    share = heat.fraction(line, column)
    first, last = heat.steps[column]
    when = f"step {first}" if first == last else f"steps {first} to {last}"
    what = (
        f"{heat.differing[line][column]} of {heat.compared[line][column]} records differ" if share is not None else "-"
    )
    glyph, name = (
        next((glyph, name) for most, glyph, name in LEVELS if share <= most) if share is not None else ("", "hn")
    )
    x = LABEL + column * width
    mark = (
        f'<text class="on on{name[1]}" x="{x + width / 2:.1f}" y="{y + 15}">{glyph}</text>'
        if width >= GLYPH_WIDTH and glyph
        else ""
    )
    return (
        f'<g><title>{e(heat.modules[line])}, {when}: {what}</title><rect class="{name}" x="{x:.1f}" y="{y}" '
        f'width="{max(width - 1, 0.5):.1f}" height="{CELL - 1}"/>{mark}</g>'
    )


def _legend() -> str:
    words = ("all equal", "up to a quarter differs", "up to half", "more", "all differ")
    parts = [f"{glyph} {word}" for (_, glyph, _), word in zip(LEVELS, words, strict=True)]
    return f'<p class="soft">steps across, modules down: {e(" | ".join(parts))} | empty: not compared</p>'


def growth_plot(growth: Growth) -> str:
    """Return relative L2 distances over the steps on a logarithmic scale; empty where none is known."""
    curves = [(part, [(s.step, d) for s in growth.steps if (d := _length(s, part)) is not None]) for part in PARTS]
    values = [value for _, points in curves for _, value in points]
    if not values:
        return ""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    low, high = (low - 1, high) if low == high else (low, high)
    steps = [step.step for step in growth.steps]
    span = max(steps[-1] - steps[0], 1)

    def at(step: int, value: float) -> tuple[float, float]:
        return 60 + (step - steps[0]) / span * (PLOT - 90), 16 + (high - math.log10(value)) / (high - low) * 190

    body = [
        svg(PLOT, 264, "relative distance from A over the steps, logarithmic"),
        *_grid(low, high, steps[0], steps[-1]),
    ]
    for number, (part, points) in enumerate(curves):
        body += _curve(number, part, [at(*point) for point in points], points)
    return f"{''.join(body)}</svg>"


def _length(step: StepDistance, part: str) -> float | None:
    value: float | None = getattr(step, part).relative_l2
    return value if value is not None and value > 0 and math.isfinite(value) else None


def _grid(low: int, high: int, first: int, last: int) -> Iterator[str]:
    every = max(1, math.ceil((high - low) / 6))
    for power in range(low, high + 1, every):
        y = 16 + (high - power) / (high - low) * 190
        yield f'<line class="axis" x1="60" x2="{PLOT - 30}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="soft" x="4" y="{y + 4:.1f}">1e{power}</text>'
    yield f'<text class="soft" x="60" y="224">step {first}</text>'
    if last > first:
        yield f'<text class="soft" x="{PLOT - 30}" y="224" text-anchor="end">step {last}</text>'


def _curve(
    number: int, part: str, places: Sequence[tuple[float, float]], points: Sequence[tuple[int, float]]
) -> Iterator[str]:
    if not places:
        return
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dash = f' stroke-dasharray="{_DASHES[number]}"' if _DASHES[number] else ""
    yield f'<polyline class="curve s{number}"{dash} points="{path}"/>'
    if len(places) <= 60:
        for (x, y), (step, value) in zip(places, points, strict=True):
            yield (
                f'<circle class="f{number}" cx="{x:.1f}" cy="{y:.1f}" r="3">'
                f"<title>{part}, step {step}: {magnitude(value)}</title></circle>"
            )
    x = 60 + number * 150
    yield f'<line class="curve s{number}"{dash} x1="{x}" x2="{x + 34}" y1="248" y2="248"/>'
    yield f'<text x="{x + 42}" y="252">{part}</text>'


def ulp_histogram(numbers: Numbers) -> str:
    """Return how many elements are how far apart; empty where there is no distance."""
    buckets = numbers.ulp_histogram
    if not buckets:
        return ""
    largest = max(bucket.count for bucket in buckets)
    body = [svg(PLOT, CELL * len(buckets) + 4, "differing elements by ULP distance")]
    for line, bucket in enumerate(buckets):
        y = line * CELL
        low, high = _short(bucket.low), _short(bucket.high)
        label = low if low == high else f"{low} to {high}"
        width = max(2.0, bucket.count / max(largest, 1) * (PLOT - LABEL - 70))
        body.append(
            f'<text class="mono" x="0" y="{y + 15}">{label} ULP</text>'
            f'<rect class="f0" x="{LABEL}" y="{y + 3}" width="{width:.1f}" height="{CELL - 6}"/>'
            f'<text x="{LABEL + width + 6:.1f}" y="{y + 15}">{bucket.count}</text>'
        )
    return f"{''.join(body)}</svg>"


def _short(count: int) -> str:
    """Return a distance; of one that the column of names has no room for three digits."""
    return str(count) if count < LONG_COUNT else magnitude(count)


def svg(width: int, height: int, what: str) -> str:
    """Return the opening tag of a chart: its size in pixels, and what it shows for those who do not see it."""
    return f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="{e(what)}">'
