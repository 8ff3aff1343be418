"""The step bar, one glyph a step: `=` equal, `≠` the first that differs, then heights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from textual.app import RenderResult
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from bisect_diverge.tui import growth, states, words
from bisect_diverge.tui.comparison import Comparison

_HEIGHTS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Steps:
    """What each step holds; arrays over the steps from `low` on."""

    low: int
    """Number of the first step."""
    total: NDArray[np.intp]
    """Records."""
    differing: NDArray[np.intp]
    """Records that differ."""
    unpaired: NDArray[np.intp]
    """Records without partner."""
    ignored: NDArray[np.intp]
    """Records that were not compared."""

    @classmethod
    def of(cls, comparison: Comparison) -> Steps:
        """Return the steps of a comparison."""
        step, state = comparison.step, comparison.state
        if not len(step):
            nothing = np.zeros(0, np.intp)
            return cls(0, nothing, nothing, nothing, nothing)
        low = int(step.min())
        place = step - low
        size = int(place.max()) + 1
        differs = state == states.DIFFERS
        unpaired = (state == states.ONLY_A) | (state == states.ONLY_B)
        return cls(
            low,
            np.bincount(place, minlength=size),
            np.bincount(place[differs], minlength=size),
            np.bincount(place[unpaired], minlength=size),
            np.bincount(place[state == states.IGNORED], minlength=size),
        )

    def cells(self, room: int) -> NDArray[np.intp]:
        """Return the step (from `low`) at which each of at most `room` cells begins."""
        size = len(self.total)
        if not size or room < 1:
            return np.zeros(0, np.intp)
        return np.unique(np.linspace(0, size, min(size, room), endpoint=False).astype(np.intp))

    def glyphs(self, starts: NDArray[np.intp], distance: NDArray[np.float64]) -> str:
        """Return one glyph per cell.

        Args:
            starts: What `cells` returned.
            distance: float64[steps], largest known ULP distance, -1 where none is known.
        """
        total = np.add.reduceat(self.total, starts)
        differing = np.add.reduceat(self.differing, starts)
        unpaired = np.add.reduceat(self.unpaired, starts)
        ignored = np.add.reduceat(self.ignored, starts)
        height = _heights(differing / np.maximum(total, 1), np.maximum.reduceat(distance, starts))
        first = int(np.flatnonzero(differing)[0]) if differing.any() else -1
        out = []
        for number, level in enumerate(height):
            if differing[number]:
                out.append("≠" if number == first or level < 0 else _HEIGHTS[level])
            else:
                compared = total[number] > ignored[number]
                out.append("?" if unpaired[number] else "=" if compared else "·" if total[number] else " ")
        return "".join(out)


def _heights(share: NDArray[np.float64], distance: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return levels 0 to 7: of the logarithm of the ULP distance, -1 if unknown; if all are, of the share."""
    known = distance >= 0
    if not known.any():
        return np.asarray(np.clip(np.ceil(8 * share) - 1, 0, 7), np.intp)
    top = max(float(np.log1p(distance.max())), 1e-9)
    levels = np.ceil(8 * np.log1p(np.maximum(distance, 0)) / top) - 1
    return np.asarray(np.where(known, np.clip(levels, 0, 7), -1), np.intp)


class StepBar(Widget):
    """All steps on one line, and under it where the cursor is.

    Args:
        comparison: The two runs.
    """

    step: reactive[int] = reactive(0)
    """Step at the cursor."""

    def __init__(self, comparison: Comparison) -> None:
        super().__init__(id="steps")
        self._steps = Steps.of(comparison)
        self._distance = np.full(len(self._steps.total), -1.0)
        self._height: tuple[str, ...] = ("",)

    def on_mount(self) -> None:
        """Say which steps there are and what the glyphs mean."""
        self._write_title("share of its records that differs", "share that differs")

    def on_resize(self) -> None:
        """Fit the title."""
        self._write_title(*self._height)

    def grow(self, step: int, distance: int) -> None:
        """Take note of the ULP distance of one more record."""
        place = step - self._steps.low
        self._distance[place] = max(self._distance[place], distance)
        log = "log of the largest ULP distance"
        self._write_title(f"{log} ({growth.RECORDS} records a step)", log, "log of ULP")
        self.refresh()

    def _write_title(self, *heights: str) -> None:
        """Say which steps there are and what the glyphs mean.

        Args:
            heights: What the heights mean, in ever fewer words.
        """
        self._height = heights
        low, size = self._steps.low, len(self._steps.total)
        span = "no steps" if not size else f"step {low}" if size == 1 else f"steps {low}–{low + size - 1}"
        titles = [f" {span}   = equal   ≠ differs   ▁–█ {height} " for height in heights]
        self.border_title = Content(words.first_that_fits(self.outer_size.width - 2, *titles))

    def render(self) -> RenderResult:
        """Return the glyphs and the marker of the cursor."""
        room = self.size.width - 2
        starts = self._steps.cells(room)
        if not len(starts):
            return Content("")
        apart = 2 if 2 * len(starts) <= room else 1
        here = max(0, int(np.searchsorted(starts, self.step - self._steps.low, side="right")) - 1)
        glyphs = self._steps.glyphs(starts, self._distance)
        bar = Content.assemble(" ", *(self._cell(g, apart, at=n == here) for n, g in enumerate(glyphs)))
        note = f"↑ step {self.step}"
        left = 1 + apart * here
        if left + len(note) > self.size.width:
            note, left = f"step {self.step} ↑", left - len(note) + 1
        return Content("\n").join([bar, Content(" " * left + note)])

    @staticmethod
    def _cell(glyph: str, apart: int, *, at: bool) -> Content:
        name = {"=": "equal", "?": "no-partner", "·": "ignored", " ": "equal"}.get(glyph, "differs")
        style = f"$state-{name} reverse" if at else f"$state-{name}"
        return Content.assemble((glyph, style), " " * (apart - 1))
