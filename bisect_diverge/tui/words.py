"""How records are written on a line: plain functions from values to text."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from bisect_diverge.model.address import Address, Phase
from bisect_diverge.model.divergence import ElementStatistics
from bisect_diverge.model.elements import shape_text, short_type
from bisect_diverge.model.record import TensorRecord
from bisect_diverge.tui import states
from bisect_diverge.tui.records import Row
from bisect_diverge.tui.trace import Line

SHORT_PHASE = {
    Phase.INIT: "init",
    Phase.DATA: "data",
    Phase.FORWARD: "fwd",
    Phase.BACKWARD: "bwd",
    Phase.OPTIMIZER: "opt",
    Phase.RNG: "rng",
    Phase.RECOMPUTE: "rec",
}

SEPARATOR = " · "

ANY_ROOM = 10_000
"""Cells where there is no limit: exported files."""

_NAME = 12
"""Cells of a name that a long slot leaves to it."""


def plain(text: str) -> str:
    """Return text without anything a terminal would act on: escapes, bidirectional marks, lone surrogates."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)


def count(number: int) -> str:
    """Return a count with its thousands apart: ``49 152``."""
    return f"{number:,}".replace(",", " ")


def compact(number: int, room: int) -> str:
    """Return a count in at most that many cells if it can be had: ``49 152``, else ``4.9e4``."""
    exact = count(number)
    if len(exact) <= room:
        return exact
    digits, _, power = f"{number:.1e}".partition("e")
    return f"{digits}e{int(power)}"


def plural(number: int, word: str, words: str = "") -> str:
    """Return a count with its noun: ``1 record``, ``2 records``."""
    return f"{count(number)} {word if number == 1 else words or word + 's'}"


def magnitude(value: float) -> str:
    """Return a number as people compare it: six digits."""
    return f"{value:.6g}"


def fit(text: str, width: int) -> str:
    """Return text in exactly that many cells, cut at its end with ``…``."""
    if cell_len(text) > width:
        return set_cell_size(text, width - 1) + "…" if width > 0 else ""
    return set_cell_size(text, width)


def shorten_left(text: str, width: int) -> str:
    """Return text in at most that many cells, cut at its start with ``…``, between two names if possible."""
    if cell_len(text) <= width:
        return text
    tail = _tail(text, width - 1)
    joint = re.search(r"[.:/](?=.)", tail)
    if joint is not None and joint.start() <= len(tail) // 2 and not _tells(text, tail, joint.start()):
        tail = tail[joint.end() :]
    return f"…{tail}" if width > 0 else ""


def _tail(text: str, width: int) -> str:
    """Return the end of a text, at most that many cells."""
    while text and cell_len(text) > width:
        text = text[1:]
    return text


def _tells(text: str, tail: str, end: int) -> bool:
    """Return whether what is left of a cut name tells it from its neighbours: all of it, or its whole number."""
    before = text[: len(text) - len(tail)][-1:]
    number = re.search(r"\d+$", tail[:end])
    return before in set(".:/") or (number is not None and (number.start() > 0 or not before.isdigit()))


def shorten_slot(slot: str, width: int) -> str:
    """Return a slot in at most that many cells: without ``state.``, then cut in its middle."""
    if cell_len(slot) <= width:
        return slot
    bare = slot.removeprefix("state.")
    if bare != slot and cell_len(bare) < width:
        return f"…{bare}"
    head = max(0, width - 1) // 2
    return f"{set_cell_size(bare, head)}…{_tail(bare, width - 1 - head)}" if width > 0 else ""


def shorten_both(a: str, b: str, room: int) -> tuple[str, str]:
    """Return two texts that fit the room together, cut at their starts; a short one leaves its cells to the other."""
    half = room // 2
    for_a = max(half, room - cell_len(b))
    short_a = shorten_left(a, for_a)
    return short_a, shorten_left(b, max(half, room - cell_len(short_a)))


def first_that_fits(room: int, *texts: str) -> str:
    """Return the first text that fits, else the last."""
    return next((text for text in texts if cell_len(text) <= room), texts[-1])


def name_of(address: Address) -> str:
    """Return root, FQN and call, without what is empty or 0: ``model:h.0``, ``model``, ``model:f#1``."""
    place = str(address).split("/", 4)[4].rpartition(":")[0]
    name, _, call = place.rpartition("#")
    return plain(name.removesuffix(":") + (f"#{call}" if call != "0" else ""))


def slot_of(address: Address) -> str:
    """Return the slot as in the address."""
    return plain(str(address).rpartition(":")[2])


def step_of(address: Address, *, ranks: bool) -> str:
    """Return step and micro-batch: ``3/1``; with several ranks ``r0 3/1``."""
    place = f"{address.step}/{address.micro_batch}"
    return f"r{address.rank} {place}" if ranks else place


def moment(address: Address) -> str:
    """Return step, micro-batch and phase in words."""
    micro = address.micro_batch
    middle = [] if micro == "-" else [f"micro-batch {micro}"]
    return SEPARATOR.join([f"step {address.step}", *middle, str(address.phase)])


def type_of(record: TensorRecord) -> str:
    """Return dtype and shape in one word, or the value where there is exactly one number."""
    if math.prod(record.shape) == 1 and not math.isnan(record.value):
        return magnitude(record.value)
    return shape_text(record.dtype, record.shape)


def difference_of(a: TensorRecord, b: TensorRecord, found: ElementStatistics | None, room: int = ANY_ROOM) -> str:
    """Return in few characters how two records differ, as far as it is known: numbers and units fit the room."""
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return first_that_fits(room, f"{_shape(a)} → {_shape(b)}", _kinds(a, b))
    if found is not None and found.max_ulp is not None and found.max_ulp > 0:
        return f"{compact(found.max_ulp, room - 4)} ULP"
    if found is not None:
        short = f"{compact(found.differing, (room - 4) // 2)} of {compact(found.numel, (room - 4) // 2)}"
        return first_that_fits(room, f"{count(found.differing)} of {count(found.numel)}", short)
    if type_of(a) != type_of(b):
        return first_that_fits(room, f"{type_of(a)} → {type_of(b)}", f"Δ {b.value - a.value:.2g}")
    return _shape(a)


def _shape(record: TensorRecord) -> str:
    return shape_text(record.dtype, record.shape)


def _kinds(a: TensorRecord, b: TensorRecord) -> str:
    """Return how two records differ before their elements do, in few characters."""
    if a.dtype == b.dtype:
        return "other shape"
    return f"{short_type(a.dtype)} → {short_type(b.dtype)}"


def detail_of(row: Row, found: ElementStatistics | None, room: int = ANY_ROOM) -> str:
    """Return the last column of a row, which has that many cells."""
    if row.problem:
        return plain(row.problem)
    if row.state in (states.ONLY_A, states.ONLY_B, states.IGNORED):
        return states.LOOKS[row.state].word
    if row.state == states.DIFFERS and row.a is not None and row.b is not None:
        return difference_of(row.a, row.b, found, room)
    return "" if row.record is None else type_of(row.record)


def fold_of(line: Line, first_step: int, last_step: int) -> str:
    """Return the text of a folded stretch."""
    equal = line.count - line.ignored
    parts = [plural(equal, "equal record")] if equal else []
    if line.ignored:
        parts.append(f"{count(line.ignored)} ignored")
    steps = f"step {first_step}" if first_step == last_step else f"steps {first_step}–{last_step}"
    return f"… {', '.join(parts)}, {steps}"


@dataclass(frozen=True, slots=True)
class Layout:
    """Widths of the columns of a row, in cells."""

    width: int
    """Of the whole row."""
    step: int
    """Of the column with step and micro-batch."""

    @property
    def detail(self) -> int:
        """Width of the last column."""
        return max(14, min(24, self.width // 5))

    @property
    def slot(self) -> int:
        """Width of the slot; a longer one takes cells from the name."""
        return 14 if self.width >= 66 else 12

    @property
    def name(self) -> int:
        """Width of the name: what the others leave."""
        return max(8, self.width - 9 - self.step - self.slot - self.detail - 3)

    def cells(self, row: Row, found: ElementStatistics | None, *, ranks: bool) -> tuple[str, str]:
        """Return glyph and rest of a row, the rest padded to the layout's width."""
        glyph = states.LOOKS[row.state].glyph
        record = row.record
        detail = detail_of(row, found, self.detail)
        if record is None:
            return glyph, fit(f"record {row.index} of the trace: {detail}", self.width - 4)
        address = record.address
        place = fit(step_of(address, ranks=ranks), self.step)
        rest = f"{SHORT_PHASE[address.phase]:<4} {place} {self._name_and_slot(address)} {detail}"
        return glyph, fit(rest, self.width - 4)

    def _name_and_slot(self, address: Address) -> str:
        """Return both in the cells they share: the name is cut first, at its start."""
        room = self.name + self.slot
        slot = shorten_slot(slot_of(address), max(self.slot, room - _NAME))
        slot = fit(slot, max(self.slot, cell_len(slot)))
        left = room - cell_len(slot)
        return f"{fit(shorten_left(name_of(address), left), left)} {slot}"
