"""Checks the heaps in which HDF5 keeps texts of attributes: the one kind of metadata that has no checksum.

HDF5 follows the sizes in a damaged heap as they are, and may go round in a circle for ever. Format: HDF5 file format
specification 3.0, section III.E, global heap. A recording makes all its attributes before its first row, so the heap
lies near the beginning.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SEARCHED = 1 << 20
"""Bytes at the beginning of a file in which heaps are looked for."""

_START = b"GCOL\x01"
_HEAD = 16
_LEAST = 4096
_OBJECT = struct.Struct("<HHIQ")


def check_heaps(path: Path) -> None:
    """Raise ValueError where a heap near the beginning of a file is damaged."""
    size = path.stat().st_size
    with path.open("rb") as file:
        content = file.read(SEARCHED)
        at = content.find(_START)
        while at >= 0:
            file.seek(at)
            (length,) = struct.unpack("<Q", content[at + 8 : at + _HEAD].ljust(8, b"\0"))
            if not _LEAST <= length <= min(size - at, SEARCHED) or not _is_whole(file.read(length)):
                raise ValueError("the texts of its attributes are damaged")
            at = content.find(_START, at + length)


def _is_whole(heap: bytes) -> bool:
    """Return whether the objects of a heap fill it, one after the other, each with a number of its own."""
    at, seen = _HEAD, set()
    while len(heap) - at >= _OBJECT.size:
        number, _, _, length = _OBJECT.unpack_from(heap, at)
        if number == 0:  # what is free, with its head: it comes last
            return bool(length == len(heap) - at)
        at += _OBJECT.size + -(-length // 8) * 8
        if number in seen or at > len(heap):
            return False
        seen.add(number)
    return True
