"""Rows that wait for digests from a device, and those behind them: the file keeps the order in which things happened.

A waiting row has a *ticket*: the number it will have in the file unless a row before it, of the same step, turns out
to be none (a weight that was looked at and has not changed). `number` turns a ticket into the row's number.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch

from bisect_diverge.record.capture import Captured
from bisect_diverge.record.device import DevicePath, Fetched
from bisect_diverge.record.weights import Weights

if TYPE_CHECKING:
    from bisect_diverge.store.writer import RunWriter

WAITING_ROWS = 1 << 16
"""Rows at which the devices are waited for inside a step."""


class Place(NamedTuple):
    """Where a row stands: the numbers that `RunWriter.add` takes after the digest."""

    step: int
    micro_batch: int
    phase: int
    name: int
    call: int
    slot: int
    dtype: int
    shape: int
    site: int
    flags: int


class _Row(NamedTuple):
    place: Place
    taken: Captured
    offset: int
    """First element of the bytes in their pool, where they are kept already; -1: not, or not yet."""
    source: int
    """Ticket of an earlier row of the same tensor, or -1."""
    weight: weakref.ref[torch.Tensor] | None
    only_if_changed: bool


class DeviceRows:
    """The rows of a step that wait.

    Args:
        device: Has their sums.
        weights: Told of the digests of parameters and buffers as they become known.
        on_failure: Called with the error and the number of rows lost when the devices do not answer.
    """

    def __init__(self, device: DevicePath, weights: Weights, on_failure: Callable[[Exception, int], None]) -> None:
        self._device = device
        self._weights = weights
        self._on_failure = on_failure
        self.idle = True
        """Whether a row needs no ticket: none waits, and none was left out in this step."""
        self._rows: list[_Row] = []
        self._left_out: list[int] = []
        """Tickets of this step that have no row."""

    def add(
        self,
        writer: RunWriter,
        place: Place,
        taken: Captured,
        source: int,
        weight: torch.Tensor | None,
        only_if_changed: bool,
    ) -> int:
        """Let a row wait, unless there is nothing to wait for, and return its ticket.

        Bytes that are on the host are copied before this returns.
        """
        if taken.later is None and not self._rows:
            number = self.number(source)
            row = writer.add(taken.digest, *place, value=taken.value, source=number, data=taken.data)
            return row + len(self._left_out)
        offset = -1 if taken.data is None else writer.keep(taken.digest, taken.dtype, taken.data)
        ticket = writer.rows + len(self._left_out) + len(self._rows)
        reference = None if weight is None else weakref.ref(weight)
        self.idle = False
        self._rows.append(_Row(place, taken._replace(data=None), offset, source, reference, only_if_changed))
        if len(self._rows) >= WAITING_ROWS:  # not before: its own sums would be fetched and missed
            self.write(writer)
        return ticket

    def number(self, ticket: int) -> int:
        """Return the number in the file of a ticket of this step; -1 stays -1."""
        return ticket - bisect_left(self._left_out, ticket) if self._left_out else ticket

    def write(self, writer: RunWriter) -> None:
        """Wait for the devices once and write all rows; those whose digest does not arrive are left out."""
        if not self._rows:
            return
        fetched: Fetched | None = None
        try:
            if any(row.taken.later is not None for row in self._rows):
                fetched = self._device.fetch()
        except Exception as error:  # the device is lost: what the host knows is written all the same
            self._device.forget()
            self._on_failure(error, sum(row.taken.later is not None for row in self._rows))
        first = writer.rows + len(self._left_out)
        rows, self._rows = self._rows, []
        for ticket, row in enumerate(rows, first):
            if not self._write_one(writer, row, fetched):
                self._left_out.append(ticket)
        self._device.release()

    def _write_one(self, writer: RunWriter, row: _Row, fetched: Fetched | None) -> bool:
        taken, offset, later = row.taken, row.offset, row.taken.later
        digest, value = taken.digest, taken.value
        if later is not None:
            if fetched is None:
                return False
            digest, value = later.digest(fetched), later.value(fetched)
            if row.weight is not None and not self._note(row.weight, digest) and row.only_if_changed:
                return False
            if later.copy is not None:
                offset = writer.keep(digest, taken.dtype, later.copy.numpy())
        writer.add(digest, *row.place, value=value, source=self.number(row.source), offset=offset)
        return True

    def _note(self, weight: weakref.ref[torch.Tensor], digest: bytes) -> bool:
        """Remember the bits of a parameter or buffer; return whether they are not those that were known."""
        tensor = weight()
        if tensor is None:
            return False
        changed = self._weights.changed(tensor, digest, on_device=True)
        self._weights.note(tensor, digest, on_device=True)
        return changed

    def new_step(self) -> None:
        """Forget the tickets of the step that has been written."""
        self._left_out.clear()
        self.idle = not self._rows

    def forget(self) -> None:
        """Drop everything: the devices belong to the parent of this process."""
        self._rows.clear()
        self.new_step()
        self._device.forget()
