"""Why a row has no partner in the other run, which decides whether it can be the first divergence.

Only a row of a training pass can: a call that one run makes and the other does not. Validation passes,
recomputation and wrappers come and go without changing what is computed; below a call that shows no inside in
one run (a compiled region) nothing can be paired; and a run that was cut short says nothing of what lies
behind its end.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.diff.keys import Columns, Tables, codes, is_call, is_changed
from bisect_diverge.diff.starts import is_window
from bisect_diverge.diff.trace import RowState, Trace
from bisect_diverge.model.address import NO_PASS, PHASE_CODE, Phase
from bisect_diverge.model.record import Flag
from bisect_diverge.model.run import State

if TYPE_CHECKING:
    from bisect_diverge.store.reader import RunFile


class Reason(IntEnum):
    """Why a row has no partner."""

    TRAINING = 0
    """One run makes a call, or a tensor, in a training pass that the other does not."""
    NO_PASS = 1
    """Outside of any pass: a batch, a group value, an optimizer state, a parameter that one run only has."""
    EVALUATION = 2
    """In a pass without grad or in evaluation mode."""
    RECOMPUTE = 3
    """Made again by activation checkpointing."""
    WRAPPER = 4
    """A call around calls that both runs have."""
    INSIDE = 5
    """Inside a call that only one run has."""
    OPAQUE = 6
    """Inside a call that both runs have, but whose inside one of them does not show (a compiled region)."""
    FILTERED = 7
    """Not asked for in the other run (``--modules``)."""
    BEYOND = 8
    """Before the first or after the last step that the other run recorded, or weights a later window begins with."""
    LABELS = 9
    """What a loss function compared with, which is recorded only where no other row holds that tensor."""


FIRST = (Reason.TRAINING,)
"""Reasons with which a row can be the first divergence."""
LAST_RESORT = (Reason.NO_PASS, Reason.EVALUATION, Reason.RECOMPUTE, Reason.WRAPPER, Reason.INSIDE)
"""Reasons with which it can where nothing else differs."""

_RNG, _RECOMPUTE, _OPTIMIZER, _INIT, _DATA = (
    PHASE_CODE[phase] for phase in (Phase.RNG, Phase.RECOMPUTE, Phase.OPTIMIZER, Phase.INIT, Phase.DATA)
)
_BY_MODULE = [PHASE_CODE[phase] for phase in (Phase.INIT, Phase.FORWARD, Phase.BACKWARD, Phase.RECOMPUTE)]
"""Phases of which ``--modules`` chooses the rows, beside those of parameters in an update."""
_BY_PARAMETER = ("param", "buffer", "grad", "state")
"""First parts of the slots of an update of which it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The steps of which a recording can say that something did not happen, in A's numbering."""

    begin: int
    """First such step, inclusive."""
    end: int | None
    """First step behind them; None: to the end of the run."""
    cut: bool
    """The recording stops before the run's end, by ``--steps`` or because the run did."""


@dataclass(frozen=True, slots=True)
class Lone:
    """The rows without partner."""

    index: NDArray[np.int64]
    """Their places in the trace."""
    reason: NDArray[np.uint8]
    """`Reason` of each."""

    def among(self, reasons: tuple[Reason, ...]) -> NDArray[np.int64]:
        """Return the places of rows with one of some reasons, in order."""
        return self.index[np.isin(self.reason, reasons)]


def reach(file: RunFile, offset: int) -> Reach:
    """Return how far a recording reaches; `offset` is added to its steps."""
    status, limits = file.status, file.record.options.steps
    events = file.events
    finished = status.state is State.COMPLETE and not status.exit_status
    if len(events) and events["flags"][-1] & Flag.PARTIAL:
        finished = False
    begin, limit = limits or (0, None)
    cut_by_limit = limit is not None and file.steps >= limit
    if not finished:
        # Its last step may be incomplete, so what is missing there proves nothing.
        return Reach(begin=begin + offset, end=max(file.steps - 1, 0) + offset, cut=True)
    return Reach(begin=begin + offset, end=file.steps + offset if cut_by_limit else None, cut=cut_by_limit)


def lone_rows(trace: Trace, reach_a: Reach, reach_b: Reach) -> Lone:
    """Return the rows without partner that are compared, each with its reason."""
    only_a = trace.state == RowState.ONLY_A
    index = np.flatnonzero(only_a | (trace.state == RowState.ONLY_B))
    if not len(index):
        return Lone(index, np.zeros(0, np.uint8))
    rows = trace.rows.take(index)
    other = np.where(only_a[index], 1, 0)
    reason = _inside_passes(trace, rows)
    reason[rows.micro_batch == NO_PASS] = Reason.NO_PASS
    reason[rows.micro_batch < NO_PASS] = Reason.EVALUATION
    reason[rows.phase == _RECOMPUTE] = Reason.RECOMPUTE
    changed = is_changed(rows, trace.tables) & _in_common_passes(trace, rows)
    reason[changed] = Reason.TRAINING
    for side, file in enumerate((trace.a, trace.b)):
        reason[(other == side) & _not_asked_for(rows, trace.tables, file.record.options.modules)] = Reason.FILTERED
    reason[is_label(rows, trace.tables)] = Reason.LABELS
    begin = np.array([reach_a.begin, reach_b.begin])[other]
    far = np.iinfo(np.int64).max
    end = np.array([far if r.end is None else r.end for r in (reach_a, reach_b)])[other]
    reason[(rows.step < begin) | (rows.step >= end)] = Reason.BEYOND
    # A window of steps begins with the weights, which a run that began earlier recorded with an update before it.
    windows = [is_window(trace.b), is_window(trace.a)]
    own = np.where(windows, [reach_b.begin, reach_a.begin], -1)[other]
    reason[(rows.phase == _INIT) & (own >= 0) & (rows.step >= own)] = Reason.BEYOND
    return Lone(index, reason)


def is_label(rows: Columns, tables: Tables) -> NDArray[np.bool_]:
    """Return which rows show what a loss function compared with: data under the name of the loss."""
    of_loss = np.array([fqn == "loss" for _, fqn in tables.places], np.bool_)
    return np.asarray((rows.phase == _DATA) & of_loss[rows.place]) if len(of_loss) else np.zeros(len(rows), np.bool_)


def _not_asked_for(rows: Columns, tables: Tables, globs: tuple[str, ...]) -> NDArray[np.bool_]:
    """Return which rows a run that was recorded with ``--modules`` does not have for that reason."""
    if not globs:
        return np.zeros(len(rows), np.bool_)
    heads = [slot.partition(".")[0] for slot in tables.slots]
    of_parameter = np.array([head in _BY_PARAMETER for head in heads], np.bool_)
    is_loss = np.array([slot == "value" for slot in tables.slots], np.bool_)
    wanted = np.array([_fits(fqn, globs) for _, fqn in tables.places], np.bool_)
    # The FQN of an optimizer's row has the root in front where it updates the parameters of several.
    below = np.array([_fits(fqn.partition(".")[2], globs) for _, fqn in tables.places], np.bool_)
    updated = (rows.phase == _OPTIMIZER) & of_parameter[rows.slot]
    chosen = (np.isin(rows.phase, _BY_MODULE) & ~is_loss[rows.slot]) | updated
    return np.asarray(chosen & ~wanted[rows.place] & ~(updated & below[rows.place]))


def _fits(fqn: str, globs: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(fqn, glob) for glob in globs)


def _in_common_passes(trace: Trace, lone: Columns) -> NDArray[np.bool_]:
    """Return which rows stand in a pass of their root that both runs make."""
    roots = {root: number for number, root in enumerate(dict.fromkeys(root for root, _ in trace.tables.places))}
    root = np.array([roots[name] for name, _ in trace.tables.places], np.int64)
    chosen = trace.paired & is_call(trace.rows, trace.tables) & np.isin(trace.rows.step, np.unique(lone.step))
    both = trace.rows.take(np.flatnonzero(chosen))
    have, ask = codes((both.step, both.micro_batch, root[both.place]), (lone.step, lone.micro_batch, root[lone.place]))
    return np.asarray(np.isin(ask, have))


def called_parents(trace: Trace) -> NDArray[np.int64]:
    """Return, for each place, the nearest place above it (by FQN, in its root) that is called; -1: none."""
    called = set(np.unique(trace.rows.place[is_call(trace.rows, trace.tables)]).tolist())
    numbers = {name: number for number, name in enumerate(trace.tables.places) if number in called}
    out = np.full(len(trace.tables.places), -1, np.int64)
    for number, (root, fqn) in enumerate(trace.tables.places):
        above = fqn
        while above and out[number] < 0:
            above = above.rpartition(".")[0]
            out[number] = numbers.get((root, above), -1)
    return out


def _inside_passes(trace: Trace, lone: Columns) -> NDArray[np.uint8]:
    """Return the reasons of rows of training passes, from the calls around them."""
    parent = np.append(called_parents(trace), -1)  # the last entry makes parent[-1] == -1
    calls = _Calls(trace, parent, lone)
    has_children = np.isin(np.arange(len(parent)), parent)
    reason = np.full(len(lone), Reason.TRAINING, np.uint8)
    around = np.where((lone.phase == _RNG) & has_children[lone.place], lone.place, parent[lone.place])
    reason[(around >= 0) & ~calls.paired_below(around)] = Reason.INSIDE
    # Walk outwards to the innermost call that both runs have: if none below it is paired, its inside is not
    # shown.
    level = around
    pending = reason == Reason.INSIDE
    while pending.any():
        both = pending & calls.paired(level)
        reason[both & ~calls.paired_below(level)] = Reason.OPAQUE
        level = np.where(pending & ~both, parent[level], level)
        pending &= ~both & (level >= 0)
    wraps = calls.paired_below(lone.place) & ~calls.paired(lone.place) & (lone.phase != _RNG)
    reason[wraps & (reason == Reason.TRAINING)] = Reason.WRAPPER
    return reason


class _Calls:
    """Which calls both runs have, in the passes that hold rows without partner.

    Args:
        trace: The trace.
        parent: Place above each place, -1 at the top.
        lone: The rows without partner.
    """

    def __init__(self, trace: Trace, parent: NDArray[np.int64], lone: Columns) -> None:
        chosen = trace.paired & is_call(trace.rows, trace.tables)
        chosen &= np.isin(trace.rows.step, np.unique(lone.step))
        self._both = trace.rows.take(np.flatnonzero(chosen))
        self._parent = parent
        self._lone = lone

    def paired(self, place: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether both runs call `place` (int64[n]; -1: never called) in the pass of each lone row."""
        return self._has(place, self._both.place)

    def paired_below(self, place: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether both runs call something below `place` in the pass of each lone row."""
        found = np.zeros(len(place), np.bool_)
        level = self._parent[self._both.place]
        while (level >= 0).any():
            found |= self._has(place, level)
            level = self._parent[level]
        return found

    def _has(self, place: NDArray[np.int64], called: NDArray[np.int64]) -> NDArray[np.bool_]:
        both, lone = self._both, self._lone
        have, ask = codes((both.step, both.micro_batch, called), (lone.step, lone.micro_batch, place))
        found: NDArray[np.bool_] = np.isin(ask, have[called >= 0]) & (place >= 0)
        return found
