"""Code that a process has loaded, wherever it lies, and copies of what no commit has.

What is installed, the standard library and what compilers keep in caches are left out: packages have a layer of their
own, and caches are made again from the rest.
"""

from __future__ import annotations

import contextlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from bisect_diverge.environment.dependencies import read, top_level
from bisect_diverge.environment.git import Git, GitError
from bisect_diverge.environment.hashing import hash_file
from bisect_diverge.environment.inputs import FILE, LARGEST_COPY, Keeper, present
from bisect_diverge.environment.knobs import setting
from bisect_diverge.environment.originals import may_be_kept
from bisect_diverge.model.environment import Layer

if TYPE_CHECKING:
    from bisect_diverge.model.environment import Setting

MODULE = "module:"
"""How the knob of a loaded file begins."""
EXTENSION = "extension:"
"""How the knob of an extension begins that torch has compiled into its cache."""
END_MARK = "modules"
"""Knob that only a run that reached its end has."""
INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Folders of packages."""
CACHES = ("/torchinductor_", "/.triton/", "/__pycache__/")
"""Parts of paths below which compilers keep what they have made."""
SYSTEM = ("/usr/", "/lib/", "/lib64/", "/opt/rocm", "/dev/", "/memfd:", "/SYSV")
"""How the paths of libraries begin that belong to the system."""
EXTENSIONS = "torch_extensions"
"""Folder of torch's cache of extensions, unless ``TORCH_EXTENSIONS_DIR`` names another."""

_STANDARD = ("stdlib", "platstdlib")
_OURS = ("bisect_diverge", "sitecustomize")
_MAPS = Path("/proc/self/maps")
_main_file = ""
"""File of the main module; Python itself forgets it before the functions that run at exit are called."""


def remember_main() -> None:
    """Keep the name of the file that this process runs, for `read_modules`."""
    global _main_file  # noqa: PLW0603 - one process runs one file
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if isinstance(file, str):
        _main_file = os.path.realpath(file)


def read_modules(cwd: Path, more: Iterable[str] = ()) -> Iterator[Setting]:
    """Yield the content hash of each file of code that is loaded, and at last how many there are.

    A file is named relative to `cwd` where both lie in the same repository or below `cwd`, else by its path.

    Args:
        cwd: Working directory of the run.
        more: Files of code that were read as text: ``exec(open("config.py").read())``.
    """
    root = os.path.realpath(cwd)
    top = project_of(root)
    count = 0
    for path in sorted({*_modules(), *_libraries(), *_own(more)}):
        try:
            content = hash_file(Path(path))
        except OSError:
            continue
        count += 1
        prefix, name = MODULE, os.path.relpath(path, root) if _below(path, top) else path
        if (extension := _extension(path)) is not None:
            prefix, name = EXTENSION, extension
        yield setting(Layer.SOURCE, f"{prefix}{name}", content, resolved=True)
    yield setting(Layer.SOURCE, END_MARK, str(count), resolved=True)


def project_of(folder: str) -> str:
    """Return the nearest folder at or above one that holds a repository; the folder itself where there is none."""
    place = folder
    while not os.path.lexists(f"{place.rstrip('/')}/.git"):
        place, before = os.path.dirname(place), place  # noqa: PTH120 - at the end of a run, without pathlib's cost
        if place == before:
            return folder
    return place


def keep_modules(run: Path, cwd: Path, rows: Sequence[Setting]) -> None:
    """Copy those loaded files of a finished run into it that neither its commit nor its patch has.

    Nothing is copied that is another file by now, that is large, or in which something looks like a credential.

    Args:
        run: Directory of the run.
        cwd: Its working directory.
        rows: What was recorded of it.
    """
    source = [s for s in rows if s.layer is Layer.SOURCE]
    loaded = {s.knob.removeprefix(MODULE): s.value for s in source if s.knob.startswith(MODULE)}
    known = _in_repository(cwd, loaded, rows) | {s.knob.removeprefix(FILE) for s in source}
    keeper = Keeper(run)
    for name, value in loaded.items():
        path = cwd / name
        with contextlib.suppress(OSError):
            size = path.stat().st_size
            if name not in known and size <= LARGEST_COPY and present(str(path)) == value and may_be_kept(path, size):
                keeper.file(path, value, size)


def _in_repository(cwd: Path, names: Iterable[str], rows: Sequence[Setting]) -> set[str]:
    """Return the names of files that a commit or a patch has; what lies in a submodule is in neither."""
    git = Git(cwd)
    try:
        git.cwd = top = Path(git.text("rev-parse", "--show-toplevel"))
        entries = [entry.partition("\t") for entry in git.names("ls-files", "--stage", "-z")]
    except (GitError, OSError):
        return set()
    tracked = {path for head, _, path in entries if not head.startswith("160000")}
    changed = next((s.value for s in rows if s.layer is Layer.SOURCE and s.knob == "uncommitted.files"), "")
    tracked |= {word.partition(" ")[2] for word in changed.split(", ")}
    return {name for name in names if os.path.relpath(os.path.realpath(cwd / name), top) in tracked}


def _modules() -> Iterator[str]:
    """Yield the files of the modules of this process."""
    files = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or (name == "__main__" and _main_file)
        if isinstance(file, str) and name.partition(".")[0] not in _OURS:
            files.append(file)
    yield from _own(files)


def _libraries() -> Iterator[str]:
    """Yield the shared libraries that are mapped into this process, but the system's."""
    try:
        lines = _MAPS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return
    paths = {line[line.index("/") :] for line in lines if "/" in line}
    theirs = (*SYSTEM, *(f"{os.path.realpath(place)}/" for place in (sys.prefix, sys.base_prefix)))
    yield from _own(path for path in paths if ".so" in path and not path.startswith(theirs))


def _own(files: Iterable[str]) -> Iterator[str]:
    """Yield the real paths of files that are in no package, not in the standard library and in no cache."""
    standard = tuple(f"{os.path.realpath(place)}/" for n in _STANDARD if (place := sysconfig.get_path(n)))
    places = {f"{os.path.realpath(place)}/": names for place, names in _targets().items()}
    folders: dict[str, str] = {}
    for file in files:
        folder, base = os.path.split(file)
        if folder not in folders:
            folders[folder] = os.path.realpath(folder)
        path = f"{folders[folder]}/{base}"
        installed = not INSTALLED.isdisjoint(PurePosixPath(path).parts) or any(
            path.startswith(place) and path.removeprefix(place).partition("/")[0] in names
            for place, names in places.items()
        )
        if not installed and not path.startswith(standard) and not any(part in path for part in CACHES):
            yield path


def _targets() -> dict[str, set[str]]:
    """Return the other directories on the search path into which packages were installed, with what is theirs there."""
    found: dict[str, set[str]] = {}
    for place in sys.path:
        if place and INSTALLED.isdisjoint(PurePosixPath(place).parts):
            # A checkout that is installed to be edited has an .egg-info: it is no such directory.
            names = {row.knob for row in read([place])} if any(Path(place).glob("*.dist-info")) else ()
            if names:
                found[place] = set().union(*(top_level(name, place) for name in names))
    return found


def _below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _extension(path: str) -> str | None:
    """Return the name of an extension that lies in torch's cache; None of a file that lies elsewhere."""
    given = os.environ.get("TORCH_EXTENSIONS_DIR")
    if given and _below(path, os.path.realpath(given)):
        return os.path.relpath(path, os.path.realpath(given))
    _, found, rest = path.partition(f"/{EXTENSIONS}/")
    return rest.partition("/")[2] if found else None
