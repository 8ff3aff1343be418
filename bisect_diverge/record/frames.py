"""Looking at frames without leaving anything behind in them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_SNAPSHOTS = sys.version_info < (3, 13)
"""Before PEP 667 ``f_locals`` of a function is a dict that the frame keeps, with every tensor in it."""


@contextmanager
def local_variables(frame: FrameType) -> Iterator[dict[str, Any]]:
    """Yield a frame's local variables, and drop the snapshot afterwards so that it keeps no tensor alive."""
    variables = frame.f_locals
    try:
        yield variables  # type: ignore[misc,unused-ignore]
    finally:
        if _SNAPSHOTS and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            variables.clear()  # the snapshot only: the function's variables live elsewhere
