"""A chart of a search: what had B's value in each trial, what the bits were, and how long it took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bisect_diverge.model.trial import Outcome
from bisect_diverge.report.charts import CELL, CHARACTERS, LABEL, svg
from bisect_diverge.report.html_page import e
from bisect_diverge.report.words import change, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.model.trial import Bisection, Trial, Unit

COLUMN = 40
"""Width of a trial, pixels."""
MOST_LINES = 40
"""Lines of units that are drawn; the rest is counted."""
MARKS = {
    Outcome.A: ("=A", "h0"),
    Outcome.B: ("=B", "h4"),
    Outcome.OTHER: ("≠", "h3"),
    Outcome.SKIP: ("!", "hn"),
    Outcome.FLAKY: ("?", "hn"),
}
"""What stands for an outcome, and the class of its cell."""
LEGEND = (
    "trials across, in the order in which they were made; what differs down. B: it has B's value there; ·: A's. "
    "Bits: =A A's, =B B's, ≠ neither's, ! did not run, ? not repeatable. * has a part in the divergence."
)


@dataclass(frozen=True, slots=True)
class _Line:
    """Units that have the same side in every trial."""

    units: tuple[Unit, ...]
    inside: tuple[bool, ...]
    """For each trial, whether they have B's value."""
    guilty: bool

    @property
    def name(self) -> str:
        """The first of them, and how many more there are."""
        more = f" +{len(self.units) - 1}" if len(self.units) > 1 else ""
        room = CHARACTERS - len(more) - 2 * self.guilty
        knob = self.units[0].knob
        short = knob if len(knob) <= room else f"…{knob[1 - room :]}"
        return f"{'* ' if self.guilty else ''}{short}{more}"


def search_chart(bisection: Bisection) -> str:
    """Return the trials of a search as an inline SVG with its legend; empty where there are none.

    Units that were never told apart share a line, so that a search among hundreds is as high as it was hard.
    """
    trials = bisection.trials
    if not trials:
        return ""
    lines = _lines(bisection)
    shown = lines[:MOST_LINES]
    width, height = LABEL + COLUMN * len(trials), CELL * (len(shown) + 3) + 4
    body = [svg(width, height, f"what had B's value in each of {plural(len(trials), 'trial')}, and the outcome")]
    body += _row(0, "trial", [(str(trial.n), "", _title(trial)) for trial in trials])
    for at, line in enumerate(shown, 1):
        cells = [("B", "h2", "") if inside else ("·", "h0", "") for inside in line.inside]
        body += _row(at, line.name, cells, tip="; ".join(change(unit) for unit in line.units[:MOST_LINES]))
    body += _row(len(shown) + 1, "bits", [(*MARKS[trial.outcome], _title(trial)) for trial in trials])
    body += _row(len(shown) + 2, "seconds", [(_seconds(trial), "", "") for trial in trials])
    left = len(lines) - len(shown)
    more = f" {plural(left, 'more line')} of units left out." if left else ""
    return f'<div class="wide">{"".join(body)}</svg></div><p class="soft">{e(LEGEND + more)}</p>'


def _lines(bisection: Bisection) -> list[_Line]:
    """Return the units of the search in the order in which they came in, those never told apart together."""
    sets = [frozenset(trial.swapped) for trial in bisection.trials]
    guilty = {unit for cause in bisection.causes for unit in cause.units}
    groups: dict[tuple[bool, tuple[bool, ...]], list[Unit]] = {}
    for unit in dict.fromkeys(unit for trial in bisection.trials for unit in trial.swapped):
        inside = tuple(unit in swapped for swapped in sets)
        groups.setdefault((unit in guilty, inside), []).append(unit)
    found = [_Line(tuple(units), inside, blamed) for (blamed, inside), units in groups.items()]
    return sorted(found, key=lambda line: not line.guilty)


def _row(at: int, name: str, cells: Sequence[tuple[str, str, str]], tip: str = "") -> Iterator[str]:
    """Yield a line of cells: text, class (empty: no box) and tooltip of each."""
    y = at * CELL
    title = f"<title>{e(tip)}</title>" if tip else ""
    yield f'<text class="mono" x="0" y="{y + 15}">{e(name)}{title}</text>'
    for number, (text, look, said) in enumerate(cells):
        x = LABEL + number * COLUMN
        box = f'<rect class="{look}" x="{x}" y="{y}" width="{COLUMN - 2}" height="{CELL - 2}"/>' if look else ""
        word = f'<text class="on on{look[1]}" ' if look else '<text class="mid" '
        more = f"<title>{e(said)}</title>" if said else ""
        yield f'<g>{more}{box}{word}x="{x + (COLUMN - 2) / 2:g}" y="{y + 15}">{e(text)}</text></g>'


def _title(trial: Trial) -> str:
    return f"trial {trial.n}: {trial.outcome}{f', {trial.reason}' if trial.reason else ''}"


def _seconds(trial: Trial) -> str:
    return "-" if trial.reused else f"{trial.seconds:.1f}" if trial.seconds < 100 else f"{trial.seconds:.0f}"
