"""The first bytes of an HDF5 file: whether a writer has it open, and how that mark is cleared.

HDF5 file format specification 3.0, section II.A, superblock versions 2 and 3 (48 bytes with 8-byte offsets): signature,
version, size of offsets, size of lengths, consistency flags, four addresses, checksum. HDF5 clears the mark only in
its tool `h5clear`; its library has no public call for it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 48
"""Bytes of the superblock."""
_FLAGS = 11
"""Byte with the file consistency flags."""
_END = 28
"""First byte of the address of the file's end."""
_OPEN = 0x01 | 0x04
"""Open for writing; open for SWMR writing."""
_SWMR = 0x04
_MASK = 0xFFFFFFFF


def is_open_for_swmr(path: Path) -> bool:
    """Return whether a file is being written, or its writer was killed."""
    with path.open("rb") as file:
        head = file.read(SIZE)
    return len(head) == SIZE and head[8] >= 3 and bool(head[_FLAGS] & _SWMR)


def as_closed(head: bytes, size: int) -> bytes:
    """Return a superblock without the marks of a writer.

    Args:
        head: The first `SIZE` bytes of a file.
        size: Bytes of the file. A writer notes its length when it flushes: one that was killed may have written more.

    Raises:
        ValueError: if they are no superblock of version 3 whose checksum is right.
    """
    if len(head) != SIZE or head[8] != 3 or head[9] != 8 or _checksum(head[:-4]) != head[-4:]:
        raise ValueError("its first block (the superblock) is damaged")
    body = bytearray(head[:-4])
    body[_FLAGS] &= ~_OPEN
    (end,) = struct.unpack_from("<Q", body, _END)
    struct.pack_into("<Q", body, _END, max(end, size))
    return bytes(body) + _checksum(bytes(body))


def clear(path: Path) -> None:
    """Clear the mark of a writer in a file, in place.

    Raises:
        ValueError: if the superblock is damaged.
        OSError: if the file cannot be written.
    """
    with path.open("r+b") as file:
        head = as_closed(file.read(SIZE), path.stat().st_size)
        file.seek(0)
        file.write(head)


def _checksum(data: bytes) -> bytes:
    """Return HDF5's checksum of metadata: Bob Jenkins' lookup3 (`hashlittle`, initial value 0), little-endian.

    Source: https://burtleburtle.net/bob/c/lookup3.c (public domain).
    """
    a = b = c = (0xDEADBEEF + len(data)) & _MASK
    words = struct.unpack(f"<{-(-len(data) // 12) * 3}I", data + b"\0" * (-len(data) % 12))
    last = len(words) - 3
    for at in range(0, last, 3):
        a, b, c = _mix((a + words[at]) & _MASK, (b + words[at + 1]) & _MASK, (c + words[at + 2]) & _MASK)
    a, b, c = (a + words[last]) & _MASK, (b + words[last + 1]) & _MASK, (c + words[last + 2]) & _MASK
    return struct.pack("<I", _final(a, b, c))


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> (32 - by)) & _MASK


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    for by in (4, 6, 8, 16, 19, 4):
        a = (a - c & _MASK) ^ _rotated(c, by)
        c = (c + b) & _MASK
        a, b, c = b, c, a
    return a, b, c


def _final(a: int, b: int, c: int) -> int:
    for by in (14, 11, 25, 16, 4, 14, 24):
        c = (c ^ b) - _rotated(b, by) & _MASK
        a, b, c = b, c, a
    return b
