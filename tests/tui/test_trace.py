"""The lines of the trace: folding, filters, and how long a million records take is nothing to test here."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisect_diverge.tui import states
from bisect_diverge.tui.trace import Trace, changes, following, preceding


def build(text: str) -> Trace:
    """Return a trace from glyphs: ``===≠·?``."""
    codes = {"=": states.EQUAL, "≠": states.DIFFERS, "?": states.ONLY_A, "·": states.IGNORED}
    return Trace(np.array([codes[glyph] for glyph in text], np.uint8))


def shown(trace: Trace) -> list[tuple[int, int]]:
    """Return first record and number of records of each line."""
    return [(line.index, line.count) for line in map(trace.line, range(len(trace)))]


def test_stretches_of_equal_and_ignored_records_fold() -> None:
    """Two quiet records and more are one line; a single one is shown as it is."""
    trace = build("===≠=≠=·?")

    assert shown(trace) == [(0, 3), (3, 1), (4, 1), (5, 1), (6, 2), (8, 1)]
    assert trace.line(4).ignored == 1
    assert trace.loud.tolist() == [3, 5, 8]


def test_an_empty_trace_has_no_lines() -> None:
    """Nothing recorded, nothing shown, nothing raised."""
    trace = build("")

    assert len(trace) == 0
    assert trace.line_of(0) == -1
    trace.show_only_differing(False)
    trace.reveal(0)
    assert shown(trace) == []


def test_kept_records_never_fold() -> None:
    """The inputs of the first divergence stay in sight and cut the stretch they lie in."""
    trace = build("=====≠")
    trace.keep([2])

    assert shown(trace) == [(0, 2), (2, 1), (3, 2), (5, 1)]
    assert not trace.toggle(1)


def test_one_stretch_unfolds_and_folds_again() -> None:
    """The others stay as they are; any record of it folds it."""
    trace = build("===≠===")

    assert trace.toggle(0)
    assert shown(trace) == [(0, 1), (1, 1), (2, 1), (3, 1), (4, 3)]
    assert trace.toggle(1)
    assert shown(trace) == [(0, 3), (3, 1), (4, 3)]
    assert not trace.toggle(1)


def test_revealing_a_record_unfolds_what_hides_it() -> None:
    """A match of the search inside a folded stretch becomes a line of its own."""
    trace = build("===≠===")
    trace.reveal(5)

    assert shown(trace) == [(0, 3), (3, 1), (4, 1), (5, 1), (6, 1)]
    assert trace.line_of(5) == 3
    trace.reveal(3)
    assert len(trace) == 5


def test_a_filter_joins_what_it_leaves() -> None:
    """Records that are not shown do not cut a stretch."""
    trace = build("=≠=≠=")
    trace.include(np.array([True, False, True, True, True]))

    assert shown(trace) == [(0, 2), (3, 1), (4, 1)]
    assert trace.loud.tolist() == [3]
    assert trace.line_of(1) == 0  # not shown: the line of the next one that is
    trace.include(np.zeros(5, bool))
    assert len(trace) == 0
    trace.include(None)
    assert len(trace) == 5


def test_the_nearest_line_is_of_the_same_step() -> None:
    """A record that a filter hides is stood for by a line of its step, else by one of the nearest step."""
    step = np.array([0, 0, 1, 1, 1, 5])
    for shown_ones, index, line in (([1, 2, 5], 3, 1), ([1, 4, 5], 3, 1), ([1, 5], 3, 0), ([5], 0, 0), ([0], 5, 0)):
        trace = build("≠≠≠≠≠≠")
        trace.include(np.isin(np.arange(6), shown_ones))
        assert trace.nearest(index, step) == line
    trace.include(np.zeros(6, bool))
    assert trace.nearest(3, step) == -1


def test_everything_shows_when_nothing_folds() -> None:
    """`d` takes all folds away and brings them back."""
    trace = build("===≠==")
    trace.show_only_differing(False)
    assert len(trace) == 6
    trace.show_only_differing(True)
    assert len(trace) == 3


@given(st.text(alphabet="=≠?·", max_size=60), st.data())
def test_every_record_has_one_line(text: str, data: st.DataObject) -> None:
    """However folded, unfolded and kept: the lines hold every record once, in order."""
    trace = build(text)
    for _ in range(data.draw(st.integers(0, 6))):
        if len(trace):
            trace.toggle(data.draw(st.integers(0, len(trace) - 1)))
    trace.keep(data.draw(st.sets(st.sampled_from(range(len(text))))) if text else [])

    lines = [trace.line(number) for number in range(len(trace))]
    assert list(range(len(text))) == [i for line in lines for i in range(line.index, line.index + line.count)]
    assert all(line.last == line.index + line.count - 1 for line in lines)
    assert [n for n, line in enumerate(lines) for _ in range(line.count)] == [
        trace.line_of(i) for i in range(len(text))
    ]


@pytest.mark.parametrize(("index", "after", "before"), [(-1, 2, -1), (2, 5, -1), (3, 5, 2), (9, -1, 5)])
def test_neighbours_in_a_sorted_list(index: int, after: int, before: int) -> None:
    """-1 stands for none."""
    places = np.array([2, 5])

    assert after == following(places, index)
    assert before == preceding(places, index)


def test_where_groups_begin() -> None:
    """A group begins where any of the keys changes."""
    assert changes(np.array([1, 1, 2, 2]), np.array([7, 7, 7, 8])).tolist() == [0, 2, 3]
    assert changes(np.array([])).tolist() == []
