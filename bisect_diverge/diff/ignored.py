"""Rows that are never a difference: what the user left out, and generators that neither run draws from."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.diff.keys import PARAMETER_SLOTS, codes, is_changed, parameter_names
from bisect_diverge.diff.places import address_at, late_starts
from bisect_diverge.diff.trace import RowState
from bisect_diverge.model.address import PHASE_CODE, PHASES, Address, Phase, micro_batch_text
from bisect_diverge.store.schema import digest_of

if TYPE_CHECKING:
    from bisect_diverge.diff.keys import Columns
    from bisect_diverge.diff.options import DiffOptions
    from bisect_diverge.diff.trace import Trace
    from bisect_diverge.store.reader import RunFile


@dataclass(frozen=True, slots=True)
class IdleGenerator:
    """A generator whose state differs between the runs although neither draws from it."""

    slot: str
    """Its slot, for example ``torch.cuda:0``."""
    records: int
    """Number of its records that differ."""


def leave_out(trace: Trace, options: DiffOptions) -> list[IdleGenerator]:
    """Mark what is not compared as ignored, and return the generators among it."""
    trace.state[trace.rows.step < options.from_step] = RowState.IGNORED
    if options.ignore:
        _leave_out_matches(trace, options.ignore)
    _leave_out_restored(trace)
    return _leave_out_idle_generators(trace)


def _leave_out_matches(trace: Trace, globs: tuple[str, ...]) -> None:
    """Mark rows that match a glob; texts are put together from what stands before and behind the step.

    Most globs cannot tell steps apart, so they are matched once for all rows that differ in their step alone.
    """
    pattern = _pattern(globs)
    by_fqn = np.array([bool(pattern.match(fqn)) for _, fqn in trace.tables.places], np.bool_)
    hit = by_fqn[trace.rows.place]
    rest = np.flatnonzero(~hit)
    rows = trace.rows.take(rest)
    parts = rows.micro_batch, rows.phase, rows.place, rows.call, rows.slot
    code, _ = codes(parts, tuple(part[:0] for part in parts))
    _, first, number = np.unique(code, return_index=True, return_inverse=True)
    behind = [_behind_the_step(trace, rows, at) for at in first.tolist()]
    of_any_step = tuple(glob for glob in globs if not _tells_steps_apart(glob))
    of_some = tuple(glob for glob in globs if _tells_steps_apart(glob))
    if of_any_step:
        matches = _pattern(of_any_step).match
        hit[rest] = np.array([matches(f"r{trace.rank}/0{text}") is not None for text in behind], np.bool_)[number]
    for glob in of_some:
        hit[rest] |= _matches_by_step(glob, trace.rank, rows.step, behind, number)
    for at in late_starts(trace).tolist():
        hit[at] = pattern.match(str(address_at(trace, at))) is not None
    trace.state[hit] = RowState.IGNORED


def _pattern(globs: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(fnmatch.translate(glob) for glob in globs))


def _tells_steps_apart(glob: str) -> bool:
    """Return whether a glob may match the addresses of one step and not those of another.

    In ``r0/12/...`` only text between two stars that is digits, or digits next to a slash, can lie on the step:
    if there is none, a star covers the step whatever it is. Single-character wildcards are not looked into.
    """
    return "?" in glob or "[" in glob or any(_ON_A_STEP.fullmatch(text) for text in glob.split("*"))


_ON_A_STEP = re.compile(r"(?:.*/)?\d+(?:/.*)?", re.DOTALL)


def _matches_by_step(
    glob: str, rank: int, step: NDArray[np.int64], behind: list[str], number: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which rows match a glob that names steps.

    Args:
        glob: The glob.
        rank: Rank of the rows.
        step: Their steps.
        behind: Texts that follow the step in an address.
        number: Which of them each row has.
    """
    of_rank, _, rest = glob.partition("/")
    of_step, _, of_rest = rest.partition("/")
    steps, place = np.unique(step, return_inverse=True)
    whole = all(part.count("[") == part.count("]") for part in (of_rank, of_step))
    if of_rest and whole and not set("*?!") & set(of_rank + of_step):
        # No wildcard before the second slash can stand for a slash, so each part is matched by itself.
        if not fnmatch.fnmatchcase(f"r{rank}", of_rank):
            return np.zeros(len(step), np.bool_)
        by_step = np.array([fnmatch.fnmatchcase(str(at), of_step) for at in steps.tolist()], np.bool_)
        by_rest = np.array([fnmatch.fnmatchcase(text[1:], of_rest) for text in behind], np.bool_)
        return np.asarray(by_step[place] & by_rest[number])
    matches = re.compile(fnmatch.translate(glob)).match
    pairs = zip(step.tolist(), number.tolist(), strict=True)
    return np.array([matches(f"r{rank}/{at}{behind[n]}") is not None for at, n in pairs], np.bool_)


def _behind_the_step(trace: Trace, rows: Columns, at: int) -> str:
    """Return what follows the step in the text of a row's address: ``/0/forward/model:0#0:output.0``."""
    root, fqn = trace.tables.places[rows.place[at]]
    address = Address(
        rank=0,
        step=0,
        micro_batch=micro_batch_text(int(rows.micro_batch[at])),
        phase=PHASES[rows.phase[at]],
        root=root,
        fqn=fqn,
        call=int(rows.call[at]),
        slot=trace.tables.slots[rows.slot[at]],
    )
    return str(address).removeprefix("r0/0")


def _leave_out_restored(trace: Trace) -> None:
    """Mark rows of parameters that only one run put back: to the value that the other has had all along.

    A run that evaluates with other weights, as with an average of them, changes them back before it trains on.
    """
    lone = is_changed(trace.rows, trace.tables) & (trace.rows.micro_batch >= 0) & ~trace.paired
    if not lone.any():
        return
    slots = [number for number, slot in enumerate(trace.tables.slots) if slot in PARAMETER_SLOTS]
    rows = np.flatnonzero(np.isin(trace.rows.slot, slots))
    known = {trace.tables.places[place] for place in np.unique(trace.rows.place[rows[~_updates(trace)[rows]]]).tolist()}
    names = {place: parameter_names(trace.tables.places[place], known) for place in np.unique(trace.rows.place[rows])}
    last: tuple[dict[tuple[str, str], bytes], dict[tuple[str, str], bytes]] = {}, {}
    sides = (trace.a, trace.row_a), (trace.b, trace.row_b)
    for at in rows.tolist():
        digests = [_digest(file, int(row[at])) for file, row in sides]
        of_row = names[int(trace.rows.place[at])]
        if lone[at]:
            lacks, has = (0, 1) if digests[0] is None else (1, 0)
            if digests[has] in [last[lacks].get(name) for name in of_row]:
                trace.state[at] = RowState.IGNORED
        for of_side, digest in zip(last, digests, strict=True):
            of_side.update((name, digest) for name in of_row if digest is not None)


def _updates(trace: Trace) -> NDArray[np.bool_]:
    return np.asarray(trace.rows.phase == PHASE_CODE[Phase.OPTIMIZER])


def _digest(file: RunFile, row: int) -> bytes | None:
    return None if row < 0 else digest_of(file.events[row])


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
