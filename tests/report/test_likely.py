"""A likely cause in every format: capped at likely, with its confidence and what it cost."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bisect_diverge.bisector.search import bisect
from bisect_diverge.bisector.supposed import Effect, World, supposed_units
from bisect_diverge.model.trial import Bisection, Outcome, SearchOptions, Trial, Unit
from bisect_diverge.report.bisection_html import bisection_html
from bisect_diverge.report.bisection_json import bisection_json
from bisect_diverge.report.bisection_markdown import bisection_markdown
from bisect_diverge.report.bisection_text import bisection_text

UNITS = supposed_units(4)
WORLD = World(units=UNITS, effects=(Effect((frozenset({UNITS[2]}),)),))
SENTENCE = "likely cause, not proved: dependencies knob.2: 0 -> 1; confidence 96.0%, from 25 runs"


def noisy(world: World = WORLD) -> Bisection:
    """Return a search of a world in which every run is a little beside where it should be."""

    def oracle(swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
        near = 0.8 * bool(world.bits(swapped)) + 0.01 * (repeat % 7)
        return replace(world(swapped), outcome=Outcome.OTHER, signature=f"{len(swapped)} {repeat}", nearness=near)

    return bisect(UNITS, oracle, SearchOptions(confidence=0.95))


@pytest.fixture(scope="module")
def result() -> Bisection:
    """Return a likely cause."""
    return noisy()


def test_text(result: Bisection) -> None:
    """The sentence, what A and B are like with it and without, and what to try; no word of a proof."""
    text = bisection_text(result, "runs/a", "runs/b")
    lines = [line.strip() for line in text.splitlines()]
    assert lines[0] == SENTENCE
    assert lines[1].startswith("A with only this changed: like B (")
    assert "chance if it were like A" in lines[1]
    assert lines[2].startswith("B with only this put back: like A (")
    assert lines[3].startswith("A and B: ")
    assert "likely to make B like A" in lines
    assert "to repeat a proving trial" not in text
    assert "innocent" not in text
    assert any(line.startswith("no effect was seen of") for line in lines)
    assert lines[-1].startswith("next: try it; a higher --confidence is surer")


def test_other_formats(result: Bisection) -> None:
    """Markdown and HTML say the same; JSON has every sample and its chances."""
    for page in (bisection_markdown(result, "a", "b"), bisection_html(result, "a", "b")):
        assert "confidence 96.0%, from 25 runs" in page
        assert "likely cause" in page
        assert "like B (" in page
    found = json.loads(bisection_json(result))
    assert found["verdict"] == "likely"
    sampling = found["sampling"]
    assert (sampling["asked"], sampling["apart"], sampling["runs"]) == (0.95, True, 25)
    assert all(decision["chance_a"] < 0.02 or decision["chance_b"] < 0.02 for decision in sampling["decisions"])
    assert all("nearness" in trial for trial in found["trials"])
    assert found["causes"][0]["same_divergence"] is False


def test_what_is_no_larger_than_noise() -> None:
    """The sentence says so, and how to see smaller differences."""
    text = bisection_text(noisy(World(units=UNITS, effects=())), "a", "b")
    assert text.startswith("inconclusive: A and B cannot be told apart from the noise of A alone")
    assert "next: the same command with --repeat " in text
