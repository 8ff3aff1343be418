"""Which files this process has open or mapped at this moment, as the system tells: nothing is wrapped or watched.

Standard library only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

_EXECUTABLE_AT = 3
_EXECUTABLE = ord("x")
"""Where, after the first space of a line of ``/proc/self/maps``, the letter stands by which a mapping can be run."""
_SLOW = 0.001
"""Seconds; where reading the mappings took longer they are read no more but at the end."""

_judged: set[str] = set()
_took = 0.0


def is_time(step: int) -> bool:
    """Whether to look before a step: before 0, 1, 2, 4, 8, ...."""
    return step & (step - 1) == 0


def held_files(*, last: bool = False) -> Iterator[str]:
    """Yield the absolute paths of regular files that are open for reading, or mapped and not as code; each once.

    Args:
        last: The process is about to end: the mappings are read, however long that takes.
    """
    global _took  # noqa: PLW0603 - of one process
    found = list(_open())
    if last or _took < _SLOW:
        began = time.perf_counter()
        found += _mapped()
        _took = time.perf_counter() - began
    for path in dict.fromkeys(found):
        if path not in _judged:
            _judged.add(path)
            if os.path.isfile(path):  # noqa: PTH113
                yield path


def _open() -> Iterator[str]:
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            path = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115
            if path.startswith("/") and path not in _judged and not _is_for_writing(name):
                yield path
        except OSError:  # the one that the folder was listed with
            continue


def _is_for_writing(descriptor: str) -> bool:
    """Whether a descriptor can only be written to."""
    with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as file:  # noqa: PTH123
        flags = next((line.split()[1] for line in file if line.startswith("flags:")), "0")
    return int(flags, 8) & os.O_ACCMODE == os.O_WRONLY


def _mapped() -> list[str]:
    """Return the files of which a part is mapped, and no part as code."""
    code: set[bytes] = set()
    data: dict[bytes, None] = {}
    with open("/proc/self/maps", "rb", buffering=0) as file:  # noqa: PTH123
        lines = file.read().split(b"\n")
    for line in lines:  # 7f1c00000000-7f1c00001000 r--p 00000000 00:1b 1234    /path
        at = line.find(b"/")
        if at > 0:
            path = line[at:]
            data[path] = None
            if line[line.find(b" ") + _EXECUTABLE_AT] == _EXECUTABLE:
                code.add(path)
    return [os.fsdecode(path) for path in data if path not in code]
