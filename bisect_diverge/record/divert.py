"""A trial's own view of the file system: it reads what A read, or B, and what it writes goes to a scratch directory.

Works at the level of Python's own functions (``open``, ``os.*``, and with them ``pathlib``, ``shutil``, ``glob``,
``bz2``, ``numpy.save``, ``torch.save``): a file that is written is made in the scratch directory, under its whole path,
and is found there when it is read again; what is removed is only hidden. A file or folder can be given in place of
another, and a folder can be listed as it was when it was recorded. Of libraries that open a file by themselves in C,
C++ or Rust those in `record.native` are covered. Not covered: all others (``torch.jit.save``), programs that the script
starts, and processes that a recording process spawns.

Standard library only, and imported before the script's first line.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from bisect_diverge.record.entries import Entries, Entry
from bisect_diverge.record.led_inputs import Inputs
from bisect_diverge.record.native import lead
from bisect_diverge.record.places import Places
from bisect_diverge.record.real_os import NAMES, REAL, is_there, real_open

VIEW = "view.json"
"""File in the scratch directory with the keys ``hidden``, ``remade`` and those of `Inputs`: too long for a variable."""

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_view: View | None = None


def not_as_expected() -> list[tuple[str, str]]:
    """Return which files that matter were not opened (or were, although nobody should); outside of a trial none."""
    return [] if _view is None else list(_view.inputs.told())


def note_held(held: Iterable[str]) -> None:
    """Note in a trial that the process has files open or mapped; outside of a trial nothing happens."""
    if _view is not None and _view.inputs.expected:
        _view.inputs.note_held(held)


def divert(
    scratch: str, hidden: Iterable[str] = (), remade: Iterable[str] = (), inputs: dict[str, Any] | None = None
) -> None:
    """Divert everything that this process writes from now on, and some of what it reads.

    Args:
        scratch: Directory of the trial.
        hidden: Files that are there, but that the process must not see: the recorded run made them.
        remade: Folders that the recorded run made: making them again is no error.
        inputs: What it reads otherwise, as `Inputs` takes it.
    """
    global _view  # noqa: PLW0603 - one process is diverted once
    if _view is not None:
        return
    _view = View(scratch, hidden, remade, Inputs(inputs))
    builtins.open = io.open = _view.open
    for name in NAMES:
        setattr(os, name, getattr(_view, f"os_{name}"))
    lead(_view.place)
    if "bz2" in sys.modules:  # imported before us, it keeps a name of its own
        sys.modules["bz2"]._builtin_open = _view.open  # type: ignore[attr-defined]


def for_writing(path: str) -> str:
    """Return where a file that a library opens by itself is to be written: the path itself outside of a trial."""
    if _view is None:
        return path
    absolute = _view.absolute(path)
    return path if absolute is None else _view.to_write(absolute, keep=False)


class View(Places):
    """What stands in place of Python's functions."""

    def open(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        """``open``."""
        absolute = self.absolute(file)
        if absolute is None:
            return real_open(file, mode, *args, **kwargs)
        if not any(letter in mode for letter in "wax+"):
            place = self.to_read(absolute)
            self.inputs.note(absolute)
            return real_open(file if place == absolute else place, mode, *args, **kwargs)
        if "x" in mode and self.exists(absolute):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), file)
        return real_open(self.to_write(absolute, keep="w" not in mode), mode, *args, **kwargs)

    def os_open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        """``os.open``."""
        absolute = self.absolute(path, dir_fd)
        if absolute is None:
            return int(REAL["open"](path, flags, mode, dir_fd=dir_fd))
        if not flags & _WRITES:
            self.inputs.note(absolute)
            return int(REAL["open"](self.to_read(absolute), flags, mode))
        if flags & os.O_EXCL and self.exists(absolute):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if not flags & os.O_CREAT and not self.exists(absolute):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        place = self.to_write(absolute, keep=not flags & os.O_TRUNC)
        return int(REAL["open"](place, flags | os.O_CREAT, mode))

    def _looking(self, name: str, path: Any, args: Any, dir_fd: int | None, **kwargs: Any) -> Any:
        absolute = self.absolute(path, dir_fd)
        if absolute is None:
            return REAL[name](path, *args, dir_fd=dir_fd, **kwargs)
        return REAL[name](self.to_read(absolute), *args, **kwargs)

    def os_stat(self, path: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        """``os.stat``."""
        result: os.stat_result = self._looking("stat", path, (), dir_fd, follow_symlinks=follow_symlinks)
        return result

    def os_lstat(self, path: Any, *, dir_fd: int | None = None) -> os.stat_result:
        """``os.lstat``."""
        result: os.stat_result = self._looking("lstat", path, (), dir_fd)
        return result

    def os_access(self, path: Any, mode: int, *, dir_fd: int | None = None, **kwargs: Any) -> bool:
        """``os.access``."""
        return bool(self._looking("access", path, (mode,), dir_fd, **kwargs))

    def os_readlink(self, path: Any, *, dir_fd: int | None = None) -> Any:
        """``os.readlink``."""
        return self._looking("readlink", path, (), dir_fd)

    def os_chdir(self, path: Any) -> None:
        """``os.chdir``."""
        absolute = self.absolute(path)
        REAL["chdir"](path if absolute is None else self.to_read(absolute))

    def os_mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        """``os.mkdir``."""
        self._make("mkdir", path, (mode,), dir_fd)

    def os_mkfifo(self, path: Any, mode: int = 0o666, *, dir_fd: int | None = None) -> None:
        """``os.mkfifo``."""
        self._make("mkfifo", path, (mode,), dir_fd)

    def os_mknod(self, path: Any, mode: int = 0o600, device: int = 0, *, dir_fd: int | None = None) -> None:
        """``os.mknod``."""
        self._make("mknod", path, (mode, device), dir_fd)

    def _make(self, name: str, path: Any, args: Any, dir_fd: int | None) -> None:
        absolute = self.absolute(path, dir_fd)
        if absolute is None:
            REAL[name](path, *args, dir_fd=dir_fd)
            return
        if self.exists(absolute) and absolute not in self.remade:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self.remade.discard(absolute)
        self.prepare_parent(absolute)
        REAL[name](self.copy(absolute), *args)

    def os_remove(self, path: Any, *, dir_fd: int | None = None) -> None:
        """``os.remove``."""
        self._take_away("remove", path, dir_fd)

    def os_unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        """``os.unlink``."""
        self._take_away("unlink", path, dir_fd)

    def os_rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        """``os.rmdir``."""
        absolute = self.absolute(path, dir_fd)
        if absolute is not None and self.exists(absolute) and self.os_listdir(absolute):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        self._take_away("rmdir", path, dir_fd)

    def _take_away(self, name: str, path: Any, dir_fd: int | None) -> None:
        absolute = self.absolute(path, dir_fd)
        if absolute is None:
            REAL[name](path, dir_fd=dir_fd)
            return
        copy = self.copy(absolute)
        if is_there(copy) or not self.exists(absolute):
            REAL[name](copy)
        self.gone.add(absolute)

    def os_rename(self, src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        """``os.rename``."""
        source, target = self.absolute(src, src_dir_fd), self.absolute(dst, dst_dir_fd)
        if source is not None and self.exists(source):
            self.to_write(source, keep=True)
            self.gone.add(source)
        place = os.fspath(src) if source is None else self.copy(source)
        if target is not None:
            self.prepare_parent(target)
        REAL["replace"](place, os.fspath(dst) if target is None else self.copy(target))

    os_replace = os_rename

    def os_link(self, src: Any, dst: Any, **kwargs: Any) -> None:
        """``os.link``: a copy, since a second name of the user's file could be written to."""
        source, target = self.absolute(src), self.absolute(dst)
        if target is None or kwargs:
            REAL["link"](src, dst, **kwargs)
            return
        if self.exists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), dst)
        self.prepare_parent(target)
        self.take(os.fspath(src) if source is None else self.to_read(source), self.copy(target))

    def os_symlink(self, src: Any, dst: Any, target_is_directory: bool = False, *, dir_fd: int | None = None) -> None:
        """``os.symlink``."""
        absolute = self.absolute(dst, dir_fd)
        if absolute is None:
            REAL["symlink"](src, dst, target_is_directory, dir_fd=dir_fd)
            return
        if self.exists(absolute):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), dst)
        self.prepare_parent(absolute)
        points_to = self.absolute(os.path.join(os.path.dirname(absolute), os.fsdecode(src)))  # noqa: PTH118, PTH120
        REAL["symlink"](src if points_to is None else self.to_read(points_to), self.copy(absolute))

    def os_truncate(self, path: Any, length: int) -> None:
        """``os.truncate``."""
        absolute = self.absolute(path)
        REAL["truncate"](path if absolute is None else self.to_write(absolute, keep=True), length)

    def os_chmod(self, path: Any, mode: int, *, dir_fd: int | None = None, **kwargs: Any) -> None:
        """``os.chmod``."""
        self._touch("chmod", path, (mode,), dir_fd, kwargs)

    def os_chown(self, path: Any, uid: int, gid: int, *, dir_fd: int | None = None, **kwargs: Any) -> None:
        """``os.chown``."""
        self._touch("chown", path, (uid, gid), dir_fd, kwargs)

    def os_lchown(self, path: Any, uid: int, gid: int) -> None:
        """``os.lchown``."""
        self._touch("lchown", path, (uid, gid), None, {})

    def os_setxattr(self, path: Any, attribute: Any, value: Any, flags: int = 0, **kwargs: Any) -> None:
        """``os.setxattr``."""
        self._touch("setxattr", path, (attribute, value, flags), None, kwargs)

    def os_removexattr(self, path: Any, attribute: Any, **kwargs: Any) -> None:
        """``os.removexattr``."""
        self._touch("removexattr", path, (attribute,), None, kwargs)

    def os_getxattr(self, path: Any, attribute: Any, **kwargs: Any) -> Any:
        """``os.getxattr``."""
        absolute = self.absolute(path)
        return REAL["getxattr"](path if absolute is None else self.to_read(absolute), attribute, **kwargs)

    def os_listxattr(self, path: Any = None, **kwargs: Any) -> Any:
        """``os.listxattr``."""
        absolute = self.absolute(path)
        return REAL["listxattr"](path if absolute is None else self.to_read(absolute), **kwargs)

    def os_utime(self, path: Any, times: Any = None, *, dir_fd: int | None = None, **kwargs: Any) -> None:
        """``os.utime``."""
        self._touch("utime", path, (times,), dir_fd, kwargs)

    def _touch(self, name: str, path: Any, args: Any, dir_fd: int | None, kwargs: dict[str, Any]) -> None:
        absolute = self.absolute(path, dir_fd)
        if absolute is None:
            extra = {} if dir_fd is None else {"dir_fd": dir_fd}
            if name == "utime" and args == (None,) and "ns" in kwargs:
                args = ()
            REAL[name](path, *args, **extra, **kwargs)
            return
        copy = self.copy(absolute)
        if not is_there(copy) and self.exists(absolute):
            return  # the user's own file keeps its mode and its time
        if name == "utime" and "ns" in kwargs:
            args = ()
        REAL[name](copy, *args, **kwargs)

    def os_scandir(self, path: Any = ".") -> Any:
        """``os.scandir``."""
        absolute = self.absolute(path)
        if absolute is None or not (is_there(self.copy(absolute)) or self.gone or self._is_other(absolute)):
            return REAL["scandir"](path)
        copy = self.copy(absolute)
        origin = self.inputs.found(absolute)
        entries: dict[str, Any] = {}
        if is_there(origin) and not self.is_gone(absolute):
            with REAL["scandir"](path if origin == absolute else origin) as found:
                entries = {e.name: e for e in found if not self.is_gone(f"{absolute}/{os.fsdecode(e.name)}")}
        elif not is_there(copy) and absolute not in self.inputs.children:
            return REAL["scandir"](copy)  # fails as it must
        if is_there(copy):
            with REAL["scandir"](copy) as found:
                entries.update({e.name: e for e in found})
        if self._is_other(absolute):
            return Entries(self._other_entries(absolute, path, entries))
        return Entries(iter(entries.values()))

    def _is_other(self, absolute: str) -> bool:
        """Whether a folder is read otherwise than it is there."""
        inputs = self.inputs
        return absolute in inputs.listings or absolute in inputs.children or inputs.found(absolute) != absolute

    def _other_entries(self, absolute: str, path: Any, entries: dict[str, Any]) -> Iterator[Any]:
        """Yield the entries of a folder in the order of `_names`, each under the path that the process asked for."""
        text: Any = os.fspath(path)
        for name in self._names(absolute):
            own: Any = os.fsencode(name) if isinstance(text, bytes) else name
            entry = entries.get(own)
            asked = os.path.join(text, own)  # noqa: PTH118
            yield entry if entry is not None and entry.path == asked else Entry(self, own, asked)
