"""Optimizer hooks: group values, gradients, parameters, state, buffers; every attempted update ends a step."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.optim import optimizer as torch_optimizer

from bisect_diverge.model.address import NO_PASS
from bisect_diverge.model.coverage import NO_MODULE
from bisect_diverge.record.codes import FLAG_SKIPPED, OPTIMIZER
from bisect_diverge.record.frames import user_site
from bisect_diverge.record.hook_ids import own_ids
from bisect_diverge.record.leaves import named_leaves
from bisect_diverge.record.names import variable_of
from bisect_diverge.record.patches import Patches
from bisect_diverge.record.process import say
from bisect_diverge.record.quiet import quiet
from bisect_diverge.record.recorder import Recorder

KERNEL_VALUES = frozenset({"foreach", "fused", "capturable", "differentiable"})
"""Group values that choose a kernel: settings of the environment, not rows."""


class _Known:
    """An optimizer that has been seen."""

    __slots__ = ("calls", "name", "parameters", "ref", "site")

    def __init__(self, optimizer: torch.optim.Optimizer, name: str) -> None:
        self.ref = weakref.ref(optimizer)
        self.name = name
        self.parameters: dict[int, str] = {}
        """id of a parameter to its FQN, fixed when it is first updated."""
        self.calls = 0
        """Number of the update that is under way, in this step."""
        self.site = ""
        """``file:line`` that asked for it."""


class Updates:
    """Records what optimizers do."""

    def __init__(self, recorder: Recorder, patches: Patches) -> None:
        self._recorder = recorder
        self._known: dict[int, _Known] = {}
        self._attempts = 0
        self._scaler: Any = None
        recorder.steps.optimizers = constructed_before()
        with own_ids:
            patches.add_handle(torch_optimizer.register_optimizer_step_pre_hook(self._before))
            patches.add_handle(torch_optimizer.register_optimizer_step_post_hook(self._after))
        self._see_construction(patches)
        self._see_scaler(patches)

    # -- hooks -------------------------------------------------------------------------------------------------

    def _before(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling() or not self._recorder.active:
            return
        self._attempts += 1
        self._recorder.steps.optimizers = True
        closure = _has_closure(args, kwargs)
        with quiet(self._recorder, "an optimizer update"):
            if closure:
                self._recorder.steps.touch(leading=False)  # its forward is still to come: a new step begins here
            known = self._begin(optimizer)
            if self._recording():
                self._values(optimizer, known, 0)
                if not closure:
                    self._gradients(optimizer, known, 0)

    def _after(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling() or not self._recorder.active:
            return
        with quiet(self._recorder, "an optimizer update"):
            known = self._begin(optimizer)  # again: a closure's forward has moved the step on
            if self._recording():
                if _has_closure(args, kwargs):
                    self._gradients(optimizer, known, 0)
                self._results(optimizer, known, FLAG_SKIPPED if _found_inf(optimizer) else 0)
            self._end(known)

    def _skipped(self, optimizer: torch.optim.Optimizer) -> None:
        """GradScaler left an update out: it counts all the same, and its rows say so."""
        with quiet(self._recorder, "a skipped update"):
            known = self._begin(optimizer)
            if self._recording():
                self._values(optimizer, known, FLAG_SKIPPED)
                self._gradients(optimizer, known, FLAG_SKIPPED)
                self._results(optimizer, known, FLAG_SKIPPED)
            self._end(known)

    def _recording(self) -> bool:
        return self._recorder.steps.recording

    def _begin(self, optimizer: torch.optim.Optimizer) -> _Known:
        known = self._known.get(id(optimizer))
        if known is None or known.ref() is not optimizer:
            names = self._recorder.names
            variable = variable_of(optimizer, sys._getframe(2))
            known = _Known(optimizer, names.unique(variable) if variable else names.numbered("opt"))
            self._known[id(optimizer)] = known
            self._note_kernels(optimizer, known)
        known.site = user_site(sys._getframe(2))
        known.calls = self._recorder.steps.seen("update", known.name)
        return known

    def _end(self, known: _Known) -> None:
        recorder = self._recorder
        recorder.steps.count("update", known.name)
        if self._recording():
            self._buffers(known.site)
            recorder.generators(recorder.steps.count("boundary", ""))
        elif recorder.opened:
            recorder.follow_torch()
        recorder.steps.update_ended()

    # -- rows --------------------------------------------------------------------------------------------------

    def _row(self, known: _Known, fqn: str, slot: str, leaf: Any, flags: int) -> None:
        self._recorder.add(
            OPTIMIZER, NO_PASS, (known.name, fqn, ""), known.calls, slot, leaf, site=known.site, flags=flags
        )

    def _values(self, optimizer: torch.optim.Optimizer, known: _Known, flags: int) -> None:
        for index, group in enumerate(optimizer.param_groups):
            for key, value in group.items():
                if key == "params" or key in KERNEL_VALUES:
                    continue
                if value is None:
                    self._row(known, f"group{index}", str(key), None, flags)
                for slot, leaf in named_leaves(value, str(key)):
                    self._row(known, f"group{index}", slot, leaf, flags)

    def _gradients(self, optimizer: torch.optim.Optimizer, known: _Known, flags: int) -> None:
        self._name_parameters(optimizer, known)
        for parameter, fqn in self._parameters(optimizer, known):
            self._row(known, fqn, "grad", parameter.grad, flags)

    def _results(self, optimizer: torch.optim.Optimizer, known: _Known, flags: int) -> None:
        parameters = list(self._parameters(optimizer, known))
        for parameter, fqn in parameters:
            name = (known.name, fqn, "")
            self._recorder.add_weight(
                OPTIMIZER, NO_PASS, name, known.calls, "param", parameter, site=known.site, flags=flags
            )
        for parameter, fqn in parameters:
            state = optimizer.state.get(parameter)
            for key, value in state.items() if state else ():
                for slot, leaf in named_leaves(value, f"state.{key}"):
                    self._row(known, fqn, slot, leaf, flags)
        if self._scaler is not None:
            scale, found = _scaler_values(self._scaler, optimizer)
            self._row(known, "", "scale", scale, flags)
            self._row(known, "", "found_inf", found, flags)

    def _buffers(self, site: str) -> None:
        for root in self._recorder.roots:
            if not root.passed:
                continue
            root.passed = False
            for fqn, slot, tensor in root.tensors("buffer"):
                if root.wants(fqn):
                    self._recorder.add_weight(OPTIMIZER, NO_PASS, (root.name, fqn, ""), 0, slot, tensor, site=site)

    # -- names -------------------------------------------------------------------------------------------------

    def parameters(self) -> Iterator[tuple[str, torch.optim.Optimizer, torch.Tensor, str]]:
        """Yield name and optimizer, parameter and its FQN, of every optimizer that has made an update."""
        for known in self._known.values():
            optimizer = known.ref()
            if optimizer is not None:
                self._name_parameters(optimizer, known)
                for parameter, fqn in self._parameters(optimizer, known):
                    yield known.name, optimizer, parameter, fqn

    def _parameters(self, optimizer: torch.optim.Optimizer, known: _Known) -> Any:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                fqn = known.parameters.get(id(parameter))
                if fqn is not None:
                    yield parameter, fqn

    def _name_parameters(self, optimizer: torch.optim.Optimizer, known: _Known) -> None:
        fresh = [
            (f"group{g}.{p}", parameter)
            for g, group in enumerate(optimizer.param_groups)
            for p, parameter in enumerate(group["params"])
            if id(parameter) not in known.parameters
        ]
        if not fresh:
            return
        places: dict[int, tuple[str, str]] = {}
        wants: dict[int, bool] = {}
        for root in self._recorder.roots:
            for fqn, _, tensor in root.tensors():
                places.setdefault(id(tensor), (root.name, fqn))
                wants.setdefault(id(tensor), root.wants(fqn))
        self._say_strangers(known, sum(id(parameter) not in places for _, parameter in fresh), len(fresh))
        roots = {places[id(parameter)][0] for _, parameter in fresh if id(parameter) in places}
        for number, parameter in fresh:
            place = places.get(id(parameter))
            if not wants.get(id(parameter), not self._recorder.settings.options.modules):
                continue
            if place is None:
                known.parameters[id(parameter)] = number
            else:
                known.parameters[id(parameter)] = f"{place[0]}.{place[1]}" if len(roots) > 1 else place[1]

    def _say_strangers(self, known: _Known, strangers: int, fresh: int) -> None:
        """Say that parameters are updated of which no forward was seen."""
        if not strangers:
            return
        self._recorder.count(NO_MODULE, strangers)
        if strangers == fresh and not known.parameters:
            note = f"none of the {fresh} parameters of {known.name} is in a module that was called"
            self._recorder.notes.append(note)
            say(f"{note}: gradients and updates are recorded, what computes them is not")

    def _note_kernels(self, optimizer: torch.optim.Optimizer, known: _Known) -> None:
        from bisect_diverge.environment.setters import optimizer_setting

        values = dict(optimizer.param_groups[0]) if optimizer.param_groups else {}
        values.pop("params", None)
        self._recorder.note_settings(optimizer_setting(known.name, values))

    # -- patches -----------------------------------------------------------------------------------------------

    def _see_construction(self, patches: Patches) -> None:
        original = torch.optim.Optimizer.__init__
        recorder = self._recorder

        def __init__(optimizer: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            recorder.steps.optimizers = True
            original(optimizer, *args, **kwargs)

        patches.replace(torch.optim.Optimizer, "__init__", __init__, like=original)

    def _see_scaler(self, patches: Patches) -> None:
        scaler_class = torch.amp.GradScaler
        original = scaler_class.step

        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._recorder.active or not scaler.is_enabled():
                return original(scaler, optimizer, *args, **kwargs)
            attempts, self._scaler = self._attempts, scaler
            try:
                result = original(scaler, optimizer, *args, **kwargs)
                if self._attempts == attempts:
                    self._skipped(optimizer)
            finally:
                self._scaler = None
            return result

        patches.replace(scaler_class, "step", step, like=original)


def constructed_before() -> bool:
    """Whether an optimizer has been constructed in this process, before recording began: its class shows it."""
    kinds = [torch.optim.Optimizer]
    while kinds:
        kind = kinds.pop()
        if getattr(getattr(kind, "step", None), "hooked", False):
            return True
        kinds += kind.__subclasses__()
    return False


def _has_closure(args: Any, kwargs: Any) -> bool:
    """Whether ``step`` was given a closure, which makes the gradients inside the update."""
    return callable(kwargs.get("closure")) or any(
        callable(arg) and not isinstance(arg, torch.optim.Optimizer) for arg in args
    )


def _found_inf(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a fused update, which is given the finding instead of being left out, did nothing."""
    found = getattr(optimizer, "found_inf", None)
    return isinstance(found, torch.Tensor) and bool(found.item())


def _scaler_values(scaler: Any, optimizer: torch.optim.Optimizer) -> tuple[float, float]:
    found = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values()
    return scaler.get_scale(), float(sum(tensor.item() for tensor in found))
