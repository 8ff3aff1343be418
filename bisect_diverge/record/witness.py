"""A process that tells the bits it ends with, and is looked at in no other way: no module hook, no tensor hook.

What it shows can be set beside a recording of the same command: whether recording changed the run, and whether what
was recorded is what the run computes when nobody looks. Updates are counted by the hook that optimizers call when they
are done; the bits are read once, at the end of an update or of the process, or when an optimizer dies before that.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import signal
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.optim import optimizer as torch_optimizer

from bisect_diverge.model.witness import Witness, witness_path
from bisect_diverge.record.capture import capture
from bisect_diverge.record.generators import states
from bisect_diverge.record.hook_ids import own_ids
from bisect_diverge.record.leaves import named_leaves
from bisect_diverge.record.leaving import leave_together
from bisect_diverge.record.names import join, walk
from bisect_diverge.record.overrides import override
from bisect_diverge.record.patches import Patches
from bisect_diverge.record.process import is_helper, leave_environment, rank_and_world_size, reason, say
from bisect_diverge.record.quiet import quiet
from bisect_diverge.record.saves import follow_saves
from bisect_diverge.record.settings import Settings, WitnessSettings

MOST_LOSSES = 100_000
"""Losses that are told; 4 MB."""


def watch(settings: Settings) -> tuple[Watch, Patches]:
    """Begin to watch this process; `settings.witness` is not None.

    Returns:
        The watch, and what takes its hooks out again.
    """
    assert settings.witness is not None
    patches = Patches()
    found = Watch(settings, settings.witness)
    with own_ids:
        patches.add_handle(torch_optimizer.register_optimizer_step_post_hook(found.after_update))
    _see_deaths(found, patches)
    _see_scaler(found, patches)
    if settings.witness.losses:
        _see_losses(found, patches)
    if settings.trial is not None and not settings.witness.recording:
        follow_saves(patches)
        override(dict(settings.trial.pins), found, patches)
    atexit.register(found.finish)
    patches.add_undo(lambda: atexit.unregister(found.finish))
    return found, patches


class _Seen:
    """An optimizer that has made an update, and the buffers of the modules that hold its parameters.

    Buffers are kept alive until the optimizer dies: of a model that a function made, nothing else is left by then.
    """

    def __init__(self, number: int, optimizer: torch.optim.Optimizer) -> None:
        self.number = number
        self.ref = weakref.ref(optimizer)
        self.buffers: dict[str, torch.Tensor] = {}


class Watch:
    """What is known of the process so far."""

    def __init__(self, settings: Settings, wanted: WitnessSettings) -> None:
        self.lock = threading.RLock()
        self.notes: list[str] = []
        self.before_pass: Callable[[], None] | None = None
        """Sets the values again that a trial holds; called after each update, since nobody sees a pass begin."""
        self.updates = 0
        self._settings = settings
        self._wanted = wanted
        self._pid = os.getpid()
        self._seen: dict[int, _Seen] = {}
        self._count = 0
        self._parameters: dict[str, str] = {}
        self._state: dict[str, str] = {}
        self._buffers: dict[str, str] = {}
        self._losses: list[str] = []
        self._at_start = _generators()
        self._done = False

    # -- hooks -------------------------------------------------------------------------------------------------

    def after_update(self, optimizer: torch.optim.Optimizer, _args: Any = None, _kwargs: Any = None) -> None:
        """Count an update, and leave after the last."""
        if torch.compiler.is_compiling() or not self._active():
            return
        self.updates += 1
        seen = self._seen.get(id(optimizer))
        if seen is None or seen.ref() is not optimizer:
            self._meet(optimizer)
        if self.before_pass is not None:
            self.before_pass()
        if self._wanted.stop_after is not None and self.updates >= self._wanted.stop_after:
            self.finish()
            leave_together(Path(self._wanted.folder), *rank_and_world_size())

    def _meet(self, optimizer: torch.optim.Optimizer) -> None:
        if not self._count:
            leave_environment(self._settings)
        seen = self._seen[id(optimizer)] = _Seen(self._count, optimizer)
        self._count += 1
        with quiet(self, "buffers"):
            seen.buffers.update(_buffers_beside(optimizer))

    def loss(self, tensors: Any) -> None:
        """Note what a ``backward()`` starts from."""
        if not self._active() or len(self._losses) >= MOST_LOSSES:
            return
        with quiet(self, "a loss"):
            for tensor in [tensors] if isinstance(tensors, torch.Tensor) else list(tensors):
                self._losses.append(capture(tensor).digest.hex())

    def dying(self, optimizer: torch.optim.Optimizer) -> None:
        """Read an optimizer while it can be read; the garbage collector has cleared references to it by now."""
        seen = self._seen.get(id(optimizer))
        if seen is None or seen.ref() not in (None, optimizer) or not self._active():
            return
        with quiet(self, "an optimizer"):
            self._read(optimizer, self._seen.pop(id(optimizer)))

    def trouble(self, where: str, error: BaseException) -> None:
        """Note a failure of ours; the user's code never sees it."""
        note = f"{where}: {type(error).__name__}: {reason(error)}"
        if note not in self.notes:
            self.notes.append(note)

    # -- the end -----------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Tell what there is, once; does nothing in a forked child."""
        if not self._active():
            return
        with quiet(self, "the end"):
            for seen in list(self._seen.values()):
                optimizer = seen.ref()
                if optimizer is None:
                    self.notes.append(f"opt{seen.number} was gone before it could be read")
                else:
                    self._read(optimizer, seen)
            self._done = True
            self._write(self._witness())
        self._done = True
        self._seen.clear()
        atexit.unregister(self.finish)

    def _active(self) -> bool:
        return not self._done and os.getpid() == self._pid

    def _read(self, optimizer: torch.optim.Optimizer, seen: _Seen) -> None:
        parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
        for index, parameter in enumerate(parameters):
            place = f"opt{seen.number}:{index}"
            self._parameters[place] = capture(parameter).digest.hex()
            state = optimizer.state.get(parameter)
            for key, value in state.items() if state else ():
                for slot, leaf in named_leaves(value, f"state.{key}"):
                    self._state[f"{place}.{slot}"] = capture(leaf).digest.hex()
        for name, buffer in seen.buffers.items():
            self._buffers[name] = capture(buffer).digest.hex()

    def _witness(self) -> Witness:
        rank, _ = rank_and_world_size()
        generators = _generators()
        return Witness(
            rank=rank,
            updates=self.updates,
            parameters=self._parameters,
            state=self._state,
            buffers=self._buffers,
            generators=generators,
            untouched=tuple(slot for slot, digest in generators.items() if self._at_start.get(slot) == digest),
            losses=tuple(self._losses) if self._wanted.losses else None,
            graph_breaks=graph_breaks(),
            process=process_state(),
            notes=tuple(self.notes),
        )

    def _write(self, witness: Witness) -> None:
        data = json.dumps(witness.to_json()).encode()
        for occurrence in range(1 if is_helper() else 0, 10_000):
            path = witness_path(Path(self._wanted.folder), witness.rank, occurrence)
            try:
                with path.open("xb") as file:
                    file.write(data)
            except FileExistsError:  # a second process of this rank
                continue
            except OSError as error:
                say(f"the end of this process could not be told: {reason(error)}")
            return


# -- what is read ----------------------------------------------------------------------------------------------


def _generators() -> dict[str, str]:
    if "numpy" in sys.modules:
        importlib.import_module("numpy.random")  # imported later it would seed itself from the system's entropy then
    return {slot: capture(state).digest.hex() for slot, state in states()}


def _buffers_beside(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield class, FQN and tensor of the buffers of every top module that holds a parameter of an optimizer.

    Modules are found among all objects of the process, which is done once for an optimizer.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    place = {id(parameter): index for index, parameter in enumerate(parameters)}
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.nn.Module)]
    modules = [module for module in modules if "_modules" in vars(module)]
    inner = {id(child) for module in modules for child in module._modules.values()}
    tops = []
    for top in modules:
        parts = [] if id(top) in inner else walk(top)
        places = [place[id(p)] for _, part in parts for p in part._parameters.values() if id(p) in place]
        if places:
            tops.append((min(places), parts))
    taken: dict[str, int] = {}
    for _, parts in sorted(tops, key=lambda top: top[0]):
        kind = type(parts[0][1]).__name__
        number = taken[kind] = taken.get(kind, -1) + 1
        root = f"{kind}_{number}" if number else kind
        for fqn, part in parts:
            for name, buffer in part._buffers.items():
                if buffer is not None:
                    yield f"{root}:{join(fqn, name)}", buffer


def graph_breaks() -> dict[str, int] | None:
    """Return reason and count of the graph breaks of this process; None where nothing was compiled."""
    utils = sys.modules.get("torch._dynamo.utils")
    counters = getattr(utils, "counters", {})
    if "stats" not in counters:
        return None
    return {str(reason): int(count) for reason, count in counters.get("graph_break", {}).items()}


def process_state() -> dict[str, str]:
    """Return what a script may set in the interpreter and in torch, and nobody else should."""
    found = {}
    for name, read in _PROCESS.items():
        try:
            found[name] = str(read())
        except Exception as error:  # a working directory that is gone, say
            found[name] = type(error).__name__
    return found


def _name(handler: Any) -> str:
    """Return a name of a signal's handler that has no address in it."""
    return str(getattr(handler, "__qualname__", None) or getattr(handler, "name", handler))


_PROCESS: dict[str, Callable[[], Any]] = {
    "threads": torch.get_num_threads,
    "interop threads": torch.get_num_interop_threads,
    "default dtype": torch.get_default_dtype,
    "deterministic algorithms": torch.are_deterministic_algorithms_enabled,
    "matmul precision": torch.get_float32_matmul_precision,
    "grad mode": torch.is_grad_enabled,
    "anomaly mode": torch.is_anomaly_enabled,
    "print options": lambda: vars(torch._tensor_str.PRINT_OPTS),
    "gc": lambda: (gc.isenabled(), gc.get_threshold()),
    "warnings filters": lambda: warnings.filters,
    "signal handlers": lambda: [_name(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
    "sys.path": lambda: sys.path,
    "working directory": Path.cwd,
}


# -- patches ---------------------------------------------------------------------------------------------------


def _see_deaths(found: Watch, patches: Patches) -> None:
    def __del__(optimizer: Any) -> None:  # noqa: N807
        with contextlib.suppress(Exception):  # half of the interpreter may be gone
            found.dying(optimizer)

    patches.replace(torch.optim.Optimizer, "__del__", __del__)


def _see_scaler(found: Watch, patches: Patches) -> None:
    """Count an update that GradScaler left out, as the recorder does."""
    original = torch.amp.GradScaler.step

    def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        before = found.updates
        result = original(scaler, optimizer, *args, **kwargs)
        if scaler.is_enabled() and found.updates == before:
            found.after_update(optimizer)
        return result

    patches.replace(torch.amp.GradScaler, "step", step, like=original)


def _see_losses(found: Watch, patches: Patches) -> None:
    original = torch.autograd.backward

    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        # Inside backward it is checkpointing that calls us, with no loss.
        if not torch.compiler.is_compiling() and torch._C._current_graph_task_id() == -1:
            found.loss(tensors)
        return original(tensors, *args, **kwargs)

    patches.replace(torch.autograd, "backward", backward, like=original)
