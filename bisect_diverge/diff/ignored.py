"""Rows that are never a difference: what the user left out, and generators that neither run draws from."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.diff.trace import RowState
from bisect_diverge.model.address import PHASE_CODE, Phase

if TYPE_CHECKING:
    from bisect_diverge.diff.options import DiffOptions
    from bisect_diverge.diff.trace import Trace
    from bisect_diverge.model.address import Address
    from bisect_diverge.store.reader import RunFile


@dataclass(frozen=True, slots=True)
class IdleGenerator:
    """A generator whose state differs between the runs although neither draws from it."""

    slot: str
    """Its slot, for example ``torch.cuda:0``."""
    records: int
    """Number of its records that differ."""


def address_at(trace: Trace, i: int) -> Address:
    """Return the address of a row of the trace as A has it, or as B has it, in A's steps, where only B does."""
    row = int(trace.row_a[i])
    if row >= 0:
        return trace.a.address(row)
    return replace(trace.b.address(int(trace.row_b[i])), step=int(trace.rows.step[i]))


def leave_out(trace: Trace, options: DiffOptions) -> list[IdleGenerator]:
    """Mark what is not compared as ignored, and return the generators among it."""
    trace.state[trace.rows.step < options.from_step] = RowState.IGNORED
    if options.ignore:
        _leave_out_matches(trace, options.ignore)
    return _leave_out_idle_generators(trace)


def _leave_out_matches(trace: Trace, globs: tuple[str, ...]) -> None:
    """Mark rows that match a glob; equal ones need no mark, so only the others are written out as text."""
    pattern = re.compile("|".join(fnmatch.translate(glob) for glob in globs))
    by_fqn = np.array([bool(pattern.match(fqn)) for _, fqn in trace.tables.places], np.bool_)
    open_rows = np.flatnonzero((trace.state != RowState.EQUAL) & (trace.state != RowState.IGNORED))
    hit = by_fqn[trace.rows.place[open_rows]]
    for at in np.flatnonzero(~hit).tolist():
        hit[at] = pattern.match(str(address_at(trace, open_rows[at]))) is not None
    trace.state[open_rows[hit]] = RowState.IGNORED


def _leave_out_idle_generators(trace: Trace) -> list[IdleGenerator]:
    """Mark the differences of generators that nobody draws from: their states differ in any two processes."""
    generator_rows = np.flatnonzero(trace.rows.phase == PHASE_CODE[Phase.RNG])
    slots = trace.rows.slot[generator_rows]
    idle = []
    for slot in np.unique(slots).tolist():
        rows = generator_rows[slots == slot]
        if _moves(trace.a, trace.row_a[rows]) or _moves(trace.b, trace.row_b[rows]):
            continue
        differing = rows[trace.state[rows] == RowState.DIFFERS]
        trace.state[rows[trace.state[rows] != RowState.EQUAL]] = RowState.IGNORED
        if len(differing):
            idle.append(IdleGenerator(trace.tables.slots[slot], len(differing)))
    return idle


def _moves(file: RunFile, rows: NDArray[np.int64]) -> bool:
    """Return whether a generator's state changes between these rows of a file (-1: not in this file)."""
    events: NDArray[Any] = file.events[rows[rows >= 0]]
    return any(bool((events[half] != events[half][:1]).any()) for half in ("digest0", "digest1"))
