"""Models whose weights a trial lays out otherwise in memory, before they are first called."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules import module as nn_module

from bisect_diverge.record.hook_ids import own_ids
from bisect_diverge.record.names import unwrap, variable_of
from bisect_diverge.record.patches import Patches
from bisect_diverge.record.settings import HELD_AT

if TYPE_CHECKING:
    from bisect_diverge.record.overrides import Owner

FORMATS = {"channels_last": torch.channels_last, "contiguous": torch.contiguous_format}
"""Value of a setting to the order of the axes in memory."""


def hold_layouts(pins: dict[str, str], owner: Owner, patches: Patches) -> None:
    """Lay out the weights of models as ``model.to(memory_format=...)`` does, told apart by their variables.

    It is done when a model is first called, whatever the script has done to it by then: the parameters stay the same
    objects, so that an optimizer or a wrapper that holds them already goes on with them.

    Args:
        pins: ``kernels.model.NAME.layout`` to value.
        owner: Gets a note of each model that was laid out otherwise.
        patches: Takes it back.
    """
    wanted = {knob.split(".")[2]: FORMATS[value] for knob, value in pins.items() if value in FORMATS}
    seen: dict[int, weakref.ref[torch.nn.Module]] = {}

    def before(module: torch.nn.Module, _args: Any) -> None:
        if torch.compiler.is_compiling():
            return
        found = seen.get(id(module))
        if found is not None and found() is module:
            return
        inner = unwrap(module)
        seen.update({id(each): weakref.ref(each) for each in (module, *inner.modules())})
        name = variable_of(inner, sys._getframe(1), unwrap) or type(inner).__name__
        layout = wanted.get(name)
        if layout is not None and _lay_out(inner, layout):
            held = pins[f"kernels.model.{name}.layout"]
            owner.notes.append(f"layout of {name}{HELD_AT}{held}; the script has it otherwise")

    with own_ids:
        handle = nn_module.register_module_forward_pre_hook(before)
    hooks: Any = nn_module._global_forward_pre_hooks
    hooks.move_to_end(handle.id, last=False)  # before the recorder looks at them
    patches.add_handle(handle)


def _lay_out(module: torch.nn.Module, layout: torch.memory_format) -> bool:
    """Lay out all weights of four axes; return whether that moved any."""
    moved = False
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.dim() == 4 and not tensor.is_contiguous(memory_format=layout):
            tensor.data = tensor.data.contiguous(memory_format=layout)
            moved = True
    return moved
