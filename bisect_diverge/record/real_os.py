"""Python's own functions on files as they were before they were replaced (`record.divert`).

Standard library only, and imported before the script's first line.
"""

from __future__ import annotations

import builtins
import os
import stat as stat_module
from collections.abc import Callable
from typing import Any

NAMES = (
    "open", "stat", "lstat", "access", "mkdir", "rmdir", "remove", "unlink", "rename", "replace", "link", "symlink",
    "readlink", "truncate", "chmod", "chown", "lchown", "utime", "mkfifo", "mknod", "getxattr", "listxattr", "setxattr",
    "removexattr", "listdir", "scandir", "chdir",
)  # fmt: skip
"""Functions of ``os`` that take a path."""

REAL: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in NAMES}
real_open = builtins.open


def is_there(path: str) -> bool:
    """Whether something lies at a path; a link to nothing does."""
    try:
        REAL["lstat"](path)
    except OSError:
        return False
    return True


def is_plain(path: str) -> bool:
    """Whether it is a file or a folder: no pipe, no terminal, no socket."""
    try:
        mode = REAL["stat"](path).st_mode
    except OSError:  # a link to nothing
        return True
    return stat_module.S_ISREG(mode) or stat_module.S_ISDIR(mode)
