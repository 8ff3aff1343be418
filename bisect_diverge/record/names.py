"""Which variable holds an object, and the FQN of everything below a root; wrappers are looked through."""

from __future__ import annotations

import fnmatch
import functools
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from bisect_diverge.record.frames import local_variables

_WRAPPERS = {
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "OptimizedModule": "_orig_mod",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "CheckpointWrapper": "_checkpoint_wrapped_module",
}
"""Class of torch to the attribute that holds the wrapped module."""

_TORCH = str(Path(torch.__file__).parent)
_OURS = str(Path(__file__).parent.parent)


def wrapped(module: Any) -> Any:
    """Return the module that a wrapper of torch holds; None for any other module."""
    kind: Any = type(module)
    attribute = _wrapping(kind)
    return None if attribute is None else getattr(module, attribute, None)


@functools.lru_cache(maxsize=1024)
def _wrapping(kind: type) -> str | None:
    """Return the attribute in which a class of wrappers holds its module."""
    for base in kind.__mro__:
        attribute = _WRAPPERS.get(base.__name__)
        if attribute is not None and base.__module__.startswith("torch."):
            return attribute
    return None


def is_compiled(module: Any) -> bool:
    """Whether a module is what ``torch.compile`` returned for another one, or was compiled in place."""
    if getattr(module, "_compiled_call_impl", None) is not None:
        return True
    return any(kind.__name__ == "OptimizedModule" for kind in type(module).__mro__)


def unwrap(module: Any) -> Any:
    """Return the innermost module behind any number of wrappers."""
    while (inner := wrapped(module)) is not None:
        module = inner
    return module


def variable_of(target: Any, frame: FrameType | None, look_through: Callable[[Any], Any] = lambda x: x) -> str | None:
    """Return the name of the variable that holds `target`: globals of ``__main__``, callers' locals, their ``self``.

    Args:
        target: The object.
        frame: Innermost frame to look at; frames of torch and of ours are skipped.
        look_through: Applied to every candidate before it is compared.
    """

    def search(variables: dict[str, Any]) -> str | None:
        for name, value in list(variables.items()):
            if name.startswith("_") or name == "self":
                continue
            try:
                if value is target or look_through(value) is target:
                    return name
            except Exception:
                continue
        return None

    main = sys.modules.get("__main__")
    if main is not None and (name := search(vars(main))):
        return name
    owners: list[Any] = []
    while frame is not None:
        if not frame.f_code.co_filename.startswith((_TORCH, _OURS)):
            with local_variables(frame) as variables:
                if name := search(variables):
                    return name
                owners.append(variables.get("self"))
        frame = frame.f_back
    for owner in owners:
        if name := search(_attributes(owner)):
            return name
    return None


def _attributes(owner: Any) -> dict[str, Any]:
    attributes = getattr(owner, "__dict__", None)
    if not isinstance(attributes, dict):
        return {}
    modules = attributes.get("_modules")  # of a torch module; anybody may use the name
    return {**modules, **attributes} if isinstance(modules, dict) else attributes


def walk(module: Any, fqn: str = "") -> list[tuple[str, Any]]:
    """Return FQN and module of everything below a module, itself first, each shared module under every name it has.

    Wrappers do not appear; the order is that of ``named_modules``.
    """
    found: list[tuple[str, Any]] = []  # nested generators would pass each entry up through every level
    _visit(module, fqn, set(), found)
    return found


def _visit(module: Any, fqn: str, path: set[int], found: list[tuple[str, Any]]) -> None:
    """Add a module and everything below it; a function inside `walk` would be a cycle that keeps the modules alive."""
    module = unwrap(module)
    if id(module) in path:  # a cycle of modules must end
        return
    path.add(id(module))
    found.append((fqn, module))
    for name, child in module._modules.items():
        if child is not None:
            _visit(child, join(fqn, name), path, found)
    path.discard(id(module))


def join(prefix: str, name: str) -> str:
    """Return the FQN of a child."""
    return f"{prefix}.{name}" if prefix else name


class Names:
    """Hands out names that are taken only once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def unique(self, wanted: str) -> str:
        """Return the name, with ``_1``, ``_2``, ... when it is taken."""
        name, number = wanted, 0
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name

    def numbered(self, prefix: str) -> str:
        """Return ``prefix0``, ``prefix1``, ...: the first that is free."""
        number = 0
        while f"{prefix}{number}" in self._taken:
            number += 1
        return self.unique(f"{prefix}{number}")


class ModuleInfo:
    """What is known of one module below one root."""

    __slots__ = ("fqn", "kind", "number", "wanted")

    def __init__(self, fqn: str, kind: str, wanted: bool) -> None:
        self.fqn = fqn
        self.kind = kind
        self.wanted = wanted
        """Whether ``--modules`` lets it be recorded."""
        self.number = -1
        """Number of its name in the file; -1 before its first row."""


class Root:
    """A module called from no other module, with the names of everything below it."""

    def __init__(self, module: torch.nn.Module, name: str, globs: tuple[str, ...]) -> None:
        self.name = name
        self.ref = weakref.ref(module)
        self.aliases: dict[str, list[str]] = {}
        self.passed = False
        """Whether it had a training pass since buffers were last recorded."""
        self.shown = False
        """Whether its parameters have been recorded: as initial ones, or where a window of steps begins."""
        self.met: set[str] = set()
        """FQNs of the modules and parameters that ``--modules`` was asked about; empty without it."""
        self._globs = globs
        self._infos: dict[int, ModuleInfo] = {}
        self._refs: dict[int, weakref.ref[Any]] = {}
        self._scan(module)

    def info(self, module: torch.nn.Module, parent: ModuleInfo | None) -> ModuleInfo:
        """Return what is known of a module below this root, learning of modules that were added later."""
        info = self._infos.get(id(module))
        if info is not None and self._refs[id(module)]() is module:
            return info
        top = self.ref()
        if top is not None:
            self._scan(top)
            info = self._infos.get(id(module))
            if info is not None and self._refs[id(module)]() is module:
                return info
        return self._stranger(module, parent)

    def knows(self, module: torch.nn.Module) -> bool:
        """Whether a module lies below this root."""
        ref = self._refs.get(id(module))
        return ref is not None and ref() is module

    def wants(self, fqn: str) -> bool:
        """Whether ``--modules`` lets a module or parameter be recorded."""
        return not self._globs or any(fnmatch.fnmatchcase(fqn, glob) for glob in self._globs)

    def tensors(self, *slots: str) -> Iterator[tuple[str, str, torch.Tensor]]:
        """Yield FQN, slot and tensor: all parameters (``param``), then all buffers (``buffer``), shared ones once.

        Args:
            slots: Those of the two that are wanted; none: both.
        """
        top = self.ref()
        if top is None:
            return
        modules = walk(top)
        for slot in slots or ("param", "buffer"):
            seen: set[int] = set()
            for prefix, module in modules:
                for name, tensor in (module._parameters if slot == "param" else module._buffers).items():
                    if tensor is not None and id(tensor) not in seen:
                        seen.add(id(tensor))
                        yield join(prefix, name), slot, tensor

    def shared_parameters(self) -> Iterator[tuple[str, str]]:
        """Yield first name and other name of every parameter that has more than one."""
        top = self.ref()
        first: dict[int, str] = {}
        for prefix, module in walk(top) if top is not None else ():
            for name, tensor in module._parameters.items():
                if tensor is None:
                    continue
                fqn = join(prefix, name)
                known = first.setdefault(id(tensor), fqn)
                if known != fqn:
                    yield known, fqn

    def _scan(self, top: torch.nn.Module) -> None:
        for fqn, module in walk(top):
            if self._globs:
                own = (*module._parameters.keys(), *module._buffers.keys())  # a scripted module's can do no more
                self.met |= {fqn, *(join(fqn, name) for name in own)}
            known = self._refs.get(id(module))
            if known is None or known() is not module:
                self._infos[id(module)] = ModuleInfo(fqn, type(module).__name__, self.wants(fqn))
                self._refs[id(module)] = weakref.ref(module)
            elif (first := self._infos[id(module)].fqn) != fqn:
                others = self.aliases.setdefault(f"{self.name}:{first}", [])
                if fqn not in others:
                    others.append(fqn)
        for first, other in self.shared_parameters():
            others = self.aliases.setdefault(f"{self.name}:{first}", [])
            if other not in others:
                others.append(other)

    def _stranger(self, module: torch.nn.Module, parent: ModuleInfo | None) -> ModuleInfo:
        """Name a module that is called below this root without being registered there (kept in a plain list, say)."""
        kind = type(module).__name__
        base = join(parent.fqn if parent else "", f"({kind})")
        taken = {info.fqn for info in self._infos.values()}
        fqn, number = base, 0
        while fqn in taken:
            number += 1
            fqn = f"{base[:-1]}_{number})"
        info = self._infos[id(module)] = ModuleInfo(fqn, kind, self.wants(fqn))
        if self._globs:
            self.met.add(fqn)
        self._refs[id(module)] = weakref.ref(module)
        return info
