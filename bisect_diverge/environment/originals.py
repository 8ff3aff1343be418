"""Keeps in a run what its source was: the patch of what is not committed, and files that are in no repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.environment.inputs import FILE, Keeper, kept, present
from bisect_diverge.environment.local import LARGEST_FILE
from bisect_diverge.environment.secrets import mask_code
from bisect_diverge.model.environment import Layer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bisect_diverge.model.environment import Setting

PATCH = "source.patch"
"""File in a run: what leads from the commit to the files as they were."""
_LAYERS = (Layer.SOURCE, Layer.FEATURES)


def keep_originals(
    run: Path, cwd: Path, settings: Sequence[Setting], patch: bytes | None, *, copies: bool = True
) -> None:
    """Write the patch and copies of small source and feature files into a run, but none that holds a credential.

    Args:
        run: Directory of the run.
        cwd: Directory that the files are named relative to.
        settings: What was read before the command is started.
        patch: The patch; None: there is none to keep.
        copies: Whether files are copied.
    """
    if patch is not None:
        (run / PATCH).write_bytes(patch)
    keeper = Keeper(run, on=copies)
    for row in settings:
        name = row.knob.removeprefix(FILE)
        if row.layer not in _LAYERS or name == row.knob:
            continue
        path = cwd / name
        try:
            size = path.stat().st_size
            if may_be_kept(path, size):
                keeper.file(path, row.value, size)
        except OSError:
            continue


def original(run: str, value: str | None, path: Path) -> Path | None:
    """Return a file with a recorded content: the copy in the run, or the file itself if it is still so.

    Args:
        run: Directory of the run; empty: it is not known.
        value: Recorded hash.
        path: Where it lay.
    """
    copy = kept(run, value)
    if copy is not None:
        return copy
    return path if value is not None and present(str(path), value) == value else None


def may_be_kept(path: Path, size: int) -> bool:
    """Whether a file of code is small enough to be kept, and nothing in it looks like a credential."""
    is_library = ".so" in path.suffixes
    return is_library or (size <= LARGEST_FILE and not _holds_credential(path))


def _holds_credential(path: Path) -> bool:
    if path.suffix != ".py":
        return False
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return False
    return any(mask_code(line) != line for line in lines)
