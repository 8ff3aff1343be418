"""Looking at frames without leaving anything behind in them."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

_SNAPSHOTS = sys.version_info < (3, 13)
"""Before PEP 667 ``f_locals`` of a function is a dict that the frame keeps, with every tensor in it."""


@contextmanager
def local_variables(frame: FrameType) -> Iterator[dict[str, Any]]:
    """Yield a copy of a frame's local variables, and empty the frame's snapshot so that it keeps no tensor alive.

    The snapshot is the dict that ``locals()`` returns: one that the script holds is left to it, and so is what
    ``exec`` put there.
    """
    variables = frame.f_locals
    try:
        yield dict(variables)
    finally:
        # The frame, we and this call hold it: a fourth reference is the script's.
        if _SNAPSHOTS and frame.f_code.co_flags & inspect.CO_OPTIMIZED and sys.getrefcount(variables) <= 3:
            names = _names(frame.f_code)
            if variables.keys() <= names:
                variables.clear()  # the snapshot only: the function's variables live elsewhere
            else:
                for name in names:
                    variables.pop(name, None)


@functools.lru_cache(maxsize=512)
def _names(code: CodeType) -> frozenset[str]:
    return frozenset((*code.co_varnames, *code.co_cellvars, *code.co_freevars))


_NOT_THE_USERS = (str(Path(torch.__file__).parent), str(Path(__file__).parent.parent))
_sites: dict[tuple[Any, int], str] = {}


def user_site(frame: FrameType | None) -> str:
    """Return ``file:line`` of the innermost frame that is neither torch's nor ours; empty if there is none."""
    while frame is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        frame = frame.f_back
    if frame is None:
        return ""
    key = (frame.f_code, frame.f_lineno)
    text = _sites.get(key)
    if text is None:
        text = _sites[key] = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    return text
