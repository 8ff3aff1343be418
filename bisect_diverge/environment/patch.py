"""Takes credentials out of a patch before it is written into a recording."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from bisect_diverge.environment.secrets import MASKED, mask_code, mask_data

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = frozenset({".cfg", ".conf", ".env", ".ini", ".json", ".properties", ".sh", ".toml", ".yaml", ".yml", ""})
"""Suffixes of files in which values need no quotes; ``.env`` and ``Dockerfile`` have none."""

_FILES = re.compile(rb"\n(?=diff --git )")
_INDEX = re.compile(rb"^index ([0-9a-f]+)\.\.([0-9a-f]+)")


@dataclass(frozen=True, slots=True)
class MaskedPatch:
    """A patch without credentials."""

    patch: bytes
    lines: int
    """Lines in which something was masked."""
    applies: bool
    """False: a line that must be found in the file was masked too, so that the patch does not apply."""


def mask_patch(patch: bytes) -> MaskedPatch:
    """Return a patch in which values that look like credentials are masked.

    In removed and context lines too: they are in the commit, but that stays where it is; the patch travels. A file in
    which something was masked loses the hashes in its header as well: a short secret could be guessed from them.
    """
    files: list[bytes] = []
    count = 0
    applies = True
    for file in _FILES.split(patch):
        head, hunks = _split(file)
        masked = _mask_hunks(hunks, _mask_for(head))
        changed = [old for old, new in zip(hunks, masked, strict=True) if old != new]
        if changed:
            head = [_INDEX.sub(_without_hashes, line) for line in head]
            count += len(changed)
            applies = applies and all(line.startswith((b"+", b"@@")) for line in changed)
        files.append(b"\n".join([*head, *masked]))
    return MaskedPatch(b"\n".join(files), count, applies)


def _split(file: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return the header of a file's patch and its hunks, line by line; a binary file has a header only."""
    lines = file.split(b"\n")
    start = next((n for n, line in enumerate(lines) if line.startswith((b"@@ ", b"GIT binary patch"))), len(lines))
    if start < len(lines) and not lines[start].startswith(b"@@ "):
        start = len(lines)
    return lines[:start], lines[start:]


def _mask_for(head: list[bytes]) -> Callable[[str], str]:
    """Return what masks a line of the file that a header names."""
    names = [line[4:].rstrip() for line in head if line.startswith((b"+++ ", b"--- "))]
    name = next((name for name in reversed(names) if name != b"/dev/null"), b"")
    suffix = PurePosixPath(name.decode("utf-8", "replace").strip('"')).suffix.lower()
    return mask_data if suffix in DATA else mask_code


def _mask_hunks(lines: list[bytes], mask: Callable[[str], str]) -> list[bytes]:
    out = []
    key = False
    for line in lines:
        if line.startswith(b"@@ "):  # git repeats the line above the hunk after the numbers
            numbers, end, above = line.partition(b" @@")
            out.append(numbers + end + _masked(above, mask))
            continue
        key = (key or (b"-----BEGIN" in line and b"PRIVATE KEY-----" in line)) and b"-----END" not in line
        out.append(line[:1] + (MASKED.encode() if key else _masked(line[1:], mask)))
    return out


def _without_hashes(match: re.Match[bytes]) -> bytes:
    return b"index %s..%s" % (b"0" * len(match[1]), b"0" * len(match[2]))


def _masked(line: bytes, mask: Callable[[str], str]) -> bytes:
    return mask(line.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
