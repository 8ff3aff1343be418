"""Who computed each record of a step: a module call, the code outside of modules, a backward, an update.

A tensor that goes into a module was made by the code of the call that encloses it, and so was what that call returns;
what a call is given, and what its modules return, it only uses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from bisect_diverge.model.address import Phase
from bisect_diverge.model.replay import Part

if TYPE_CHECKING:
    from collections.abc import Callable

    from bisect_diverge.model.address import Address
    from bisect_diverge.model.record import TensorRecord
    from bisect_diverge.store.reader import RunFile

Key = tuple[str, ...]
"""Names an owner within a step."""

WEIGHTS = ("param", "buffer")
"""Slots."""


@dataclass(slots=True, kw_only=True)
class Owner:
    """Something that computes records of a step."""

    part: Part
    """What it is."""
    first: TensorRecord
    """Its first record."""
    made: dict[int, str] = field(default_factory=dict)
    """Row of each record that it computed to the part of its code that did (`model.replay.Moved.inside`)."""
    used: list[int] = field(default_factory=list)
    """Rows of what it was given."""


@dataclass(slots=True)
class _Open:
    """A call under way."""

    key: Key
    fqn: str
    last: str = ""
    """FQN of the last module that it has called."""


def _call_key(address: Address, phase: Phase | None = None) -> Key:
    """Return the key of the module call that a record belongs to, in its own phase or in another one."""
    return (address.micro_batch, phase or address.phase, address.root, address.fqn, str(address.call))


class Owners:
    """Who computed each record of one step of one rank.

    Args:
        file: The recording.
        step: The step.
    """

    def __init__(self, file: RunFile, step: int) -> None:
        self.step = step
        self.all: dict[Key, Owner] = {}
        """In the order of their first records."""
        self.given: list[int] = []
        """Rows of batches."""
        self.weights: list[int] = []
        """Rows of parameters and buffers as they were first, where the step begins with them."""
        self.backward: list[int] = []
        """Rows of gradients of activations."""
        self.states: list[int] = []
        """Rows of the generator's state that roots found."""
        self.forward: list[int] = []
        """Rows of module calls: inputs and outputs."""
        self._same: dict[int, int] = {}
        """Row to the first row of the same tensor, or of the one that it is a view of."""
        self._users: dict[int, list[str]] = {}
        """Such a first row to the modules that were given the tensor."""
        self._outputs: dict[Key, int] = {}
        """Call and slot of an output to the first row of its tensor."""
        self._open: list[_Open] = []
        self._closed: Key = ()
        for row in np.flatnonzero(file.events["step"] == step).tolist():
            record = file.record_at(row)
            _TAKE[record.address.phase](self, record)

    # -- module calls ------------------------------------------------------------------------------------------

    def _call(self, record: TensorRecord) -> None:
        address, key = record.address, _call_key(record.address)
        if address.slot in WEIGHTS:  # changed outside of an update: the step begins with it
            return
        if address.slot.startswith("value"):
            self._outside(record)
            return
        if key != self._closed:
            self._close()
        self.forward.append(record.row)
        self._same[record.row] = self._same.get(record.source, record.row)
        if address.slot.startswith("output."):
            self._output(record, key)
        else:
            self._input(record, key)

    def _input(self, record: TensorRecord, key: Key) -> None:
        fqn = record.address.fqn
        self._users.setdefault(self._same[record.row], []).append(fqn)
        if not any(call.key == key for call in self._open):
            if not fqn:  # a root: whatever an exception has left open has ended
                self._open.clear()
            self._open.append(_Open(key, fqn))
        at = next(i for i, call in enumerate(self._open) if call.key == key)
        self._owner(key, Part.MODULE, record).used.append(record.row)
        if at:
            parent = self._open[at - 1]
            after = _below(parent.last, parent.fqn)
            inside = f"between {after} and {_below(fqn, parent.fqn)}" if after else f"before {_below(fqn, parent.fqn)}"
            self._owner(parent.key, Part.MODULE, record).made[record.row] = inside
        else:
            self._outside(record)

    def _output(self, record: TensorRecord, key: Key) -> None:
        at = next((i for i, call in enumerate(self._open) if call.key == key), len(self._open))
        last = self._open[at].last if at < len(self._open) else ""
        owner = self._owner(key, Part.MODULE, record)
        self._outputs[*key, record.address.slot] = self._same[record.row]
        owner.made[record.row] = f"after {_below(last, record.address.fqn)}" if last else ""
        if at:
            parent = self._open[at - 1]
            parent.last = record.address.fqn
            self._owner(parent.key, Part.MODULE, record).used.append(record.row)
        del self._open[at + 1 :]
        self._closed = key

    def _close(self) -> None:
        """Take the call that has returned, and all inside it, from those under way."""
        at = next((i for i, call in enumerate(self._open) if call.key == self._closed), None)
        if at is not None:
            del self._open[at:]
        self._closed = ()

    def _drawn(self, record: TensorRecord) -> None:
        """Give a draw to the call that made it; the state that a root finds is set, and nobody's."""
        address = record.address
        wanted = _call_key(address, Phase.FORWARD)
        if wanted == self._closed or any(call.key == wanted for call in self._open):
            self.all[wanted].made[record.row] = ""
        elif address.micro_batch != "-":
            self.states.append(record.row)

    # -- the rest ----------------------------------------------------------------------------------------------

    def _outside(self, record: TensorRecord) -> None:
        self._owner(("outside", *_call_key(record.address)), Part.OUTSIDE, record).made[record.row] = ""

    def _gradient(self, record: TensorRecord, used_by: str) -> None:
        self._open.clear()
        key = (*_call_key(record.address), record.address.slot)
        self._owner(key, Part.GRADIENT, record).made[record.row] = used_by

    def _users_of(self, address: Address) -> str:
        """Return the innermost modules that were given the output that a gradient belongs to."""
        forward = _call_key(address, Phase.FORWARD)
        row = self._outputs.get((*forward, address.slot.removeprefix("grad_")), -1)
        users = dict.fromkeys(self._users.get(row, ()))
        inner = [fqn for fqn in users if not any(other.startswith(f"{fqn}.") for other in users)]
        return f"used by {', '.join(inner)}" if inner else "used by code between modules"

    def _optimizer(self, record: TensorRecord) -> None:
        address = record.address
        key: Key = ("update", address.root, address.fqn, str(address.call))
        if address.slot == "grad":
            self._gradient(record, "")
            self._owner(key, Part.UPDATE, record).used.append(record.row)
        elif address.slot == "buffer":
            self._owner(("buffer", address.root, address.fqn), Part.BUFFER, record).made[record.row] = ""
        elif address.slot == "param" or address.slot.startswith("state."):
            self._owner(key, Part.UPDATE, record).made[record.row] = ""

    def _batch(self, record: TensorRecord) -> None:
        self.given.append(record.row)

    def _weight(self, record: TensorRecord) -> None:
        self.weights.append(record.row)

    def _backward(self, record: TensorRecord) -> None:
        self.backward.append(record.row)
        self._gradient(record, self._users_of(record.address))

    def _owner(self, key: Key, part: Part, record: TensorRecord) -> Owner:
        found = self.all.get(key)
        if found is None:
            found = self.all[key] = Owner(part=part, first=record)
        return found


def _below(fqn: str, parent: str) -> str:
    """Return a name as it is seen from a module that encloses it."""
    return fqn.removeprefix(f"{parent}.") if parent else fqn


_TAKE: dict[Phase, Callable[[Owners, TensorRecord], None]] = {
    Phase.INIT: Owners._weight,
    Phase.DATA: Owners._batch,
    Phase.FORWARD: Owners._call,
    Phase.RECOMPUTE: Owners._call,
    Phase.BACKWARD: Owners._backward,
    Phase.OPTIMIZER: Owners._optimizer,
    Phase.RNG: Owners._drawn,
}
