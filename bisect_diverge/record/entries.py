"""What ``os.scandir`` returns where entries do not lie where they are listed.

Standard library only.
"""

from __future__ import annotations

import os
import stat as stat_module
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bisect_diverge.record.divert import View


class Entry:
    """An entry of ``os.scandir`` that does not lie where it is listed."""

    def __init__(self, view: View, name: Any, path: Any) -> None:
        self.name = name
        self.path = path
        self._view = view

    def __fspath__(self) -> Any:
        return self.path

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """``DirEntry.stat``."""
        return self._view.os_stat(self.path, follow_symlinks=follow_symlinks)

    def inode(self) -> int:
        """``DirEntry.inode``."""
        return self.stat(follow_symlinks=False).st_ino

    def _is(self, kind: Callable[[int], bool], *, follow_symlinks: bool) -> bool:
        try:
            return kind(self.stat(follow_symlinks=follow_symlinks).st_mode)
        except OSError:
            return False

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """``DirEntry.is_dir``."""
        return self._is(stat_module.S_ISDIR, follow_symlinks=follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """``DirEntry.is_file``."""
        return self._is(stat_module.S_ISREG, follow_symlinks=follow_symlinks)

    def is_symlink(self) -> bool:
        """``DirEntry.is_symlink``."""
        return self._is(stat_module.S_ISLNK, follow_symlinks=False)


class Entries:
    """What ``os.scandir`` returns."""

    def __init__(self, entries: Iterator[Any]) -> None:
        self._entries = entries

    def __iter__(self) -> Iterator[Any]:
        return self._entries

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget the rest."""
        self._entries = iter(())
