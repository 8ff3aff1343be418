"""Which files a recorded process reads and writes; and in a trial, where it finds and writes them instead.

Standard library only, and as little of it as can be: every Python process below ``bd record`` imports this first.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing would cost every process three milliseconds
    from typing import Any

    from bisect_diverge.environment.inputs import Before, Keeper

IGNORED = ("/dev/", "/proc/", "/sys/")
"""No files of the user's."""
MOST = 10_000
"""Paths that are remembered; a run that writes more is a run that writes samples."""
MOST_BEFORE = 2000
"""Files that are hashed and kept before the run changes them: the script waits meanwhile, and no more have a row."""
CODE = (".py", ".pyc", ".pyi", ".pth", ".so", ".pyd")
"""Files that are read because they are run: source and packages have layers of their own."""
SYSTEM = (*IGNORED, "/etc/", "/usr/", "/lib/", "/lib64/", "/bin/")
"""Places that belong to the system: what is read there is no data."""
MEMORY = "/dev/shm/"
"""A place for data all the same."""
CACHES = ("/torchinductor_", "/.triton/", "/__pycache__/", "/.git/", "/matplotlib/", ".dist-info/", ".egg-info/")
"""Parts of paths that compilers and libraries keep their own things below."""
READERS = ("importlib", "linecache", "tokenize", "inspect", "pkgutil", "py_compile")
"""Parts of the names of files that read code to import it or to show it."""
IMPORTERS = ("importlib", "pkgutil", "bisect_diverge/environment")
"""Parts of the names of files that list folders to find modules and packages in them; ours do so too."""
SEEN = "seen-"
"""How a file begins in which a forked child, a loader worker, notes what it reads."""

_writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_found: dict[str, str] = {}
_read: dict[str, tuple[int, int] | None] = {}
_before: dict[str, Before] = {}
_native: set[str] = set()
_listed: dict[str, list[str] | None] = {}
_code: dict[str, None] = {}
_called = False
_is_spawned = "--multiprocessing-fork" in sys.orig_argv
_pid = 0
_began = 0.0
_settings = ""
_run = ""
_keeper: Keeper | None = None
_installed: tuple[str, ...] = ()


def begin(settings: str) -> None:
    """Note from now on what this process writes; in a trial, divert it.

    Args:
        settings: JSON of `record.settings.Settings`.
    """
    global _pid, _began, _settings, _installed  # noqa: PLW0603 - one process is watched once
    if '"trial": null' in settings:
        if not _pid:
            _pid, _began, _settings = os.getpid(), time.time(), settings
            _installed = tuple(f"{place}/" for place in {sys.prefix, sys.base_prefix, sys.exec_prefix} if place != "/")
            sys.addaudithook(_watch)
        return
    import json

    from bisect_diverge.record.divert import VIEW, divert

    trial = json.loads(settings)["trial"]
    if trial and trial["scratch"]:
        with open(f"{trial['scratch']}/{VIEW}", encoding="utf-8") as file:  # noqa: PTH123 - see the top
            view = json.load(file)
        sites = view.get("sites", {})
        sys.path[:] = [sites.get(entry, entry) for entry in sys.path]
        divert(trial["scratch"], view["hidden"], view["remade"], view)


def first_call() -> None:
    """Say that the first module is being called: what is made from now on is an output."""
    global _called  # noqa: PLW0603 - see `begin`
    _called = True
    look()


def began() -> float:
    """Return when this process was started, seconds since 1970."""
    return _began


def written() -> dict[str, str]:
    """Return what was written so far: absolute path to a word of `model.run.Written`. Our own files are left out."""
    ours = f"{_folder()}/" if _settings else ""
    return {path: word for path, word in _found.items() if not ours or not path.startswith(ours)}


def opened(run: str) -> tuple[dict[str, tuple[int, int] | None], dict[str, list[str] | None], list[str]]:
    """Return the files that were read so far, absolute, the folders that were listed, and the children's other lines.

    Behind a file stands when it had been changed last and how many bytes it had when it was opened; None: not known.
    What children have read comes last, and of the folders that they have listed the names are not known (None), nor of
    very large ones. What the run had written itself before it read it is left out.

    Args:
        run: Directory of the run, in which the children have noted theirs.
    """
    read, listed = dict(_read), dict(_listed)  # before we look around ourselves
    others = []
    for line in _of_children(run):
        if line[0] == "l":
            listed.setdefault(line[1:], None)
        elif line[0] == "r":
            read.setdefault(line[1:], None)
        else:
            others.append(line)
    own = _found.keys() - _before.keys()
    inputs = {path: state for path, state in read.items() if path not in own}
    return inputs, {path: names for path, names in listed.items() if path not in _found}, others


def overwritten() -> dict[str, Before]:
    """Return what files held that this process has read and then written over, moved or removed."""
    return dict(_before)


def opened_by_libraries() -> set[str]:
    """Return those of the files that were read of which the interpreter gave no notice."""
    return set(_native)


def code_read() -> list[str]:
    """Return the files of code, absolute, that were read as text: ``exec(open("config.py").read())``."""
    return list(_code)


def _of_children(folder: str) -> list[str]:
    """Return what the children have noted in a run's folder, and take their notes away.

    A line is ``r`` and the path of a file, ``l`` and that of a folder, or ``s`` and what `record.worker_seeds` says, or
    ``t`` and what `record.worker_threads` says.
    """
    from glob import escape, glob

    lines: list[str] = []
    for path in sorted(glob(f"{escape(folder)}/{SEEN}*")):  # noqa: PTH207 - see the top
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
                lines += [line for line in file.read().split("\0") if line]
            os.remove(path)  # noqa: PTH107
        except OSError:
            continue
    return lines


def _folder() -> str:
    global _run  # noqa: PLW0603 - the settings are long, and this is asked for each file
    if not _run:
        import json

        _run = json.loads(_settings)["run"]
    return _run


def _note_read(path: Any, table: dict[str, Any], kind: str) -> None:
    """Note that a file is about to be read, or a folder to be listed."""
    if not isinstance(path, str | bytes | os.PathLike) or len(table) >= MOST:
        return
    text = os.fsdecode(path)
    if text.endswith(".py"):
        by = sys._getframe(2).f_code.co_filename
        if len(_code) < MOST and not any(part in by for part in READERS):
            _code[os.path.abspath(text)] = None  # noqa: PTH100
    if text.endswith(CODE):
        return
    absolute = os.path.abspath(text)  # noqa: PTH100
    if absolute in table or absolute in _found or not _is_data(absolute):
        return
    table[absolute] = None
    if kind == "l" and os.getpid() == _pid:
        names = os.listdir(absolute)  # noqa: PTH208 - as the script is about to see them
        table[absolute] = names if len(names) <= MOST else None
    elif kind == "r":
        table[absolute] = state_of(absolute)
    if os.getpid() != _pid or _is_spawned:  # a child, whose memory is its own and may end unseen
        tell(_folder(), f"{kind}{absolute}")


def _is_data(absolute: str) -> bool:
    """Whether a path is no part of the system, of what is installed, or of a cache of compilers."""
    system = absolute.startswith(SYSTEM) and not absolute.startswith(MEMORY)
    if system or f"{absolute}/".startswith(_installed):
        return False
    return not any(part in f"{absolute}/" for part in CACHES)


def state_of(path: str) -> tuple[int, int] | None:
    """Return when a file was changed last, in ns, and its size in bytes; None if there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116 - see the top
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def tell(folder: str, line: str) -> None:
    """Note something for the parent of this process."""
    descriptor = os.open(f"{folder}/{SEEN}{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, f"{line}\0".encode(errors="surrogateescape"))
    os.close(descriptor)


def look(*, last: bool = False) -> None:
    """Note the files that this process has open or mapped and of which the interpreter gave no notice.

    Libraries open them in C, C++ or Rust. What was changed since the process began is no input as it was, and left out.
    In a trial it is noted which of the files that matter are among them.

    Args:
        last: The process is about to end.
    """
    try:
        _look(last=last)
    except Exception:  # no such folder of the system's, or the script has changed the functions that we use
        return


def _look(*, last: bool) -> None:
    from bisect_diverge.record.looks import held_files

    if not _pid:
        from bisect_diverge.record.divert import note_held

        note_held(held_files(last=last))
    if not _pid or os.getpid() != _pid:
        return
    for path in held_files(last=last):
        if len(_read) >= MOST or path in _read or path in _found or path.endswith(CODE) or not _is_data(path):
            continue
        if path.startswith(f"{_folder()}/"):  # ours
            continue
        state = state_of(path)
        if state is not None and state[0] < _began * 1e9:
            _read[path] = state
            _native.add(path)


def _keep_before(path: Any, descriptor: Any = None) -> None:
    """Keep what a file holds that was read, and that is about to be written over, moved or removed."""
    if not _settings or not isinstance(path, str | bytes | os.PathLike) or os.getpid() != _pid:
        return
    absolute = os.path.abspath(os.path.join(_folder_of(descriptor), os.fsdecode(path)))  # noqa: PTH100, PTH118
    if absolute not in _read or absolute in _found or absolute in _before or len(_before) >= MOST_BEFORE:
        return
    from bisect_diverge.environment.inputs import before

    found = before(absolute, _keeping())
    if found is not None:
        _before[absolute] = found


def _keeping() -> Keeper:
    """Return what keeps files for the whole run: it counts what is there once, and how long the script has waited."""
    global _keeper  # noqa: PLW0603 - see `begin`
    if _keeper is None:
        from pathlib import Path

        from bisect_diverge.environment.inputs import Keeper

        _keeper = Keeper(Path(_folder()), on='"keep_data": false' not in _settings)
    return _keeper


def _folder_of(descriptor: Any) -> str:
    """Return the folder that a descriptor stands for; empty where it stands for the present one."""
    if not isinstance(descriptor, int) or descriptor < 0:
        return ""
    return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - see the top


def note(path: Any) -> None:
    """Note that a file or folder is about to be written."""
    if not isinstance(path, str | bytes | os.PathLike) or len(_found) >= MOST:
        return
    absolute = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - links are the user's; pathlib is not imported yet
    if absolute in _found or absolute.startswith(IGNORED) or "/__pycache__/" in absolute:
        return
    _keep_before(absolute)
    there = os.path.lexists(absolute)
    _found[absolute] = "changed" if there else "output" if _called else "prepared"


def _connect(database: Any) -> None:
    """Note a database that SQLite is about to open: it may write to it without any notice, and makes one."""
    from bisect_diverge.record.databases import file_of

    path = file_of(database)
    if path is None:
        return
    if os.path.isfile(path):  # noqa: PTH113 - see the top
        _note_read(path, _read, "r")
        _keep_before(path)
    elif os.getpid() == _pid:
        note(path)


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Look at the interpreter's own notices: nothing is wrapped, so nothing behaves otherwise."""
    try:
        if event == "open":
            path, mode, flags = arguments
            written_to = any(c in "wax+" for c in mode) if isinstance(mode, str) else bool(flags & _writes)
            if not written_to:
                _note_read(path, _read, "r")
            elif os.getpid() == _pid:
                note(path)
        elif event in ("os.listdir", "os.scandir"):
            by = sys._getframe(1).f_code.co_filename
            if not any(part in by for part in IMPORTERS):
                _note_read(arguments[0] or ".", _listed, "l")
        elif event == "os.mkdir" and os.getpid() == _pid:
            note(arguments[0])
        elif event == "os.rename" and os.getpid() == _pid:
            source, target, source_in, target_in = arguments
            _keep_before(source, source_in)
            _keep_before(target, target_in)
            note(target)
        elif event == "os.remove":
            _keep_before(*arguments)
        elif event == "os.truncate":
            _keep_before(arguments[0])
        elif event == "sqlite3.connect":
            _connect(arguments[0])
    except Exception:  # the user's open() must not fail because of us
        return
