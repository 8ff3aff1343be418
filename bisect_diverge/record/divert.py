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
import stat as stat_module
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

EXCLUDED = ("/dev", "/proc", "/sys")
"""Not diverted: no files of the user's."""

VIEW = "view.json"
"""File in the scratch directory with the keys ``hidden``, ``remade`` and those of `Inputs`: too long for a variable."""

SEEN = "seen-"
"""How a file in the scratch directory begins in which a process notes what it opens, for its parent and other ranks."""

OPENED = "opened"
"""Word for a file that was opened, or a folder that was listed."""
NOT_OPENED = "not opened"
"""Word for one that was not."""

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_NAMES = (
    "open", "stat", "lstat", "access", "mkdir", "rmdir", "remove", "unlink", "rename", "replace", "link", "symlink",
    "readlink", "truncate", "chmod", "chown", "lchown", "utime", "mkfifo", "mknod", "getxattr", "listxattr", "setxattr",
    "removexattr", "listdir", "scandir", "chdir",
)  # fmt: skip
_os: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in _NAMES}
_open = builtins.open

_view: View | None = None


class Inputs:
    """What a process reads otherwise than it is there.

    Args:
        row: JSON object with any of the keys ``paths`` (absolute path of a file or folder to the one that is read
            instead), ``listings`` (absolute path of a folder to the names in it, in their order) and ``expected``
            (absolute path to pairs of ``layer.knob`` and the word, `OPENED` or `NOT_OPENED`, that is to be told).
    """

    def __init__(self, row: dict[str, Any] | None = None) -> None:
        row = row or {}
        self.paths: dict[str, str] = row.get("paths", {})
        self.listings: dict[str, list[str]] = row.get("listings", {})
        self.expected: dict[str, list[tuple[str, str]]] = row.get("expected", {})
        self.children: dict[str, list[str]] = {}
        """Folder to the names of what is read in it although it may not be there."""
        for path in self.paths:
            self.children.setdefault(os.path.dirname(path), []).append(os.path.basename(path))  # noqa: PTH119, PTH120
        self.leads = {place: path for path, place in self.paths.items()}
        """The other way round: a script that is told the other place asks for it by itself."""
        self._scratch = ""
        self._seen: set[str] = set()

    def found(self, absolute: str) -> str:
        """Return the path that is read for another."""
        above = absolute if self.paths else ""
        while len(above) > 1:
            place = self.paths.get(above)
            if place is not None:
                return place + absolute[len(above) :]
            above = os.path.dirname(above)  # noqa: PTH120
        return absolute

    def concerns(self, absolute: str) -> bool:
        """Whether a path is read otherwise than it is there, or is to be told of."""
        return any(absolute in table for table in (self.paths, self.listings, self.expected, self.leads))

    def note_in(self, scratch: str) -> None:
        """Let each process note there what it opens."""
        self._scratch = scratch

    def note(self, absolute: str) -> None:
        """Note that something was opened or listed, if anybody wants to know."""
        absolute = self.leads.get(absolute, absolute)
        if absolute not in self.expected or absolute in self._seen:
            return
        self._seen.add(absolute)
        with _open(f"{self._scratch}/{SEEN}{os.getpid()}", "a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"{absolute}\0")

    def note_held(self, held: Iterable[str]) -> None:
        """Note what is open or mapped, by its real path."""
        real = os.path.realpath
        asked = {real(path): path for path in self.expected} | {real(place): path for place, path in self.leads.items()}
        for path in held:
            if path in asked:
                self.note(asked[path])

    def told(self) -> Iterator[tuple[str, str]]:
        """Yield ``layer.knob`` and the word of what turned out as it was to be told."""
        for name in _os["listdir"](self._scratch) if self._scratch else ():
            if name.startswith(SEEN):
                with _open(f"{self._scratch}/{name}", encoding="utf-8", errors="surrogateescape") as file:
                    self._seen.update(file.read().split("\0"))
        opened: dict[tuple[str, str], bool] = {}  # a file may be known by several paths: one of them is enough
        for absolute, wanted in self.expected.items():
            for knob, when in wanted:
                opened[knob, when] = opened.get((knob, when), False) or absolute in self._seen
        yield from ((knob, when) for (knob, when), is_open in opened.items() if is_open == (when == OPENED))


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
    for name in _NAMES:
        setattr(os, name, getattr(_view, f"os_{name}"))
    from bisect_diverge.record.native import lead

    lead(_view.place)
    if "bz2" in sys.modules:  # imported before us, it keeps a name of its own
        sys.modules["bz2"]._builtin_open = _view.open  # type: ignore[attr-defined]


def for_writing(path: str) -> str:
    """Return where a file that a library opens by itself is to be written: the path itself outside of a trial."""
    if _view is None:
        return path
    absolute = _view.absolute(path)
    return path if absolute is None else _view.to_write(absolute, keep=False)


class View:
    """Maps paths.

    Args:
        scratch: Directory of the trial.
        hidden: Files that must not be seen.
        remade: Folders that may be made again.
        inputs: What is read otherwise.
    """

    def __init__(self, scratch: str, hidden: Iterable[str], remade: Iterable[str], inputs: Inputs) -> None:
        self.scratch = os.path.abspath(scratch)  # noqa: PTH100 - pathlib would be imported into every process
        self.layer = f"{self.scratch}/files"
        self.inputs = inputs
        inputs.note_in(self.scratch)
        self.gone = set(hidden) - inputs.paths.keys()
        self.remade = set(remade)
        self._excluded = tuple(f"{place}/" for place in (*EXCLUDED, self.scratch))

    # -- where things are --------------------------------------------------------------------------------------

    def absolute(self, path: Any, dir_fd: int | None = None) -> str | None:
        """Return the absolute path of what may be diverted; None for a descriptor and for places that never are."""
        if path is None or isinstance(path, int):
            return None
        text = os.fsdecode(path)
        if dir_fd is not None and not text.startswith("/"):
            text = f"{_os['readlink'](f'/proc/self/fd/{dir_fd}')}/{text}"
        absolute = os.path.abspath(text)  # noqa: PTH100
        if absolute.startswith("//"):  # POSIX lets two slashes at the beginning stand; they mean the same here
            absolute = absolute[1:]
        if absolute.startswith(f"{self.layer}/"):  # named through a descriptor of a folder in the scratch directory
            return absolute[len(self.layer) :]
        excluded = f"{absolute}/".startswith(self._excluded) and not self.inputs.concerns(absolute)
        return None if excluded else absolute

    def copy(self, absolute: str) -> str:
        """Return the place in the scratch directory."""
        return self.layer + absolute

    def is_gone(self, absolute: str) -> bool:
        """Whether what lies at a path, or a folder above it, is hidden or was removed."""
        if not self.gone:
            return False
        while len(absolute) > 1:
            if absolute in self.gone:
                return True
            absolute = os.path.dirname(absolute)  # noqa: PTH120
        return False

    def to_read(self, absolute: str) -> str:
        """Return the path to read."""
        copy = self.copy(absolute)
        if _there(copy) or self.is_gone(absolute):
            return copy
        return self.inputs.found(absolute)

    def exists(self, absolute: str) -> bool:
        """Whether the process sees something there."""
        return _there(self.to_read(absolute))

    def to_write(self, absolute: str, *, keep: bool) -> str:
        """Return the path to write, with what is there copied to it if `keep`."""
        copy = self.copy(absolute)
        if _there(copy):
            return copy
        origin = self.inputs.found(absolute)
        visible = not self.is_gone(absolute) and _there(origin)
        if visible and not _is_plain(origin):
            return origin  # a pipe, a terminal, a socket
        self.prepare_parent(absolute)
        if visible and keep:
            self.take(absolute, copy)
        return copy

    def prepare_parent(self, absolute: str) -> None:
        """Make the folder above a path in the scratch directory, if the process sees such a folder."""
        parent = os.path.dirname(absolute)  # noqa: PTH120
        if not self.exists(parent):
            return
        missing = []
        while not _there(self.copy(parent)):
            missing.append(parent)
            parent = os.path.dirname(parent) if len(parent) > 1 else ""  # noqa: PTH120
        for folder in reversed(missing):
            try:
                _os["mkdir"](self.copy(folder))
            except FileExistsError:  # another rank
                continue

    def take(self, absolute: str, copy: str) -> None:
        """Copy a file or folder into the scratch directory."""
        origin = self.inputs.found(absolute)
        if stat_module.S_ISDIR(_os["stat"](origin).st_mode):
            self.prepare_parent(absolute)
            _os["mkdir"](copy)
            for name in self.os_listdir(absolute):
                self.to_write(f"{absolute}/{name}", keep=True)
            return
        with _open(origin, "rb") as source, _open(copy, "wb") as target:
            while block := source.read(1 << 20):
                target.write(block)
        _os["chmod"](copy, stat_module.S_IMODE(_os["stat"](origin).st_mode) | stat_module.S_IWUSR)

    def place(self, path: Any, use: str) -> Any:
        """Return the path that a library is given which opens a file by itself (`record.native`)."""
        from bisect_diverge.record.native import READ, WRITE, is_path

        absolute = self.absolute(path) if is_path(path) else None
        if absolute is None:
            return path
        if use != WRITE:
            self.inputs.note(absolute)
        place = self.to_read(absolute) if use == READ else self.to_write(absolute, keep=use != WRITE)
        return path if place == absolute else place

    # -- what the script calls ---------------------------------------------------------------------------------

    def open(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        """``open``."""
        absolute = self.absolute(file)
        if absolute is None:
            return _open(file, mode, *args, **kwargs)
        if not any(letter in mode for letter in "wax+"):
            place = self.to_read(absolute)
            self.inputs.note(absolute)
            return _open(file if place == absolute else place, mode, *args, **kwargs)
        if "x" in mode and self.exists(absolute):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), file)
        return _open(self.to_write(absolute, keep="w" not in mode), mode, *args, **kwargs)

    def os_open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        """``os.open``."""
        absolute = self.absolute(path, dir_fd)
        if absolute is None:
            return int(_os["open"](path, flags, mode, dir_fd=dir_fd))
        if not flags & _WRITES:
            self.inputs.note(absolute)
            return int(_os["open"](self.to_read(absolute), flags, mode))
        if flags & os.O_EXCL and self.exists(absolute):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if not flags & os.O_CREAT and not self.exists(absolute):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        place = self.to_write(absolute, keep=not flags & os.O_TRUNC)
        return int(_os["open"](place, flags | os.O_CREAT, mode))

    def _looking(self, name: str, path: Any, args: Any, dir_fd: int | None, **kwargs: Any) -> Any:
        absolute = self.absolute(path, dir_fd)
        if absolute is None:
            return _os[name](path, *args, dir_fd=dir_fd, **kwargs)
        return _os[name](self.to_read(absolute), *args, **kwargs)

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
        _os["chdir"](path if absolute is None else self.to_read(absolute))

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
            _os[name](path, *args, dir_fd=dir_fd)
            return
        if self.exists(absolute) and absolute not in self.remade:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self.remade.discard(absolute)
        self.prepare_parent(absolute)
        _os[name](self.copy(absolute), *args)

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
            _os[name](path, dir_fd=dir_fd)
            return
        copy = self.copy(absolute)
        if _there(copy) or not self.exists(absolute):
            _os[name](copy)
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
        _os["replace"](place, os.fspath(dst) if target is None else self.copy(target))

    os_replace = os_rename

    def os_link(self, src: Any, dst: Any, **kwargs: Any) -> None:
        """``os.link``: a copy, since a second name of the user's file could be written to."""
        source, target = self.absolute(src), self.absolute(dst)
        if target is None or kwargs:
            _os["link"](src, dst, **kwargs)
            return
        if self.exists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), dst)
        self.prepare_parent(target)
        self.take(os.fspath(src) if source is None else self.to_read(source), self.copy(target))

    def os_symlink(self, src: Any, dst: Any, target_is_directory: bool = False, *, dir_fd: int | None = None) -> None:
        """``os.symlink``."""
        absolute = self.absolute(dst, dir_fd)
        if absolute is None:
            _os["symlink"](src, dst, target_is_directory, dir_fd=dir_fd)
            return
        if self.exists(absolute):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), dst)
        self.prepare_parent(absolute)
        points_to = self.absolute(os.path.join(os.path.dirname(absolute), os.fsdecode(src)))  # noqa: PTH118, PTH120
        _os["symlink"](src if points_to is None else self.to_read(points_to), self.copy(absolute))

    def os_truncate(self, path: Any, length: int) -> None:
        """``os.truncate``."""
        absolute = self.absolute(path)
        _os["truncate"](path if absolute is None else self.to_write(absolute, keep=True), length)

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
        return _os["getxattr"](path if absolute is None else self.to_read(absolute), attribute, **kwargs)

    def os_listxattr(self, path: Any = None, **kwargs: Any) -> Any:
        """``os.listxattr``."""
        absolute = self.absolute(path)
        return _os["listxattr"](path if absolute is None else self.to_read(absolute), **kwargs)

    def os_utime(self, path: Any, times: Any = None, *, dir_fd: int | None = None, **kwargs: Any) -> None:
        """``os.utime``."""
        self._touch("utime", path, (times,), dir_fd, kwargs)

    def _touch(self, name: str, path: Any, args: Any, dir_fd: int | None, kwargs: dict[str, Any]) -> None:
        absolute = self.absolute(path, dir_fd)
        if absolute is None:
            extra = {} if dir_fd is None else {"dir_fd": dir_fd}
            if name == "utime" and args == (None,) and "ns" in kwargs:
                args = ()
            _os[name](path, *args, **extra, **kwargs)
            return
        copy = self.copy(absolute)
        if not _there(copy) and self.exists(absolute):
            return  # the user's own file keeps its mode and its time
        if name == "utime" and "ns" in kwargs:
            args = ()
        _os[name](copy, *args, **kwargs)

    def os_listdir(self, path: Any = ".") -> list[Any]:
        """``os.listdir``."""
        absolute = self.absolute(path)
        if absolute is None:
            names: list[Any] = _os["listdir"](path)
            return names
        found = self._names(absolute)
        return [os.fsencode(name) for name in found] if isinstance(path, bytes) else found

    def _names(self, absolute: str) -> list[str]:
        """Return the names in a folder, in the order in which the process sees them.

        Where the folder is to be listed as it was recorded: the recorded names that can be read, then what this process
        has made; a name that has come since is not seen.
        """
        copy = self.copy(absolute)
        made: list[str] = _os["listdir"](copy) if _there(copy) else []
        if _there(copy) and (self.is_gone(absolute) or not _there(absolute)):
            found = list(made)
        else:
            own = _os["listdir"](copy if self.is_gone(absolute) else self.inputs.found(absolute))
            found = [name for name in own if name in made or not self.is_gone(f"{absolute}/{name}")]
            found += [name for name in made if name not in own]
        found += [name for name in self.inputs.children.get(absolute, ()) if name not in found]
        recorded = self.inputs.listings.get(absolute)
        if recorded is None:
            return found
        self.inputs.note(absolute)
        there = set(found)
        return [name for name in recorded if name in there] + sorted(set(made) - set(recorded), key=found.index)

    def os_scandir(self, path: Any = ".") -> Any:
        """``os.scandir``."""
        absolute = self.absolute(path)
        if absolute is None or not (_there(self.copy(absolute)) or self.gone or self._is_other(absolute)):
            return _os["scandir"](path)
        copy = self.copy(absolute)
        origin = self.inputs.found(absolute)
        entries: dict[str, Any] = {}
        if _there(origin) and not self.is_gone(absolute):
            with _os["scandir"](path if origin == absolute else origin) as found:
                entries = {e.name: e for e in found if not self.is_gone(f"{absolute}/{os.fsdecode(e.name)}")}
        elif not _there(copy) and absolute not in self.inputs.children:
            return _os["scandir"](copy)  # fails as it must
        if _there(copy):
            with _os["scandir"](copy) as found:
                entries.update({e.name: e for e in found})
        if self._is_other(absolute):
            return _Entries(self._other_entries(absolute, path, entries))
        return _Entries(iter(entries.values()))

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
            yield entry if entry is not None and entry.path == asked else _Entry(self, own, asked)


class _Entry:
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


class _Entries:
    """What ``os.scandir`` returns."""

    def __init__(self, entries: Iterator[Any]) -> None:
        self._entries = entries

    def __iter__(self) -> Iterator[Any]:
        return self._entries

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget the rest."""
        self._entries = iter(())


def _there(path: str) -> bool:
    try:
        _os["lstat"](path)
    except OSError:
        return False
    return True


def _is_plain(path: str) -> bool:
    try:
        mode = _os["stat"](path).st_mode
    except OSError:  # a link to nothing
        return True
    return stat_module.S_ISREG(mode) or stat_module.S_ISDIR(mode)
