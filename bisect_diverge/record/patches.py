"""What we replaced and registered, so that it can all be taken back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class Patches:
    """Undoes everything in reverse order; what somebody replaced after us stays as it is."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def replace(self, owner: Any, name: str, new: Callable[..., Any], like: Callable[..., Any] | None = None) -> None:
        """Put `new` in an attribute's place, with the name, documentation and signature of `like`."""
        own = vars(owner)
        had, old = name in own, own.get(name)
        if like is not None:
            functools.update_wrapper(new, like)
        setattr(owner, name, new)

        def undo() -> None:
            if vars(owner).get(name) is not new:
                return
            if had:
                setattr(owner, name, old)
            else:
                delattr(owner, name)

        self._undo.append(undo)

    def add_handle(self, handle: Any) -> None:
        """Remember a hook's handle."""
        self._undo.append(handle.remove)

    def add_undo(self, undo: Callable[[], None]) -> None:
        """Remember any other way back."""
        self._undo.append(undo)

    def undo(self) -> None:
        """Take everything back."""
        while self._undo:
            self._undo.pop()()
