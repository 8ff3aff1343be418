"""Working unseen inside the user's process."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch


class Owner(Protocol):
    """Whoever works unseen: the recorder, or a witness."""

    lock: Any
    """A re-entrant lock."""

    def trouble(self, where: str, error: BaseException) -> None:
        """Note a failure of ours."""


class quiet:  # noqa: N801 - used like a function; a class because a generator costs three times as much, each call
    """Do our work unseen: no error, no warning, no dispatch through the user's modes and classes, under the lock.

    Args:
        recorder: Gets the errors.
        where: What was being recorded, for the note of an error.
    """

    __slots__ = ("_guards", "_recorder", "_where")

    def __init__(self, recorder: Owner, where: str) -> None:
        self._recorder = recorder
        self._where = where

    def __enter__(self) -> None:
        self._recorder.lock.acquire()
        # A subclass may count or refuse what we ask it; a mode may as well.
        self._guards: list[Any] = [torch._C.DisableTorchFunctionSubclass()]
        if torch._C._len_torch_dispatch_stack():
            self._guards.append(_no_modes())
        if torch._C._len_torch_function_stack():
            self._guards.append(torch._C.DisableTorchFunction())
        for guard in self._guards:
            guard.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: Any) -> bool:
        try:
            while self._guards:
                self._guards.pop().__exit__(None, None, None)
            if isinstance(error, Exception):
                self._recorder.trouble(self._where, error)
        finally:
            self._recorder.lock.release()
        return error is None or isinstance(error, Exception)


def _no_modes() -> AbstractContextManager[Any]:
    from torch.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()
