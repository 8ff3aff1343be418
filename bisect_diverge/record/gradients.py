"""Gradients of activations, and the loss.

Hooks sit on output tensors, never on modules: a full backward hook would insert views and change the bits.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from bisect_diverge.model.address import NO_PASS
from bisect_diverge.model.coverage import HOOKS_CALLED, HOOKS_SET
from bisect_diverge.record.codes import BACKWARD, DATA, FORWARD
from bisect_diverge.record.frames import user_site
from bisect_diverge.record.hook_ids import own_ids
from bisect_diverge.record.labels import labels_of
from bisect_diverge.record.names import ModuleInfo
from bisect_diverge.record.patches import Patches
from bisect_diverge.record.quiet import quiet
from bisect_diverge.record.recorder import Recorder


class _OnGradient:
    """The hook of one output tensor; knows its address, holds no tensor."""

    __slots__ = ("arrived", "call", "info", "micro_batch", "name", "recorder", "site", "slot")

    __torch_unserializable__ = True  # torch would warn when the user saves a tensor that has a hook

    def __init__(
        self,
        recorder: Recorder,
        name: tuple[str, str, str],
        info: ModuleInfo,
        micro_batch: int,
        call: int,
        slot: str,
        site: str,
    ) -> None:
        self.arrived = False
        self.recorder = recorder
        self.name = name
        self.info = info
        self.micro_batch = micro_batch
        self.call = call
        self.slot = slot
        self.site = site

    def __call__(self, gradient: Any) -> None:
        recorder = self.recorder
        if torch.compiler.is_compiling() or not recorder.active:
            return
        with quiet(recorder, "a gradient"):
            if not self.arrived:  # again with each further backward through a graph that was retained
                self.arrived = True
                recorder.count(HOOKS_CALLED)
            # The step is the one in which the gradient arrives: a GAN's generator gets its own a step later.
            if recorder.steps.recording:
                recorder.add(
                    BACKWARD,
                    self.micro_batch,
                    self.name,
                    self.call,
                    self.slot,
                    gradient,
                    site=self.site,
                    info=self.info,
                )


def watch_gradients(
    recorder: Recorder,
    tensor: torch.Tensor,
    name: tuple[str, str, str],
    info: ModuleInfo,
    micro_batch: int,
    call: int,
    slot: str,
    site: str,
) -> None:
    """Record the gradient of an output when it arrives.

    On a leaf the hook would be called for every use; on a view whose base is written later it is never called:
    `coverage` shows how many of the hooks set were called.
    """
    if tensor.grad_fn is None:
        return
    hook = _OnGradient(recorder, name, info, micro_batch, call, "grad_" + slot, site)
    with own_ids:
        tensor.register_hook(hook)  # type: ignore[no-untyped-call]
    recorder.count(HOOKS_SET)


def install_loss(recorder: Recorder, patches: Patches) -> None:
    """Record what ``backward()`` starts from."""
    original = torch.autograd.backward

    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        # Inside backward it is checkpointing that calls us, with no loss.
        if not torch.compiler.is_compiling() and recorder.active and torch._C._current_graph_task_id() == -1:
            with quiet(recorder, "a loss"):
                _loss(recorder, tensors)
        return original(tensors, *args, **kwargs)

    patches.replace(torch.autograd, "backward", backward, like=original)


def _loss(recorder: Recorder, tensors: Any) -> None:
    if not recorder.opened:
        return
    recorder.steps.touch(backward=True)
    if not recorder.steps.recording:
        return
    found = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    root, micro_batch = "-", NO_PASS
    if recorder.passes:
        last_root, passage = recorder.passes[-1]
        root, micro_batch = last_root.name, passage.micro_batch
    call = recorder.steps.count("loss", f"{root} {micro_batch}")
    site = user_site(sys._getframe(1))
    _labels(recorder, found, (root, "loss", ""), micro_batch, call, site)
    for index, tensor in enumerate(found):
        slot = "value" if len(found) == 1 else f"value.{index}"
        recorder.add(FORWARD, micro_batch, (root, "loss", ""), call, slot, tensor, site=site, edge=True)
    recorder.take_census(found)


def _labels(
    recorder: Recorder, losses: list[torch.Tensor], name: tuple[str, str, str], micro_batch: int, call: int, site: str
) -> None:
    """Record what a loss function was given that no row has: a criterion that is a module shows its labels itself."""
    if recorder.passes and isinstance(recorder.passes[-1][0].ref(), torch.nn.modules.loss._Loss):
        return
    number = 0
    for slot, label in labels_of(losses):
        if not recorder.edges.holds(label):
            further = f"{slot}.{number}" if number else slot
            recorder.add(DATA, micro_batch, name, call, further, label, site=site)
            number += 1
