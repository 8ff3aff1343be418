"""Phase, micro-batch and text of every record: what the filter, `m` and the search need.

They are taken from the index of the two files, whole columns at once; a comparison without files is read record
by record, in chunks that can be stopped. Either way only when one of them is wanted for the first time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.model.address import NO_PASS, PHASE_CODE, PHASES, Address, Phase, micro_batch_code
from bisect_diverge.tui.comparison import Comparison
from bisect_diverge.tui.reader import Stopped, StoppedError

if TYPE_CHECKING:
    from bisect_diverge.store.reader import Run, RunFile

_CHUNK = 2048
"""Records between two looks at `stopped`: some 20 ms."""

Progress = Callable[[float], None]
"""Told the share that is done, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The part of all addresses that the trace itself does not carry."""

    phase: NDArray[np.uint8]
    """uint8[n]: codes of `model.address.PHASES`; 255 where the record cannot be read."""
    micro_batch: NDArray[np.int32]
    """int32[n]: `model.address.micro_batch_code`."""
    text: NDArray[np.int32]
    """int32[n]: number in `texts`."""
    texts: list[str]
    """What the search looks at: phase, root, FQN, call, slot and module type."""

    @classmethod
    def blank(cls, size: int) -> Columns:
        """Return columns of records of which nothing is known; to be filled in."""
        return cls(np.full(size, 255, np.uint8), np.full(size, NO_PASS, np.int32), np.zeros(size, np.int32), [""])

    def of_phase(self, phase: Phase) -> NDArray[np.bool_]:
        """Return which records belong to a phase."""
        mask: NDArray[np.bool_] = self.phase == PHASE_CODE[phase]
        return mask

    def phases(self) -> list[Phase]:
        """Return the phases that occur."""
        return [PHASES[code] for code in np.unique(self.phase) if code < len(PHASES)]

    def matching(self, words: str) -> NDArray[np.intp]:
        """Return the records whose text has the words in it; capitals count only if the words have some."""
        exact = words != words.lower()
        hits = [words in (text if exact else text.lower()) for text in self.texts]
        return np.flatnonzero(np.array(hits, bool)[self.text])


Source = Callable[[Comparison, Stopped, Progress], Columns]
"""A way to read the columns; raises StoppedError as soon as nobody waits any more."""


def of_records(comparison: Comparison, stopped: Stopped, progress: Progress) -> Columns:
    """Return the columns of any comparison: a `Source` that takes some 10 us a record."""
    out = Columns.blank(len(comparison.state))
    numbers: dict[str, int] = {"": 0}
    for index in range(len(comparison.state)):
        if index % _CHUNK == 0:
            if stopped():
                raise StoppedError
            progress(index / len(comparison.state))
        try:
            a, b = comparison.pair(index)
        except Exception:  # shown as unreadable where it stands; here it just matches nothing
            continue
        record = a or b
        if record is not None:
            out.phase[index] = PHASE_CODE[record.address.phase]
            out.micro_batch[index] = micro_batch_code(record.address.micro_batch)
            out.text[index] = numbers.setdefault(_text(record.address, record.module_type), len(numbers))
    out.texts[:] = numbers
    return out


def of_files(a: Run, b: Run) -> Source:
    """Return a `Source` that takes whole columns out of the files' index: some 0.2 us a record."""

    def source(comparison: Comparison, stopped: Stopped, progress: Progress) -> Columns:
        out = Columns.blank(len(comparison.state))
        for run, rows in (
            (b, comparison.row_b),
            (a, comparison.row_a),
        ):  # A's names where both have the record
            for rank, file in run.ranks.items():
                if stopped():
                    raise StoppedError
                there = np.flatnonzero((comparison.rank == rank) & (rows >= 0))
                _fill(out, there, file.events[rows[there]], file)
        progress(1.0)
        return out

    return source


def _fill(out: Columns, there: NDArray[np.intp], events: NDArray[Any], file: RunFile) -> None:
    """Write what some rows of a file say into their places."""
    if not len(there):
        return
    out.phase[there] = events["phase"]
    out.micro_batch[there] = events["micro_batch"]
    parts = [events[name].astype(np.int64) for name in ("phase", "name", "call", "slot")]
    key = np.zeros(len(there), np.int64)
    for part in parts:  # one number for the four of them: far below 2**63 in any run that fits in memory
        key = key * (int(part.max()) + 1) + part
    _, one, number = np.unique(key, return_index=True, return_inverse=True)
    out.text[there] = len(out.texts) + number
    for phase, name, call, slot in zip(*(part[one].tolist() for part in parts), strict=True):
        root, fqn, kind = file.names[name]
        address = Address(
            rank=0,
            step=0,
            micro_batch="-",
            phase=PHASES[phase],
            root=root,
            fqn=fqn,
            call=call,
            slot=file.slots[slot],
        )
        out.texts.append(_text(address, kind))


def _text(address: Address, module_type: str) -> str:
    """Return what the search looks at: the address from its phase on, and the module's type."""
    return f"{str(address).split('/', 3)[3]} {module_type}"
