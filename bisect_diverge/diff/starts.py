"""What a run starts from, where the other one was already under way: weights and generators, paired with its last rows.

A resumed run and a window of steps (``--steps``) begin with initial rows at a step at which a run that began earlier
has none. What that run left of the same parameter, or the same generator, is the row to compare them with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.diff.keys import PARAMETER_SLOTS, Columns, Tables, is_call, is_changed, parameter_names
from bisect_diverge.model.address import NO_PASS, PHASE_CODE, Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bisect_diverge.store.reader import RunFile

Rows = NDArray[np.int64]

_OPTIMIZER, _RNG, _INIT = (PHASE_CODE[phase] for phase in (Phase.OPTIMIZER, Phase.RNG, Phase.INIT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Begins:
    """Which of two runs begin where the other may have been under way."""

    window_a: bool
    """A is a window of steps (``--steps``) that does not begin with the run."""
    window_b: bool
    """The same of B."""
    offset_b: int
    """B's step k is A's step k + offset_b."""

    @property
    def late(self) -> tuple[bool, bool]:
        """Whether A, and whether B, begins after the other's begin."""
        return self.window_a or self.offset_b < 0, self.window_b or self.offset_b > 0


def is_window(file: RunFile) -> bool:
    """Return whether a recording is a window of steps (``--steps``) that does not begin with the run."""
    steps = file.record.options.steps
    return steps is not None and steps[0] > 0


def first_states(rows: Columns) -> NDArray[np.bool_]:
    """Return which rows show the generators before the first update."""
    updates = np.flatnonzero(rows.phase == _OPTIMIZER)
    first_update = updates[0] if len(updates) else len(rows)
    boundary = (rows.phase == _RNG) & (rows.micro_batch == NO_PASS)
    return np.asarray(boundary & (np.arange(len(rows)) < first_update))


def with_starts(of_a: Columns, of_b: Columns, tables: Tables, partner: Rows, begins: Begins) -> Rows:
    """Return partners of A's rows where those that a run starts from have one too, if the other run shows it.

    Args:
        of_a: A's rows.
        of_b: B's rows, in A's steps.
        tables: Their common numbering.
        partner: B's row for each of A's rows by address, -1 where there is none.
        begins: Which run begins late.
    """
    out = partner.copy()
    back = np.full(len(of_b), -1, np.int64)
    back[out[out >= 0]] = np.flatnonzero(out >= 0)
    if begins.late[1]:
        for row_b, row_a in _pairs(of_b, of_a, back, out, tables, states=begins.offset_b > 0):
            out[row_a], back[row_b] = row_b, row_a
    if begins.late[0]:
        for row_a, row_b in _pairs(of_a, of_b, out, back, tables, states=begins.offset_b < 0):
            out[row_a], back[row_b] = row_b, row_a
    return out


def _pairs(
    late: Columns, early: Columns, of_late: Rows, of_early: Rows, tables: Tables, *, states: bool
) -> Iterator[tuple[int, int]]:
    """Yield rows that a late run starts from, each with the row of the other that it goes on from.

    Args:
        late: Rows of the run that begins late.
        early: Rows of the other run.
        of_late: The partner of each of its rows so far, -1: none.
        of_early: The same for the other run.
        tables: Their common numbering.
        states: Whether its first states of the generators go on from the other's too.
    """
    starts = np.flatnonzero((late.phase == _INIT) & (of_late < 0))
    for step in np.unique(late.step[starts]).tolist():
        left = _left(early, tables, late, starts[late.step[starts] == step], step)
        yield from ((row, at) for row, at in left if of_early[at] < 0)
    alone = np.flatnonzero(first_states(late) & (of_late < 0)) if states else np.zeros(0, np.int64)
    for row in alone.tolist():
        last = (early.phase == _RNG) & (early.micro_batch == NO_PASS) & (early.step == late.step[row] - 1)
        found = np.flatnonzero(last & (early.place == late.place[row]) & (early.slot == late.slot[row]))
        if len(found) and of_early[found[-1]] < 0:
            yield row, int(found[-1])


def _left(early: Columns, tables: Tables, late: Columns, starts: Rows, step: int) -> Iterator[tuple[int, int]]:
    """Yield initial rows of a step, each with the latest row of its parameter or buffer that the other run has by then.

    One that two optimizers name alike has none: it could be either.
    """
    wanted = {(tables.places[late.place[row]], int(late.slot[row])): row for row in starts.tolist()}
    known = {place for place, _ in wanted}
    latest: dict[int, tuple[int, int]] = {}
    by_name = dict.fromkeys(wanted.values(), frozenset[int]())
    for at in _latest_rows(early, tables, step):
        place, slot = int(early.place[at]), int(early.slot[at])
        for name in parameter_names(tables.places[place], known):
            row = wanted.get((name, slot))
            if row is None:
                continue
            latest[row] = max(latest.get(row, (-1, -1)), (at, place))
            if early.phase[at] == _OPTIMIZER:
                by_name[row] |= {place}
    yield from ((row, at) for row, (at, _) in latest.items() if len(by_name[row]) < 2)


def _latest_rows(rows: Columns, tables: Tables, step: int) -> list[int]:
    """Return the latest row of each place and slot of weights before the passes of a step."""
    slots = [number for number, slot in enumerate(tables.slots) if slot in PARAMETER_SLOTS]
    weights = np.isin(rows.slot, slots)
    chosen = weights & (rows.step < step)
    inside = np.flatnonzero(rows.step == step)
    of_step = rows.take(inside)
    # A change that a pass of that step finds is recorded before its first call.
    calls = np.flatnonzero(is_call(of_step, tables))
    found = is_changed(of_step, tables) & (np.arange(len(of_step)) < (calls[0] if len(calls) else len(of_step)))
    chosen[inside] |= found
    places = np.flatnonzero(chosen)[::-1]
    _, last = np.unique(rows.place[places] * len(tables.slots) + rows.slot[places], return_index=True)
    return sorted(places[last].tolist())
