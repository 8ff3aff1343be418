"""Content hashes of files, streamed."""

from __future__ import annotations

import errno
import stat
from typing import TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    from pathlib import Path

BLOCK = 1 << 20
SAMPLE = 64 << 10
SAMPLED = "xxh3-sampled:"
"""How the hash of a part of a file begins."""


def hash_bytes(data: bytes) -> str:
    """Return the hash of bytes as text."""
    return f"xxh3:{xxhash.xxh3_128_hexdigest(data)}"


def hash_file(path: Path, *, sampled: bool = False) -> str:
    """Return the hash of a file's content as text.

    Args:
        path: The file.
        sampled: Read the first, middle and last 64 KiB and the size only; the text says so.

    Raises:
        OSError: if it cannot be read, or is no regular file: a pipe would be waited for.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    state = xxhash.xxh3_128()
    with path.open("rb", buffering=0) as file:
        size = file.seek(0, 2)
        if sampled and size > 3 * SAMPLE:
            state.update(str(size).encode())
            for offset in (0, size // 2, size - SAMPLE):
                file.seek(offset)
                state.update(file.read(SAMPLE))
            return f"{SAMPLED}{state.hexdigest()}"
        file.seek(0)
        while block := file.read(BLOCK):
            state.update(block)
    return f"xxh3:{state.hexdigest()}"
