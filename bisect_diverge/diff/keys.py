"""One numbering for the names of two files, and one integer for each row's place in its run.

Names, slots and sites are interned per file. They are brought to a common numbering first (a Python loop over
the tables, which hold hundreds of entries); the rows, of which there may be millions, are then only indexed
with numpy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.diff.options import rename
from bisect_diverge.model.address import PHASE_CODE, Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.store.reader import RunFile

PARAMETER_SLOTS = ("param", "buffer")
"""Slots of parameters and buffers; in phase ``forward`` of those that were changed outside of an update."""

Part = NDArray[np.signedinteger[Any]]
"""One part of the addresses of rows: int32 where that is wide enough, as there may be millions of rows."""

_CODE_LIMIT = 1 << 62

_Entry = TypeVar("_Entry", tuple[str, str], str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The common numbering of two files."""

    places: tuple[tuple[str, str], ...]
    """Root and FQN of each place number, as they are in A."""
    slots: tuple[str, ...]
    """Text of each slot number."""
    place_a: NDArray[np.int64]
    """Place of each of A's name numbers."""
    place_b: NDArray[np.int64]
    """Place of each of B's name numbers."""
    slot_a: NDArray[np.int64]
    """Slot of each of A's slot numbers."""
    slot_b: NDArray[np.int64]
    """Slot of each of B's slot numbers."""
    site_a: NDArray[np.int64]
    """Common number of each of A's sites."""
    site_b: NDArray[np.int64]
    """Common number of each of B's sites."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What says where a row stands, one array per part, all of the same length, in execution order."""

    step: Part
    """Step in A's numbering."""
    micro_batch: Part
    """Code of the micro-batch."""
    phase: Part
    """Code of the phase."""
    place: Part
    """Place number."""
    call: Part
    """Call."""
    slot: Part
    """Slot number."""

    def __len__(self) -> int:
        return len(self.step)

    def parts(self) -> tuple[Part, ...]:
        """Return the arrays whose values make up a row's address."""
        return self.step, self.micro_batch, self.phase, self.place, self.call, self.slot

    def with_call(self, call: Part) -> Columns:
        """Return the same rows with other call numbers."""
        return replace(self, call=call)

    def take(self, rows: NDArray[Any]) -> Columns:
        """Return some of the rows."""
        return Columns(
            step=self.step[rows],
            micro_batch=self.micro_batch[rows],
            phase=self.phase[rows],
            place=self.place[rows],
            call=self.call[rows],
            slot=self.slot[rows],
        )


def common_tables(a: RunFile, b: RunFile, renamed: tuple[tuple[str, str], ...]) -> Tables:
    """Return the common numbering of two files; B's names are read through `renamed`."""
    places: dict[tuple[str, str], int] = {}
    slots: dict[str, int] = {}
    sites: dict[str, int] = {}
    place_a = _intern(places, [(root, fqn) for root, fqn, _ in a.names])
    place_b = _intern(places, [rename(root, fqn, renamed) for root, fqn, _ in b.names])
    slot_a, slot_b = _intern(slots, a.slots), _intern(slots, b.slots)
    site_a, site_b = _intern(sites, a.sites), _intern(sites, b.sites)
    return Tables(
        places=tuple(places),
        slots=tuple(slots),
        place_a=place_a,
        place_b=place_b,
        slot_a=slot_a,
        slot_b=slot_b,
        site_a=site_a,
        site_b=site_b,
    )


def columns(file: RunFile, place: NDArray[np.int64], slot: NDArray[np.int64], offset: int = 0) -> Columns:
    """Return where each row of a file stands.

    Args:
        file: The file.
        place: Place of each of its name numbers.
        slot: Common slot of each of its slot numbers.
        offset: Added to its steps.
    """
    events = file.events
    return Columns(
        step=events["step"].astype(np.int64) + offset if offset else np.ascontiguousarray(events["step"]),
        micro_batch=np.ascontiguousarray(events["micro_batch"]),
        phase=events["phase"].astype(np.int32),
        place=place.astype(np.int32)[events["name"]],
        call=events["call"].astype(np.int64),
        slot=slot.astype(np.int32)[events["slot"]],
    )


def is_call(rows: Columns, tables: Tables) -> NDArray[np.bool_]:
    """Return which rows show that a module was called: forward rows but the loss and changed parameters."""
    others = [number for number, slot in enumerate(tables.slots) if slot == "value" or slot in PARAMETER_SLOTS]
    out: NDArray[np.bool_] = rows.phase == PHASE_CODE[Phase.FORWARD]
    for slot in others:
        out &= rows.slot != slot
    return out


def is_changed(rows: Columns, tables: Tables) -> NDArray[np.bool_]:
    """Return which rows show a parameter or buffer that was changed outside of an update."""
    slots = [number for number, slot in enumerate(tables.slots) if slot in PARAMETER_SLOTS]
    forward: NDArray[np.bool_] = rows.phase == PHASE_CODE[Phase.FORWARD]
    return np.asarray(forward & np.isin(rows.slot, slots))


def place_text(root: str, fqn: str) -> str:
    """Return a place in words: ``root:fqn``, or the root alone."""
    return f"{root}:{fqn}" if fqn else root


def parameter_names(place: tuple[str, str], known: set[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the parameters, root and FQN as in their initial rows, that an optimizer row's name may mean."""
    _, fqn = place
    if place in known:
        return [place]
    head, _, rest = fqn.partition(".")
    if (head, rest) in known:
        return [(head, rest)]
    return [name for name in known if name[1] == fqn]


def codes(a: Sequence[Part], b: Sequence[Part]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return one integer per row that is equal exactly where all parts are equal, in either run.

    The parts are digits of a mixed-radix number; when it would exceed 62 bits, the codes so far are replaced
    by their ranks, which keeps the result exact where a hash would not be.

    Args:
        a: Parts of A's rows, integers[n] each.
        b: The same parts of B's rows, integers[m] each.
    """
    split = len(a[0])
    code = np.zeros(split + len(b[0]), np.int64)
    size = 1
    for of_a, of_b in zip(a, b, strict=True):
        part = np.concatenate([of_a, of_b])
        low = int(part.min()) if len(part) else 0
        radix = int(part.max()) - low + 1 if len(part) else 1
        if size * radix > _CODE_LIMIT:
            unique, code = np.unique(code, return_inverse=True)
            size = len(unique)
        if size * radix > _CODE_LIMIT:
            unique, part = np.unique(part, return_inverse=True)
            low, radix = 0, len(unique)
        code = code * radix + (part - low)
        size *= radix
    return code[:split], code[split:]


def _intern(numbers: dict[_Entry, int], entries: Sequence[_Entry]) -> NDArray[np.int64]:
    return np.array([numbers.setdefault(entry, len(numbers)) for entry in entries], np.int64)
