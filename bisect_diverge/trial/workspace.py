"""The scratch directory of a search: one folder for each trial, gone when the trial is judged."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Workspace:
    """A temporary directory.

    Args:
        keep: Directory in which trials are kept; None: they are removed.
    """

    def __init__(self, keep: Path | None = None) -> None:
        self._keep = keep
        self._root: Path | None = None
        self._count = 0
        self._lock = threading.Lock()

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Make the folder of a trial, and remove it afterwards."""
        with self._lock:
            if self._root is None:
                # Short: the sockets of loader workers lie below it, and their paths have 107 characters at most.
                self._root = self._keep or Path(tempfile.mkdtemp(prefix="bd-"))
                self._root.mkdir(parents=True, exist_ok=True)
            while True:
                self._count += 1
                path = self._root / str(self._count)
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
        if self._root is not None and self._keep is None:
            shutil.rmtree(self._root, ignore_errors=True)
        self._root = None

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
