"""Watches the functions that give a seed to a generator.

Each is replaced by a wrapper that calls it and notes the seed: same result, same exceptions, same signature,
nothing drawn. What cannot be wrapped without being noticed is left alone: methods of ``torch.Generator`` and
the classes ``numpy.random.RandomState`` and ``random.Random`` (the first two cannot be changed, and a
wrapped class would fail ``isinstance``).
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import operator
import os
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bisect_diverge.environment.hardware import device_setting, loader_setting
from bisect_diverge.environment.kernels import compile_setting, dtype_setting, layout_setting, optimizer_setting
from bisect_diverge.environment.seeds import FRESH, FROM_PROCESS, FROM_TIME, seed_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

__all__ = [
    "compile_setting",
    "device_setting",
    "dtype_setting",
    "layout_setting",
    "loader_setting",
    "optimizer_setting",
    "seed_settings",
    "watch_numpy",
    "watch_setters",
]


@dataclass(frozen=True, slots=True)
class Setter:
    """A function that gives a seed to a generator."""

    knob: str
    """Name of the knob."""
    name: str
    """Attribute that holds the function."""
    modules: tuple[str, ...]
    """Modules that hold it. torch's hold one object under two names, and torch.compile relies on that."""


SETTERS: tuple[Setter, ...] = (
    Setter("random.seed", "seed", ("random",)),
    Setter("torch.manual_seed", "manual_seed", ("torch", "torch.random")),
    Setter("torch.seed", "seed", ("torch", "torch.random")),
    Setter("torch.cuda.manual_seed", "manual_seed", ("torch.cuda", "torch.cuda.random")),
    Setter("torch.cuda.manual_seed_all", "manual_seed_all", ("torch.cuda", "torch.cuda.random")),
    Setter("torch.mps.manual_seed", "manual_seed", ("torch.mps",)),
    Setter("torch.xpu.manual_seed", "manual_seed", ("torch.xpu", "torch.xpu.random")),
    Setter("torch.xpu.manual_seed_all", "manual_seed_all", ("torch.xpu", "torch.xpu.random")),
)
"""Setters of the standard library and of torch."""

NUMPY_SETTERS: tuple[Setter, ...] = (
    Setter("numpy.random.seed", "seed", ("numpy.random", "numpy.random.mtrand")),
    Setter("numpy.random.default_rng", "default_rng", ("numpy.random", "numpy.random._generator")),
)
"""Setters of numpy."""

_SMALLEST = 1000
"""A smaller seed was written by a person, whatever the number of the process is."""

LIBRARIES = ("/site-packages/", "/dist-packages/", "/bisect_diverge/record/")
"""Parts of the paths of installed code, ours included."""

in_child: Callable[[str, str], None] | None = None
"""Called in place of what `watch_setters` was given in a forked child; None: nobody wants to know."""

_inside = threading.local()
"""Whether this thread is inside a setter: torch.manual_seed calls the others, which the script did not."""


def watch_setters(note: Callable[[str, str], None]) -> Callable[[], None]:
    """Note every call of a seed setter of the standard library, torch and numpy, as far as they are imported.

    Args:
        note: Called after each successful call with the knob and the seed as text; what it raises is dropped.

    Returns:
        A function that puts everything back.
    """
    return _watch((*SETTERS, *NUMPY_SETTERS), note)


def watch_numpy(note: Callable[[str, str], None]) -> Callable[[], None]:
    """Do for numpy what `watch_setters` does; to be called when numpy is imported after that."""
    return _watch(NUMPY_SETTERS, note)


def _watch(setters: Iterable[Setter], note: Callable[[str, str], None]) -> Callable[[], None]:
    undo: list[Callable[[], None]] = []
    watching = [note]
    for setter in setters:
        wrappers: dict[int, Any] = {}
        for name in setter.modules:
            module = _module(name)
            original = getattr(module, setter.name, None)
            if original is None or getattr(original, "_bisect_diverge_watching", None):
                continue
            wrapper = wrappers.get(id(original))
            if wrapper is None:
                wrapper = wrappers[id(original)] = _wrap(setter.knob, original, watching)
                undo.append(_register_for_script(original, wrapper))
            setattr(module, setter.name, wrapper)
            undo.append(functools.partial(_put_back, module, setter.name, wrapper, original))

    def unwatch() -> None:
        watching.clear()  # what torch.compile wrapped again stays in place, and is silent from here on
        while undo:
            undo.pop()()

    return unwatch


def _module(name: str) -> Any:
    """Return a module if the process has it; numpy loads its generators only when they are first used."""
    if name in sys.modules or name == "random" or (name.startswith("numpy.") and "numpy" in sys.modules):
        with contextlib.suppress(ImportError):
            return importlib.import_module(name)
    return None


def is_import_of_a_library() -> bool:
    """Whether a setter is being called because an installed library is being imported, not by the script.

    scipy, for one, makes generators of its own then. A module of the user's that gives a seed when it is imported is
    the script.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib"):
            return True
        if not any(place in file for place in LIBRARIES):
            return False
        frame = frame.f_back
    return False


def _wrap(knob: str, original: Any, watching: list[Callable[[str, str], None]]) -> Any:
    """Return a function that does what `original` does and notes the seed while `watching` is not empty."""
    pid = os.getpid()

    @functools.wraps(original)
    def seeded(*args: Any, **kwargs: Any) -> Any:
        # Where torch.compile traces into this function it must find nothing but the original.
        compiler = sys.modules.get("torch.compiler")
        if compiler is not None and compiler.is_compiling():
            return original(*args, **kwargs)
        in_child_now = os.getpid() != pid
        if not watching or is_inside() or (in_child_now and in_child is None) or is_import_of_a_library():
            return original(*args, **kwargs)
        _inside.setter = True
        try:
            result = original(*args, **kwargs)
        finally:
            _inside.setter = False
        try:
            text = _seed_text(args, kwargs)
            note = in_child if in_child_now and in_child is not None else watching[0]
            note(knob, _own_seed(result) if text == FRESH else text)
        except Exception:
            return result
        return result

    # functools.wraps took the bound method's qualified name, by which pickle would not find this function.
    seeded.__qualname__ = seeded.__name__
    seeded._bisect_diverge_watching = watching  # type: ignore[attr-defined]
    return seeded


def is_inside() -> bool:
    """Whether this thread is inside a setter that the script has called."""
    return bool(getattr(_inside, "setter", False))


def _own_seed(result: Any) -> str:
    """Return the seed that a library took itself, as far as the result of the call tells: ``fresh entropy 123``."""
    sequence = getattr(getattr(result, "bit_generator", None), "seed_seq", None)
    seed = result if isinstance(result, int) else getattr(sequence, "entropy", None)
    return FRESH if seed is None else f"{FRESH} {seed}"


def _origin(seed: int) -> str:
    """Return where a seed seems to come from that is another in every process; empty where nothing tells."""
    if seed < _SMALLEST:
        return ""
    if seed == os.getpid():
        return FROM_PROCESS
    now = time.time()
    for parts, seconds in ((1, 60.0), (1e3, 60.0), (1e6, 1.0), (1e9, 1.0)):
        apart = abs(now * parts - seed)
        cut = parts <= 1e6 and min(apart % 2**32, -apart % 2**32) <= 0.1 * parts  # of nanoseconds all numbers are near
        if apart <= seconds * parts or cut:
            return FROM_TIME
    return ""


def _seed_text(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return the seed as text: a number or word as it is, of anything else the type and the numbers in it."""
    seed = args[0] if args else next((kwargs[name] for name in ("seed", "a") if name in kwargs), None)
    if seed is None:
        return FRESH
    if isinstance(seed, bool | float | str | bytes | bytearray):
        return repr(seed)
    try:
        number = operator.index(seed)
        return f"{number}{_origin(number)}"
    except TypeError:
        pass
    if isinstance(seed, list | tuple):
        return f"[{', '.join(_seed_text((item,), {}) for item in seed)}]"
    if type(seed).__module__.partition(".")[0] == "numpy" and hasattr(seed, "tolist"):
        return _seed_text((seed.tolist(),), {})
    entropy = getattr(seed, "entropy", None)
    known = "" if entropy is None else f"({_seed_text((entropy,), {})})"
    return f"{type(seed).__name__}{known}"


def _register_for_script(original: Any, wrapper: Any) -> Callable[[], None]:
    """Tell TorchScript that the wrapper is the operator that it takes the original for, if it does.

    Its table is keyed by the function's address; where it is not built yet it will find the wrapper by
    itself.
    """
    builtins = sys.modules.get("torch.jit._builtins")
    table = getattr(builtins, "_builtin_table", None)
    if not isinstance(table, dict) or id(original) not in table:
        return lambda: None
    table[id(wrapper)] = table[id(original)]
    return lambda: table.pop(id(wrapper), None)


def _put_back(module: Any, name: str, wrapper: Any, original: Any) -> None:
    """Put the original back, unless something else has been put there since (torch.compile's own wrapper)."""
    if getattr(module, name, None) is wrapper:
        setattr(module, name, original)
