"""Settings that a trial holds against the script's own calls.

Each row of the table says how one knob is set in this process and which of torch's functions would set it otherwise:
these are replaced by functions that let the script call them and then set our value again. What the script asked for
is noted, so that the report can say who overrode whom.
"""

from __future__ import annotations

import dis
import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import FrameType
from typing import Any, Protocol, TypeVar

import torch
from torch.utils.data import DataLoader

from bisect_diverge.record.compiling import hold_compile
from bisect_diverge.record.layouts import hold_layouts
from bisect_diverge.record.patches import Patches
from bisect_diverge.record.seeds import hold_seeds
from bisect_diverge.record.settings import HELD_AT
from bisect_diverge.record.worker_seeds import OF_WORKERS


class Owner(Protocol):
    """Whoever holds settings: the recorder, or a witness."""

    notes: list[str]
    """Gets a line for each call of the script that was overridden."""
    before_pass: Callable[[], None] | None
    """Is given what sets the values again."""


@dataclass(frozen=True, slots=True)
class Held:
    """How a knob is held at a value."""

    set: Callable[[str], None]
    """Sets it from the text of its value."""
    setters: tuple[str, ...] = ()
    """Functions below ``torch`` that every way of setting it ends in, looked up when they are called."""
    once: bool = False
    """It can be set once only, so that later calls of the script are dropped."""


def _flag(text: str) -> bool:
    return text == "True"


def _number(text: str) -> int:
    return int(text)


def _call(path: str, convert: Callable[[str], Any]) -> Callable[[str], None]:
    return lambda text: _find(path)(convert(text))


def _attribute(path: str, convert: Callable[[str], Any]) -> Callable[[str], None]:
    owner, _, name = path.rpartition(".")
    return lambda text: setattr(_find(owner), name, convert(text))


def _find(path: str) -> Any:
    found: Any = torch
    for name in path.split("."):
        found = getattr(found, name)
    return found


def _deterministic(text: str) -> None:
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(_flag(text), warn_only=warn_only)


def _warn_only(text: str) -> None:
    torch.use_deterministic_algorithms(torch.are_deterministic_algorithms_enabled(), warn_only=_flag(text))


def _debug_mode(text: str) -> None:
    torch.set_deterministic_debug_mode(_number(text))


def _dtype(text: str) -> torch.dtype:
    found = getattr(torch, text.removeprefix("torch."))
    if not isinstance(found, torch.dtype):
        raise TypeError(f"{text} is no element type")
    return found


def _last_word(text: str) -> str:
    """Return a name without its class: ``_BlasBackend.Cublas`` is ``cublas``."""
    return text.rpartition(".")[2].lower()


def _strategy(text: str) -> str | None:
    return None if text == "None" else text


def _autocast(device: str) -> Callable[[str], None]:
    def set_it(text: str) -> None:
        torch.set_autocast_enabled(device, text != "off")
        if text != "off":
            torch.set_autocast_dtype(device, _dtype(text))

    return set_it


def _config(module: str, name: str) -> Held:
    """Return how a switch of torch.compile is held: set where it is not so already, since a change costs its caches."""

    def set_it(text: str) -> None:
        config = importlib.import_module(module)
        if getattr(config, name) != _flag(text):
            setattr(config, name, _flag(text))

    return Held(set_it)


def _flush(text: str) -> None:
    torch.set_flush_denormal(text == "flushed")


_DETERMINISTIC = ("_C._set_deterministic_algorithms",)
_PRECISION = ("_C._set_float32_matmul_precision",)
_FP32 = ("_C._set_fp32_precision_setter", "_C._set_float32_matmul_precision")


def _sdpa(kind: str) -> Held:
    return Held(_call(f"_C._set_sdp_use_{kind}", _flag), (f"_C._set_sdp_use_{kind}",))


def _fp32(owner: str) -> Held:
    return Held(_attribute(f"{owner}.fp32_precision", str), _FP32)


HELD: dict[str, Held] = {
    "hardware.threads.intra_op": Held(_call("set_num_threads", _number), ("set_num_threads",)),
    "hardware.threads.inter_op": Held(
        _call("set_num_interop_threads", _number), ("set_num_interop_threads",), once=True
    ),
    "kernels.deterministic": Held(_deterministic, _DETERMINISTIC),
    "kernels.deterministic.warn_only": Held(_warn_only, _DETERMINISTIC),
    "kernels.deterministic.fill": Held(_attribute("utils.deterministic.fill_uninitialized_memory", _flag)),
    "kernels.deterministic.debug_mode": Held(_debug_mode, _DETERMINISTIC),
    "kernels.default_dtype": Held(_call("set_default_dtype", _dtype), ("_C._set_default_dtype",)),
    "kernels.autocast.cpu": Held(_autocast("cpu")),
    "kernels.autocast.cuda": Held(_autocast("cuda")),
    "kernels.quantized.engine": Held(_attribute("backends.quantized.engine", str), ("_C._set_qengine",)),
    "kernels.fp32_precision": _fp32("backends"),
    "kernels.mkldnn.fp32_precision": _fp32("backends.mkldnn"),
    "kernels.sdpa.math_reduced": Held(
        _call("_C._set_math_sdp_allow_fp16_bf16_reduction", _flag), ("_C._set_math_sdp_allow_fp16_bf16_reduction",)
    ),
    "kernels.cudnn.benchmark_limit": Held(_attribute("backends.cudnn.benchmark_limit", _number)),
    "kernels.cuda.matmul.fp16_accumulation": Held(_attribute("backends.cuda.matmul.allow_fp16_accumulation", _flag)),
    "kernels.cuda.blas": Held(_call("backends.cuda.preferred_blas_library", _last_word)),
    "kernels.cuda.linalg": Held(_call("backends.cuda.preferred_linalg_library", _last_word)),
    "kernels.compile.disabled": _config("torch._dynamo.config", "disable"),
    "kernels.compile.suppress_errors": _config("torch._dynamo.config", "suppress_errors"),
    "kernels.inductor.deterministic": _config("torch._inductor.config", "deterministic"),
    "kernels.inductor.emulate_casts": _config("torch._inductor.config", "emulate_precision_casts"),
    "kernels.inductor.fallback_random": _config("torch._inductor.config", "fallback_random"),
    "kernels.inductor.max_autotune": _config("torch._inductor.config", "max_autotune"),
    "kernels.inductor.coordinate_descent": _config("torch._inductor.config", "coordinate_descent_tuning"),
    "kernels.opt_einsum.strategy": Held(_attribute("backends.opt_einsum.strategy", _strategy)),
    "kernels.denormals": Held(_flush, ("set_flush_denormal",)),
    "kernels.matmul.precision": Held(_call("set_float32_matmul_precision", str), _PRECISION),
    "kernels.mkldnn.enabled": Held(_attribute("backends.mkldnn.enabled", _flag), ("_C._set_mkldnn_enabled",)),
    "kernels.mkldnn.deterministic": Held(_attribute("backends.mkldnn.deterministic", _flag)),
    "kernels.mkldnn.matmul.fp32_precision": _fp32("backends.mkldnn.matmul"),
    "kernels.mkldnn.conv.fp32_precision": _fp32("backends.mkldnn.conv"),
    "kernels.mkldnn.rnn.fp32_precision": _fp32("backends.mkldnn.rnn"),
    "kernels.sdpa.flash": _sdpa("flash"),
    "kernels.sdpa.mem_efficient": _sdpa("mem_efficient"),
    "kernels.sdpa.math": _sdpa("math"),
    "kernels.sdpa.cudnn": _sdpa("cudnn"),
    "kernels.mha.fastpath": Held(
        _call("backends.mha.set_fastpath_enabled", _flag), ("backends.mha.set_fastpath_enabled",)
    ),
    "kernels.cudnn.enabled": Held(_attribute("backends.cudnn.enabled", _flag), ("_C._set_cudnn_enabled",)),
    "kernels.cudnn.benchmark": Held(_attribute("backends.cudnn.benchmark", _flag), ("_C._set_cudnn_benchmark",)),
    "kernels.cudnn.deterministic": Held(
        _attribute("backends.cudnn.deterministic", _flag), ("_C._set_cudnn_deterministic",)
    ),
    "kernels.cudnn.conv.fp32_precision": _fp32("backends.cudnn.conv"),
    "kernels.cudnn.rnn.fp32_precision": _fp32("backends.cudnn.rnn"),
    "kernels.cuda.matmul.fp32_precision": _fp32("backends.cuda.matmul"),
    "kernels.cuda.matmul.fp16_reduction": Held(
        _attribute("backends.cuda.matmul.allow_fp16_reduced_precision_reduction", _flag)
    ),
    "kernels.cuda.matmul.bf16_reduction": Held(
        _attribute("backends.cuda.matmul.allow_bf16_reduced_precision_reduction", _flag)
    ),
    "kernels.opt_einsum": Held(_attribute("backends.opt_einsum.enabled", _flag)),
}
"""``layer.knob`` to how it is held; `environment.apply.HELD` names the same knobs, and a test compares the two."""


def override(pins: dict[str, str], recorder: Owner, patches: Patches) -> None:
    """Set some knobs, and keep the script from setting them otherwise.

    Args:
        pins: ``layer.knob`` to value.
        recorder: Gets a note of each call of the script that was overridden.
        patches: Takes it all back.
    """
    flags = {knob: value for knob, value in pins.items() if knob in HELD}
    _set(flags)
    setters = {path for knob in flags for path in HELD[knob].setters}
    for path in sorted(setters):
        _hold(path, {knob: value for knob, value in flags.items() if path in HELD[knob].setters}, recorder, patches)
    if flags:  # what a script sets by assignment has no function that could be replaced
        again = {knob: value for knob, value in flags.items() if not HELD[knob].once}
        recorder.before_pass = lambda: _set(again)
    for pattern, hold in _OBJECTS.items():
        chosen = {knob: value for knob, value in pins.items() if fnmatchcase(knob, pattern)}
        if chosen:
            hold(chosen, recorder, patches)


_setting = False


def _set(flags: dict[str, str]) -> None:
    global _setting  # noqa: PLW0603 - our own calls go through the functions that we replaced
    before, _setting = _setting, True
    try:
        for knob, value in flags.items():
            HELD[knob].set(value)
    finally:
        _setting = before


def _hold(path: str, flags: dict[str, str], recorder: Owner, patches: Patches) -> None:
    owner, _, name = path.rpartition(".")
    module = _find(owner) if owner else torch
    original = getattr(module, name, None)
    if original is None:  # this torch has no such setter
        return

    def held(*args: Any, **kwargs: Any) -> Any:
        if _setting or sys._getframe(1).f_code.co_filename.endswith(OF_WORKERS):
            return original(*args, **kwargs)  # what torch sets in a loader worker is not the script's doing
        _note(recorder, flags, args, kwargs)
        if any(HELD[knob].once for knob in flags):
            return None
        result = original(*args, **kwargs)
        _set(flags)
        return result

    patches.replace(module, name, held, like=original)


def _note(recorder: Owner, flags: dict[str, str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    asked = ", ".join(map(str, (*args, *kwargs.values())))
    for knob, value in flags.items():
        note = f"{knob}{HELD_AT}{value}; the script asked for {asked}"
        if note not in recorder.notes:
            recorder.notes.append(note)


def _hold_loaders(pins: dict[str, str], recorder: Owner, patches: Patches) -> None:
    """Give loaders other numbers of workers, told apart by the variables that they are assigned to."""
    original = DataLoader.__init__
    signature = inspect.signature(original)
    wanted: dict[str, dict[str, Any]] = {}
    for knob, value in pins.items():
        _, name, argument = knob.rsplit(".", 2)
        wanted.setdefault(name, {})[_LOADER_ARGUMENTS.get(argument, argument)] = _argument(value)

    def __init__(loader: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        bound = signature.bind(loader, *args, **kwargs)
        for argument, value in (_chosen(wanted, loader, sys._getframe(1)) or {}).items():
            asked = bound.arguments.get(argument, signature.parameters[argument].default)
            if asked != value:
                bound.arguments[argument] = value
                recorder.notes.append(f"{argument} of a loader{HELD_AT}{value}; the script asked for {asked}")
        if bound.arguments.get("num_workers", 0) == 0:
            for argument in ("prefetch_factor", "persistent_workers", "timeout", "multiprocessing_context"):
                bound.arguments.pop(argument, None)
        original(*bound.args, **bound.kwargs)

    patches.replace(DataLoader, "__init__", __init__, like=original)


_LOADER_ARGUMENTS = {"start_method": "multiprocessing_context"}
"""Name of a knob to the loader's argument, where they differ."""


def _argument(text: str) -> Any:
    """Return the argument that the text of a setting stands for."""
    if text in ("True", "False", "None"):
        return {"True": True, "False": False}.get(text)
    return int(text) if text.isdigit() else text


def _hold_optimizers(pins: dict[str, str], recorder: Owner, patches: Patches) -> None:
    """Give optimizers other kernels; an optimizer that has no such kernel is left alone."""
    original = torch.optim.Optimizer.__init__
    wanted: dict[str, dict[str, Any]] = {}
    for knob, value in pins.items():
        _, name, argument = knob.rsplit(".", 2)
        wanted.setdefault(name, {})[argument] = {"True": True, "False": False}.get(value)

    def __init__(optimizer: Any, params: Any, defaults: dict[str, Any]) -> None:  # noqa: N807
        for name, value in (_chosen(wanted, optimizer, sys._getframe(1)) or {}).items():
            if name in defaults and defaults[name] != value:
                recorder.notes.append(f"{name} of an optimizer{HELD_AT}{value}; it would be {defaults[name]}")
                defaults[name] = value
        original(optimizer, params, defaults)

    patches.replace(torch.optim.Optimizer, "__init__", __init__, like=original)


_Value = TypeVar("_Value")


def _chosen(wanted: dict[str, _Value], made: object, frame: FrameType | None) -> _Value | None:
    """Return what is wanted of an object that is being made; the only one wanted where its variable is not known."""
    while frame is not None and frame.f_locals.get("self") is made:  # constructors of its subclasses
        frame = frame.f_back
    name = _assigned_to(frame)
    if not name and len(wanted) == 1:
        return next(iter(wanted.values()))
    return wanted.get(name)


def _assigned_to(frame: FrameType | None) -> str:
    """Return the variable to which a frame is about to assign the result of its call; empty if it is none."""
    if frame is None:
        return ""
    following = (i for i in dis.get_instructions(frame.f_code) if i.offset > frame.f_lasti)
    instruction = next(following, None)
    stores = instruction is not None and instruction.opname.startswith("STORE_")
    return str(instruction.argval) if stores and instruction is not None else ""


_OBJECTS: dict[str, Callable[[dict[str, str], Owner, Patches], None]] = {
    "hardware.loader.*": _hold_loaders,
    "kernels.compiled.*": hold_compile,
    "kernels.model.*.layout": hold_layouts,
    "kernels.optimizer.*": _hold_optimizers,
    "seeds.*": hold_seeds,
}
"""Knobs of objects that the script makes, with what holds them."""
