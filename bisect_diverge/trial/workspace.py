"""The scratch directory of a search: one folder for each trial, gone when the trial is judged."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bisect_diverge.trial.checkout import FOLDER

_NAME = re.compile(r"bd-[a-z0-9_]{8}")
"""Short: the sockets of loader workers lie below it, and their paths have 107 characters at most."""
_MODE = 0o1700
"""Nobody else's directory has this mode: the last bit means something only where others may write."""
STALE_SECONDS = 60.0
"""A directory that nobody holds is removed when it is so old: a younger one may be about to be held."""


class Scratch:
    """A temporary directory that is held while its process lives; the next search removes what nobody holds.

    A search that is killed between two trials cannot remove it itself. It is held by a lock of the system on the
    directory, which ends with the process however that ends, and is seen from other containers too.
    """

    def __init__(self) -> None:
        sweep(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix="bd-"))
        self.path.chmod(_MODE)
        self._held = os.open(self.path, os.O_RDONLY)
        with contextlib.suppress(OSError):  # a file system without locks: then the directory is never swept away
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def remove(self) -> None:
        """Remove it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._held)


def sweep(place: Path) -> None:
    """Remove the directories of searches that are no more."""
    with contextlib.suppress(OSError):
        for path in place.iterdir():
            if _NAME.fullmatch(path.name) and _is_stale(path):
                shutil.rmtree(path, ignore_errors=True)


def _is_stale(path: Path) -> bool:
    """Whether a directory was made by a search of ours, and that search is no more."""
    try:
        found = path.lstat()
        ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and stat.S_IMODE(found.st_mode) == _MODE
        if not ours or time.time() - found.st_mtime < STALE_SECONDS or not all(map(_is_trial, path.iterdir())):
            return False
        handle = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(handle)
    except OSError:  # it is held, or has gone
        return False
    return True


def _is_trial(path: Path) -> bool:
    """Whether something in such a directory is ours: the folder of a trial, or that of the sources of all of them."""
    if path.name == FOLDER and path.is_dir() and not path.is_symlink():
        return True
    return path.name.isdigit() and ((path / "run").is_dir() or (path / "files").is_dir() or not any(path.iterdir()))


class Workspace:
    """A temporary directory.

    Args:
        keep: Directory in which trials are kept; None: they are removed.
    """

    def __init__(self, keep: Path | None = None) -> None:
        self._keep = keep
        self._scratch: Scratch | None = None
        self._count = 0
        self._lock = threading.Lock()

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Make the folder of a trial, and remove it afterwards."""
        with self._lock:
            root = self._root()
            root.mkdir(parents=True, exist_ok=True)
            while True:
                self._count += 1
                path = root / str(self._count)
                if not path.exists():
                    break
            path.mkdir()
        try:
            yield path
        finally:
            if self._keep is None:
                shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        """Remove what is left."""
        if self._scratch is not None:
            self._scratch.remove()
        self._scratch = None

    def _root(self) -> Path:
        if self._keep is not None:
            return self._keep
        if self._scratch is None:
            self._scratch = Scratch()
        return self._scratch.path

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
