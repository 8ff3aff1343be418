"""Which files a recorded process reads and writes; and in a trial, where it finds and writes them instead.

Standard library only, and as little of it as can be: every Python process below ``bd record`` imports this first.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing would cost every process three milliseconds
    from typing import Any

IGNORED = ("/dev/", "/proc/", "/sys/")
"""No files of the user's."""
MOST = 10_000
"""Paths that are remembered; a run that writes more is a run that writes samples."""
CODE = (".py", ".pyc", ".pyi", ".pth", ".so", ".pyd")
"""Files that are read because they are run: source and packages have layers of their own."""
SYSTEM = (*IGNORED, "/etc/", "/usr/", "/lib/", "/lib64/", "/bin/")
"""Places that belong to the system: what is read there is no data."""
MEMORY = "/dev/shm/"
"""A place for data all the same."""
CACHES = ("/torchinductor_", "/.triton/", "/__pycache__/", "/.git/", "/matplotlib/", ".dist-info/", ".egg-info/")
"""Parts of paths that compilers and libraries keep their own things below."""
IMPORTERS = ("importlib", "pkgutil", "bisect_diverge/environment")
"""Parts of the names of files that list folders to find modules and packages in them; ours do so too."""
SEEN = "seen-"
"""How a file begins in which a forked child, a loader worker, notes what it reads."""

_writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_found: dict[str, str] = {}
_read: dict[str, None] = {}
_listed: dict[str, list[str] | None] = {}
_called = False
_pid = 0
_settings = ""
_installed: tuple[str, ...] = ()


def begin(settings: str) -> None:
    """Note from now on what this process writes; in a trial, divert it.

    Args:
        settings: JSON of `record.settings.Settings`.
    """
    global _pid, _settings, _installed  # noqa: PLW0603 - one process is watched once
    if '"trial": null' in settings:
        if not _pid:
            _pid, _settings = os.getpid(), settings
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


def written() -> dict[str, str]:
    """Return what was written so far: absolute path to a word of `model.run.Written`. Our own files are left out."""
    ours = f"{_folder()}/" if _settings else ""
    return {path: word for path, word in _found.items() if not ours or not path.startswith(ours)}


def opened() -> tuple[list[str], dict[str, list[str] | None]]:
    """Return the files that were read so far, absolute, and the folders that were listed, with the names in them.

    What forked children have read comes last, and of the folders that they have listed the names are not known (None),
    nor of very large ones. What the run has written itself is left out.
    """
    read, listed = dict(_read), dict(_listed)  # before we look around ourselves
    for line in _of_children():
        if line[0] == "l":
            listed.setdefault(line[1:], None)
        else:
            read[line[1:]] = None
    return [p for p in read if p not in _found], {p: names for p, names in listed.items() if p not in _found}


def _of_children() -> list[str]:
    """Return what the children have noted, and take their notes away."""
    if not _settings:
        return []
    from glob import escape, glob

    lines: list[str] = []
    for path in sorted(glob(f"{escape(_folder())}/{SEEN}*")):  # noqa: PTH207 - see the top
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
                lines += [line for line in file.read().split("\0") if line]
            os.remove(path)  # noqa: PTH107
        except OSError:
            continue
    return lines


def _folder() -> str:
    import json

    run: str = json.loads(_settings)["run"]
    return run


def _note_read(path: Any, table: dict[str, Any], kind: str) -> None:
    """Note that a file is about to be read, or a folder to be listed."""
    if not isinstance(path, str | bytes | os.PathLike) or len(table) >= MOST:
        return
    text = os.fsdecode(path)
    if text.endswith(CODE):
        return
    absolute = os.path.abspath(text)  # noqa: PTH100
    system = absolute.startswith(SYSTEM) and not absolute.startswith(MEMORY)
    if absolute in table or system or f"{absolute}/".startswith(_installed):
        return
    if any(part in f"{absolute}/" for part in CACHES):
        return
    table[absolute] = None
    if kind == "l" and os.getpid() == _pid:
        names = os.listdir(absolute)  # noqa: PTH208 - as the script is about to see them
        table[absolute] = names if len(names) <= MOST else None
    if os.getpid() != _pid:  # a forked child, whose memory is its own
        line = f"{kind}{absolute}\0".encode(errors="surrogateescape")
        descriptor = os.open(f"{_folder()}/{SEEN}{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, line)
        os.close(descriptor)


def note(path: Any) -> None:
    """Note that a file or folder is about to be written."""
    if not isinstance(path, str | bytes | os.PathLike) or len(_found) >= MOST:
        return
    absolute = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - links are the user's; pathlib is not imported yet
    if absolute in _found or absolute.startswith(IGNORED) or "/__pycache__/" in absolute:
        return
    there = os.path.lexists(absolute)
    _found[absolute] = "changed" if there else "output" if _called else "prepared"


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
            note(arguments[1])
    except Exception:  # the user's open() must not fail because of us
        return
