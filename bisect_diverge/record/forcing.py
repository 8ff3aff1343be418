"""Replays one step in place: what a module is given, and what it returned, is set to the bits of a recorded run.

Every tensor of the step is recorded as it is, and then, where its bits are not the recorded ones, they are written
into it: into its own memory, so that views, shared parameters, modules that work in place and what autograd has saved
see what they saw in the recorded run. So each module call starts from the recorded inputs, whatever the calls before it
made, and what is recorded of it is its own computation. Where a process computes the recorded bits nothing is written.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from bisect_diverge.model.address import NO_PASS
from bisect_diverge.model.replay import LEFT_OVER, NOT_KEPT, Forced, write_forced
from bisect_diverge.record.capture import Captured, capture
from bisect_diverge.record.codes import FORWARD, INIT, OPTIMIZER, RNG
from bisect_diverge.record.leaves import named_leaves
from bisect_diverge.record.process import rank_and_world_size, reason, say
from bisect_diverge.record.torch_file import as_tensor
from bisect_diverge.store.reader import Run
from bisect_diverge.store.schema import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bisect_diverge.record.recorder import Recorder
    from bisect_diverge.record.settings import ReplaySettings
    from bisect_diverge.record.updates import Updates
    from bisect_diverge.store.reader import RunFile

Key = tuple[int, int, str, str, int, str]
"""Micro-batch, phase, root, FQN, call and slot of a row of the step."""
Call = tuple[int, int, str, str, int]
"""The same without the slot."""

CPU_GENERATOR = "torch.cpu"


class Forcing:
    """What is set in the step that a process replays.

    Args:
        settings: Which step, of which run.
        recorder: Records the process.
        updates: Knows its optimizers.
    """

    def __init__(self, settings: ReplaySettings, recorder: Recorder, updates: Updates) -> None:
        self._settings = settings
        self._recorder = recorder
        self._updates = updates
        self._baseline: _Baseline | None = None
        self._backward_began = False
        self._met: dict[Key, int] = defaultdict(int)
        self._written: list[int] = []
        self._failed: dict[int, str] = {}

    def begin(self) -> None:
        """Set parameters, buffers and optimizer state, if the step begins now, to what they were in A."""
        if self._recorder.steps.step != self._settings.step:
            return
        baseline = self._of_a()
        chosen: dict[int, tuple[int, torch.Tensor]] = {}
        for place, tensor in self._weights():
            row = baseline.last.get(place, -1)
            if row > chosen.get(id(tensor), (-1, None))[0]:
                chosen[id(tensor)] = (row, tensor)
        for row, tensor in chosen.values():
            self._set(row, tensor, capture(tensor))
        for row, state in self._states():
            if isinstance(state, torch.Tensor):
                self._set(row, state, capture(state))
            elif capture(state).digest != baseline.digest(row):
                self._failed[row] = "a number of the optimizer's state cannot be set"

    def row(self, step: int, key: Key, taken: Captured, target: torch.Tensor | None) -> None:
        """Set a tensor that has just been recorded.

        Args:
            step: Step of the row.
            key: Where it was recorded.
            taken: Its bits; when a device has not told them yet it is set in any case.
            target: The tensor; None: what was recorded is none.
        """
        if step != self._settings.step or target is None:
            return
        if key[-1].startswith("value") and not self._backward_began:
            self._backward_began = True
            self._left_over()
        rows = self._of_a().rows.get(key)
        occurrence = self._met[key]
        self._met[key] = occurrence + 1
        if rows is not None and occurrence < len(rows):
            self._set(rows[occurrence], target, taken)

    def enter(self, call: Call) -> None:
        """Set torch's generator to what it was in A when this call began."""
        self._follow(self._of_a().entries.get(call, -1) if self._is_here() else -1)

    def leave(self, call: Call) -> None:
        """Set torch's generator to what it was in A when this call had ended."""
        self._follow(self._of_a().exits.get(call, -1) if self._is_here() else -1)

    def tell(self) -> None:
        """Write down what was set."""
        rank, _ = rank_and_world_size()
        try:
            write_forced(
                Path(self._settings.folder), rank, Forced(written=tuple(self._written), failed=dict(self._failed))
            )
        except OSError as error:
            say(f"what was set in the replay could not be told: {reason(error)}")
        if self._baseline is not None:
            self._baseline.close()
            self._baseline = None

    # -- what is set -------------------------------------------------------------------------------------------

    def _is_here(self) -> bool:
        return self._recorder.steps.step == self._settings.step

    def _of_a(self) -> _Baseline:
        if self._baseline is None:
            self._baseline = _Baseline(Path(self._settings.run), self._settings.step)
        return self._baseline

    def _weights(self) -> Iterator[tuple[tuple[str, str, str], torch.Tensor]]:
        """Yield every parameter and buffer under each name that it may have in A's rows."""
        for root in self._recorder.roots:
            for fqn, slot, tensor in root.tensors():
                yield (root.name, fqn, slot), tensor
        for name, _, parameter, fqn in self._updates.parameters():
            yield (name, fqn, "param"), parameter

    def _states(self) -> Iterator[tuple[int, Any]]:
        last = self._of_a().last
        for name, optimizer, parameter, fqn in self._updates.parameters():
            for key, value in (optimizer.state.get(parameter) or {}).items():
                for slot, leaf in named_leaves(value, f"state.{key}"):
                    row = last.get((name, fqn, slot), -1)
                    if row >= 0:
                        yield row, leaf

    def _left_over(self) -> None:
        """Set the gradients that nobody zeroed, which the backward adds to: to what A's last update found."""
        baseline = self._of_a()
        for name, _, parameter, fqn in self._updates.parameters():
            if parameter.grad is None or not bool(parameter.grad.any()):
                continue
            row = baseline.last.get((name, fqn, "grad"), -1)
            if row >= 0 and baseline.step_of(row) == self._settings.step - 1:
                self._set(row, parameter.grad, capture(parameter.grad))
            for here in baseline.rows.get((NO_PASS, OPTIMIZER, name, fqn, 0, "grad"), ()):
                if row < 0 or baseline.step_of(row) < self._settings.step - 1 or row in self._failed:
                    self._failed[here] = LEFT_OVER

    def _set(self, row: int, target: torch.Tensor, taken: Captured) -> None:
        baseline = self._of_a()
        if row < 0 or (taken.later is None and taken.digest == baseline.digest(row)):
            return
        if baseline.kind(row) != (taken.dtype, taken.shape):
            self._failed[row] = "it has another type or shape than in A"
            return
        try:
            values = baseline.tensor(row)
            if values is None:
                self._failed[row] = NOT_KEPT
                return
            _write(target, values)
            self._written.append(row)
        except Exception as error:  # memory that overlaps, an inference tensor, a class that forbids it
            self._failed[row] = f"it cannot be set: {reason(error)}"

    def _follow(self, row: int) -> None:
        """Set torch's generator to the state of a row, and let the recorder know it."""
        if row < 0 or capture(torch.default_generator.get_state()).digest == self._of_a().digest(row):
            return
        state = self._of_a().tensor(row)
        if state is None:
            self._failed[row] = NOT_KEPT
            return
        torch.default_generator.set_state(state)
        self._recorder.follow_torch()
        self._written.append(row)


def _write(target: torch.Tensor, values: torch.Tensor) -> None:
    """Write values into the memory of a tensor, whose version stays what it is: autograd takes them for its own."""
    plain = target.data if type(target) is torch.Tensor else target.data.as_subclass(torch.Tensor)
    if plain.is_neg() or plain.is_conj():
        raise ValueError("it is a view that negates or conjugates")
    for axis, (size, stride) in enumerate(zip(plain.shape, plain.stride(), strict=True)):
        if stride == 0 and size > 1:  # expanded: the elements along this axis are one element
            first = values.narrow(axis, 0, 1)
            if not torch.equal(_as_bytes(first.expand_as(values)), _as_bytes(values)):
                raise ValueError("it is one element many times over, and not so in A")
            plain, values = plain.narrow(axis, 0, 1), first
    plain.copy_(values)


def _as_bytes(values: torch.Tensor) -> torch.Tensor:
    return values.contiguous().reshape(-1).view(torch.uint8)


class _Baseline:
    """What A has of the step, and of what was before it.

    Args:
        path: The run.
        step: The step.
    """

    def __init__(self, path: Path, step: int) -> None:
        self._run = Run(path)
        rank, _ = rank_and_world_size()
        self._file: RunFile = self._run.ranks[rank]
        self.rows: dict[Key, list[int]] = defaultdict(list)
        """Rows at each place of the step."""
        self.entries: dict[Call, int] = {}
        """Call to the row of the state that torch's CPU generator had when it began."""
        self.exits: dict[Call, int] = {}
        """The same when it had ended."""
        self.last: dict[tuple[str, str, str], int] = {}
        """Root or optimizer, FQN and slot of a parameter, buffer, gradient or state to its row when the step begins."""
        self._read_step(step)
        self._read_before(step)

    def close(self) -> None:
        self._run.close()

    def digest(self, row: int) -> bytes:
        return digest_of(self._file.events[row])

    def step_of(self, row: int) -> int:
        return int(self._file.events[row]["step"])

    def kind(self, row: int) -> tuple[int, tuple[int, ...]]:
        event = self._file.events[row]
        return int(event["dtype"]), self._file.shapes[event["shape"]]

    def tensor(self, row: int) -> torch.Tensor | None:
        array = self._file.tensor(row)
        return None if array is None else as_tensor(array, self._file.record_at(row).dtype)

    def _read_step(self, step: int) -> None:
        state, ended = -1, None
        for row in np.flatnonzero(self._file.events["step"] == step).tolist():
            key = self._key(row)
            call, phase, slot = key[:-1], key[1], key[-1]
            self.rows[key].append(row)
            if phase == RNG and slot == CPU_GENERATOR:
                state = row
                if ended is not None and (ended[0], *ended[2:]) == (call[0], *call[2:]):
                    self.exits[ended] = row
            elif phase == FORWARD and slot.startswith("output."):
                ended = call
                self.exits[call] = state
            elif phase == FORWARD:
                ended = None
                self.entries.setdefault(call, state)

    def _key(self, row: int) -> Key:
        event = self._file.events[row]
        root, fqn, _ = self._file.names[event["name"]]
        slot = self._file.slots[event["slot"]]
        return int(event["micro_batch"]), int(event["phase"]), root, fqn, int(event["call"]), slot

    def _read_before(self, step: int) -> None:
        events, slots = self._file.events, np.array(self._file.slots)
        kept = np.isin(slots, ("param", "buffer", "grad")) | np.char.startswith(slots, "state.")
        is_weight = kept[events["slot"]]
        phase, at = events["phase"], events["step"]
        before = is_weight & (at < step) & np.isin(phase, (INIT, FORWARD, OPTIMIZER))
        for row in _last_of_each(events["name"], events["slot"], np.flatnonzero(before)):
            self.last[self._place(row)] = row
        # Changed after the last update, as a clipped weight: that is how the step finds it.
        changed = np.flatnonzero(is_weight & (at == step) & (phase == FORWARD))
        for row in changed[::-1].tolist():
            self.last[self._place(row)] = row

    def _place(self, row: int) -> tuple[str, str, str]:
        _, _, root, fqn, _, slot = self._key(row)
        return root, fqn, slot


def _last_of_each(name: Any, slot: Any, rows: Any) -> list[int]:
    """Return the last of some rows for each name and slot, in order."""
    both = np.stack([name[rows], slot[rows]]).astype(np.int64)[:, ::-1]
    _, first = np.unique(both, axis=1, return_index=True)
    return sorted(rows[::-1][first].tolist())
