"""Files that Git LFS keeps outside of the commits: a commit has a pointer, the content lies in a store beside them.

A trial gets the content without asking git-lfs, which may not be there and would fetch what is missing.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.environment.source import CODE

if TYPE_CHECKING:
    from bisect_diverge.environment.git import Git

LARGEST_POINTER = 1024
"""Bytes; a larger file is no pointer (https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md)."""
AS_POINTERS = tuple(
    word for entry in ("smudge=", "process=", "required=false") for word in ("-c", f"filter.lfs.{entry}")
)
"""Options of git that let pointers be checked out as they are."""
_POINTER = re.compile(rb"version https://git-lfs\.github\.com/spec/v1\n(?:.+\n)*?oid sha256:(?P<oid>[0-9a-f]{64})\n")
_ATTRIBUTES = ".gitattributes"
_FILTER = b"filter=lfs"


def oid_of(content: bytes) -> str:
    """Return the SHA-256 of the content that a pointer stands for; empty if it is no pointer."""
    found = _POINTER.match(content) if len(content) <= LARGEST_POINTER else None
    return found["oid"].decode() if found else ""


def fill_in(git: Git, target: Path, paths: Iterable[str]) -> None:
    """Replace the pointers in a directory by the contents that they stand for, where these are on this machine.

    A pointer whose content is not here stays: the user's own directory has no more.

    Args:
        git: Runs in the working tree of the user's.
        target: The directory.
        paths: Files in it.
    """
    paths = [path for path in paths if (target / path).is_file()]
    if not is_used((target / path).read_bytes() for path in paths if is_attributes(path)):
        return
    store = git.place("lfs/objects")
    for path in paths:
        place = target / path
        oid = _oid_at(place)
        content = find(oid, store, git.cwd / path) if oid else None
        if content is not None:
            place.unlink()
            if place.suffix in CODE:
                shutil.copyfile(content, place)
            else:
                place.symlink_to(content)


def is_attributes(path: str) -> bool:
    """Whether a file says which filters others go through."""
    return path.rpartition("/")[2] == _ATTRIBUTES


def find(oid: str, store: Path, working: Path) -> Path | None:
    """Return a file with a content: in the store of Git LFS, or in the working tree; None if neither has it.

    Args:
        oid: SHA-256 of the content.
        store: Directory ``lfs/objects`` of the repository.
        working: The file in the working tree.
    """
    kept = store / oid[:2] / oid[2:4] / oid
    if kept.is_file():
        return kept
    return working if working.is_file() and _sha256(working) == oid else None


def is_used(attributes: Iterable[bytes]) -> bool:
    """Whether one of some ``.gitattributes`` names the filter of Git LFS."""
    return any(_FILTER in content for content in attributes)


def _oid_at(path: Path) -> str:
    if path.is_symlink() or path.stat().st_size > LARGEST_POINTER:
        return ""
    return oid_of(path.read_bytes())


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
