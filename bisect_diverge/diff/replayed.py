"""A step that was replayed in place, set beside the recorded one: whose own computation differs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bisect_diverge.diff.options import DiffOptions
from bisect_diverge.diff.owners import WEIGHTS, Key, Owner, Owners
from bisect_diverge.diff.statistics import statistics_at
from bisect_diverge.diff.trace import RowState, Trace, build_trace
from bisect_diverge.model.address import Phase
from bisect_diverge.model.record import Flag
from bisect_diverge.model.replay import LEFT_OVER, Moved, Own, Part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from bisect_diverge.model.address import Address
    from bisect_diverge.model.replay import Forced
    from bisect_diverge.store.reader import RunFile

NOT_MADE = "the replay did not make this call"
NO_BYTES = "it has no readable bytes"
UNLIKE = "its digests were made by different algorithms"
ACTIVATIONS = "a tensor of the forward, or a gradient before it, could not be set to A's"
MOVED_BUFFERS = "its buffers had moved in an earlier call of the step, and A has no record of them in between"
DREW = "a generator stands elsewhere than in A when this is made"
NO_STATE = "the optimizer's state before the step was not recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One replay of a step."""

    file: RunFile
    """Its recording."""
    forced: Forced
    """What it has set to A's bits."""


def replayed(a: RunFile, step: int, control: Side, changed: Side) -> tuple[Own, ...]:
    """Return everything that computes something in a step, and what came of replaying it.

    Args:
        a: The recording that the step was replayed from, one rank of it.
        step: The step.
        control: The replay under A's own settings.
        changed: The replay under other settings.
    """
    owners = Owners(a, step)
    of_control, of_changed = _Seen(a, control, owners), _Seen(a, changed, owners)
    began = int(a.events["step"].min()) if len(a.events) else 0
    found = []
    for key, owner in owners.all.items():
        if not owner.made:  # a module that returns nothing that is recorded
            continue
        reason = of_control.why_not(key, owner)
        moved: list[int] = []
        if reason:
            reason = f"under A's own settings: {reason}"
        elif row := next(iter(of_control.differing(owner)), None):
            reason = f"it does not reproduce itself under A's own settings: {a.address(row).slot} differs"
        elif owner.part is Part.UPDATE and began == step > 0 and _has_state(a, owner):
            reason = NO_STATE
        else:
            reason = of_changed.why_not(key, owner)
            moved = [] if reason else of_changed.differing(owner)
        found.append(_own(owner, reason, [of_changed.moved(row, owner.made[row]) for row in moved]))
    return tuple(found)


def _own(owner: Owner, reason: str, moved: list[Moved]) -> Own:
    first = owner.first
    return Own(
        part=owner.part,
        address=first.address,
        module_type=first.module_type,
        site=first.site,
        moved=tuple(moved),
        reason=reason,
    )


def _has_state(a: RunFile, owner: Owner) -> bool:
    return any(a.address(row).slot.startswith("state.") for row in owner.made)


class _Seen:
    """What one replay made of the rows of A's step."""

    def __init__(self, a: RunFile, side: Side, owners: Owners) -> None:
        self._a = a
        self._forced = side.forced
        self._written = frozenset(side.forced.written)
        self._owners = owners
        self._trace: Trace = build_trace(a.record.rank, a, side.file, DiffOptions())
        of_a = np.flatnonzero(self._trace.row_a >= 0)
        self._at = np.zeros(len(a.events), np.int64)
        self._at[self._trace.row_a[of_a]] = of_a
        self._flags = a.events["flags"]

    # -- rows --------------------------------------------------------------------------------------------------

    def _state(self, row: int) -> RowState:
        return RowState(int(self._trace.state[self._at[row]]))

    def differing(self, owner: Owner) -> list[int]:
        """Return the rows that an owner computed with other bits."""
        return [row for row in owner.made if self._state(row) in (RowState.DIFFERS, RowState.ONLY_A)]

    def moved(self, row: int, inside: str) -> Moved:
        """Return how a row differs."""
        address = self._a.address(row)
        if self._state(row) is RowState.ONLY_A:
            return Moved(address=address, inside=inside, note="A drew here, the replay did not")
        if address.phase is Phase.RNG:
            return Moved(address=address, inside=inside, note="it drew otherwise")
        found = statistics_at(self._trace, int(self._at[row]))
        return Moved(address=address, inside=inside, statistics=found, note="" if found else self._no_statistics(row))

    def _no_statistics(self, row: int) -> str:
        trace, at = self._trace, self._at[row]
        of_a, of_b = self._a.events[row], trace.b.events[trace.row_b[at]]
        alike = of_a["dtype"] == of_b["dtype"] and self._a.shapes[of_a["shape"]] == trace.b.shapes[of_b["shape"]]
        return "only digests were kept" if alike else "another type or shape"

    def _unset(self, rows: Iterable[int]) -> Iterator[int]:
        """Yield those rows that differ and were not set to A's bits, or that nobody can see."""
        for row in rows:
            unseen = self._flags[row] & Flag.UNHASHABLE or self._state(row) is not RowState.EQUAL
            if unseen and row not in self._written:
                yield row

    # -- reasons -----------------------------------------------------------------------------------------------

    def why_not(self, key: Key, owner: Owner) -> str:
        """Return why what an owner computed cannot be judged; empty where it can."""
        for row in owner.made:
            if self._flags[row] & Flag.UNHASHABLE:
                return f"{self._a.address(row).slot}: {NO_BYTES}"
            if self._forced.failed.get(row) == LEFT_OVER:
                return LEFT_OVER
            if self._state(row) is RowState.IGNORED:
                return f"{self._a.address(row).slot}: {UNLIKE}"
            if self._state(row) is RowState.ONLY_A and self._a.address(row).phase is not Phase.RNG:
                return NOT_MADE
        for row in self._unset(owner.used):
            address = self._a.address(row)
            return f"{address.slot} of {address.fqn or address.root}: {self._why_unset(row)}"
        return self._why_not_weights(owner) or _REASONS[owner.part](self, key, owner)

    def _why_unset(self, row: int) -> str:
        if self._flags[row] & Flag.UNHASHABLE:
            return NO_BYTES
        if self._state(row) is RowState.ONLY_A:
            return "the replay does not have it"
        if self._flags[row] & Flag.SCALAR:
            return "it is a number or a text, which cannot be set"
        return self._forced.failed.get(row, "it was not set to A's")

    def _why_not_weights(self, owner: Owner) -> str:
        """Return why a parameter, buffer or state that something works with is not A's; empty where it is."""
        for weight, reason in self._weights_unset:
            if _uses(owner, weight):
                return f"{weight.slot} {weight.fqn}: {reason}"
        return ""

    @cached_property
    def _weights_unset(self) -> list[tuple[Address, str]]:
        """Parameters, buffers and state that were not A's when the step began, and why."""
        rows = {row: self._why_unset(row) for row in self._unset(self._owners.weights)}
        step = self._a.events["step"]
        rows |= {row: why for row, why in self._forced.failed.items() if step[row] < self._owners.step}
        found = [(self._a.address(row), why) for row, why in rows.items()]
        changed = [(self._a.address(row), why) for row, why in self._forced.failed.items() if row not in rows]
        return found + [(at, why) for at, why in changed if at.phase is Phase.FORWARD and at.slot in WEIGHTS]

    @cached_property
    def _first_unset(self) -> int:
        """First row of the forward that was not set to A's; beyond all rows where there is none."""
        rows = self._unset(sorted((*self._owners.given, *self._owners.forward)))
        return next(rows, len(self._a.events))

    @cached_property
    def _first_gradient_unset(self) -> int:
        """The same of the gradients of activations."""
        return next(self._unset(self._owners.backward), len(self._a.events))

    def why_not_outside(self, _key: Key, owner: Owner) -> str:
        """Return why code outside of modules cannot be judged."""
        if any(self._state(row) is not RowState.EQUAL for row in self._owners.states):
            return DREW
        return ACTIVATIONS if self._first_unset < min(owner.made) else ""

    def why_not_gradient(self, _key: Key, owner: Owner) -> str:
        """Return why a gradient cannot be judged: what it was made from is spread over the step."""
        spoilt = any(weight.slot == "param" for weight, _ in self._weights_unset)
        row = min(owner.made)
        return ACTIVATIONS if spoilt or self._first_unset < row or self._first_gradient_unset < row else ""

    def why_not_module(self, key: Key, owner: Owner) -> str:
        """Return why a module call cannot be judged although its inputs are A's: it writes into its buffers."""
        address = owner.first.address
        earlier = self._calls[address.root, address.fqn][0] != key
        return MOVED_BUFFERS if earlier and self._has_moved_buffer(address) and self.differing(owner) else ""

    def why_not_buffer(self, _key: Key, owner: Owner) -> str:
        """Return why a buffer cannot be judged: all calls of its module move it."""
        address = owner.first.address
        for call in self._calls.get((address.root, address.fqn.rpartition(".")[0]), ()):
            reason = self.why_not(call, self._owners.all[call])
            if reason and reason != MOVED_BUFFERS:
                return reason
        return ""

    def why_not_update(self, _key: Key, _owner: Owner) -> str:
        """Return why an update cannot be judged: gradient and state have been looked at."""
        return ""

    @cached_property
    def _calls(self) -> dict[tuple[str, str], list[Key]]:
        """Root and FQN to the calls of a module in the step."""
        found: dict[tuple[str, str], list[Key]] = {}
        for key, owner in self._owners.all.items():
            if owner.part is Part.MODULE:
                found.setdefault((owner.first.address.root, owner.first.address.fqn), []).append(key)
        return found

    def _has_moved_buffer(self, module: Address) -> bool:
        return any(
            owner.part is Part.BUFFER
            and owner.first.address.root == module.root
            and owner.first.address.fqn.rpartition(".")[0] == module.fqn
            and self.differing(owner)
            for owner in self._owners.all.values()
        )


def _uses(owner: Owner, weight: Address) -> bool:
    """Whether something works with a parameter, buffer or state; an optimizer may name it after its root."""
    address, holder = owner.first.address, weight.fqn.rpartition(".")[0]
    if owner.part is Part.MODULE:
        return weight.slot in WEIGHTS and holder in (address.fqn, f"{address.root}.{address.fqn}")
    if owner.part is Part.UPDATE:
        return weight.fqn in (address.fqn, f"{weight.root}.{address.fqn}") or address.fqn.endswith(f".{weight.fqn}")
    return owner.part is Part.BUFFER and (weight.slot, weight.fqn) == ("buffer", address.fqn)


_REASONS: dict[Part, Callable[[_Seen, Key, Owner], str]] = {
    Part.MODULE: _Seen.why_not_module,
    Part.OUTSIDE: _Seen.why_not_outside,
    Part.GRADIENT: _Seen.why_not_gradient,
    Part.BUFFER: _Seen.why_not_buffer,
    Part.UPDATE: _Seen.why_not_update,
}
"""What else has to be A's."""
