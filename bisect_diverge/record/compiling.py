"""What the script asks ``torch.compile`` for, call by call: noted in a recording, and held in a trial."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from bisect_diverge.environment.kernels import argument_text
from bisect_diverge.record.patches import Patches
from bisect_diverge.record.quiet import quiet
from bisect_diverge.record.settings import HELD_AT

if TYPE_CHECKING:
    from bisect_diverge.record.overrides import Owner
    from bisect_diverge.record.recorder import Recorder

CHANGE = Callable[[int, dict[str, Any]], dict[str, Any]]
"""Takes the number of a call and its arguments, returns those that it gets."""


def see_compile(recorder: Recorder, patches: Patches) -> None:
    """Note the arguments of each call of ``torch.compile``; ``module.compile()`` is one, a decorator another."""
    from bisect_diverge.environment.setters import compile_setting

    def note(number: int, arguments: dict[str, Any]) -> dict[str, Any]:
        if recorder.active:
            with quiet(recorder, "the arguments of torch.compile"):
                recorder.note_settings(compile_setting(number, arguments))
        return arguments

    _follow(note, patches)


def hold_compile(pins: dict[str, str], owner: Owner, patches: Patches) -> None:
    """Give calls of ``torch.compile`` other arguments, told apart by their numbers.

    Args:
        pins: ``kernels.compiled.NUMBER.ARGUMENT`` to value.
        owner: Gets a note of each argument that was overridden.
        patches: Takes it back.
    """
    wanted: dict[int, dict[str, str]] = {}
    for knob, value in pins.items():
        _, number, argument = knob.rsplit(".", 2)
        wanted.setdefault(int(number), {})[argument] = value

    def change(number: int, arguments: dict[str, Any]) -> dict[str, Any]:
        held = wanted.get(number, {})
        for argument, text in held.items():
            asked = argument_text(argument, arguments.get(argument))
            owner.notes.append(f"{argument} of torch.compile{HELD_AT}{text}; the script asked for {asked}")
        changed = arguments | {argument: _VALUES.get(text, text) for argument, text in held.items()}
        if "mode" in held and changed.get("options") is not None:  # it takes one of the two only
            del changed["options"]
        return changed

    _follow(change, patches)


_VALUES = {"None": None, "True": True, "False": False, "default": None}
"""Text of a setting to the argument that it stands for, where that is no text."""


def _follow(see: CHANGE, patches: Patches) -> None:
    original: Any = torch.compile
    count = 0

    def compile(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        # As a decorator with arguments it calls itself once more, with what is compiled.
        if torch.compiler.is_compiling() or (not args and kwargs.get("model") is None):
            return original(*args, **kwargs)
        number, count = count, count + 1
        return original(*args, **see(number, kwargs))

    patches.replace(torch, "compile", compile, like=original)
