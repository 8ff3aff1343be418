"""Files that a run reads and folders that it lists: their names, their content, and copies of the small ones.

The rows are requested settings: ``file:PATH`` is the content of a file (configuration by its suffix, else dataset),
``listing:PATH`` the names in a folder in the order in which the file system gives them. Contents and lists are kept
below ``RUN/files``, each under its hash, so that a trial can read what the run read however the file is now.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import xxhash

from bisect_diverge.environment.configuration import FILE_SUFFIXES, LARGEST_FILE, name_of
from bisect_diverge.environment.hashing import SAMPLED, hash_bytes, hash_file
from bisect_diverge.environment.knobs import NOT_READ, setting
from bisect_diverge.environment.patch import DATA
from bisect_diverge.environment.secrets import mask_data
from bisect_diverge.model.environment import Layer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from bisect_diverge.model.environment import Setting

FOLDER = "files"
"""Folder of a run that holds the copies."""
FILE = "file:"
"""How the knob of a file's content begins."""
LISTING = "listing:"
"""How the knob of a folder's list of names begins."""
NAMED = "named:"
"""How the knob of a file begins that the command names, and that nothing was seen to open."""
OPENED_BY = "opened:"
"""How the knob of a file begins that a library opened by itself."""
CHANGED = f"{NOT_READ}: it was changed while the run went on"
"""Value of a file that was another when the run ended than when it was read, and that the run itself did not change."""
REST = "files.rest"
"""Knob of all files beyond `MOST_FILES`."""

LARGEST_COPY = 16 << 20
"""Bytes; a larger file is not kept."""
MOST_BYTES = 64 << 20
"""Bytes that are kept of one run."""
MOST_FILES = 2000
"""Files and folders that get a row of their own."""
MOST_NAMES = 10_000
"""Names of a folder that are kept; of a longer list there is the hash alone."""
WHOLE_BYTES = 64 << 20
"""A larger file is hashed by its first, middle and last 64 KiB."""
MOST_HASHED = 1 << 30
"""Bytes; where a run has read more than this in all, every file is hashed like a large one: a script that read a large
data set must not wait at its end for us to read it again."""
SEARCHED_BYTES = 4 << 20
"""Text of this size is searched for credentials; a larger configuration file is not kept."""

SECRET_FILES = frozenset(
    {".netrc", "_netrc", ".env", "credentials", "token", "stored_tokens", ".git-credentials", ".pypirc", ".npmrc"}
    | {"id_rsa", "id_ed25519", "id_ecdsa"}
)
SECRET_FOLDERS = frozenset({".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure", "gcloud"})
SECRET_SUFFIXES = frozenset({".pem", ".key", ".p12", ".pfx"})
"""Files that are credentials by their name or place: neither a copy nor a hash of them is kept."""

_SEPARATOR = b"\0"


@dataclass(frozen=True, slots=True)
class Before:
    """What a file held before the run itself changed it."""

    whole: str
    """Hash of its content; of a large file the hash of parts."""
    sampled: str
    """Hash of its first, middle and last 64 KiB."""
    size: int
    """Bytes."""


class Keeper:
    """Copies files into a run, each content once, until there is enough.

    Args:
        run: Directory of the run.
        on: Whether anything is kept.
    """

    def __init__(self, run: Path, *, on: bool = True) -> None:
        self._folder = run / FOLDER
        self._on = on
        self._left = MOST_BYTES
        self.whole = MOST_HASHED
        """Bytes that may still be hashed while the script waits; files beyond them are sampled."""
        with contextlib.suppress(OSError):  # another rank, or `bd record` itself, has begun
            self._left -= sum(entry.stat().st_size for entry in self._folder.iterdir())

    def file(self, path: Path, value: str, size: int) -> None:
        """Keep a file of which the hash is `value`, if it is small and holds no credential."""
        if self._on and size <= min(LARGEST_COPY, self._left) and not _holds_credential(path, size):
            with contextlib.suppress(OSError):
                self._put(value, lambda place: shutil.copyfile(path, place), size)

    def text(self, data: bytes, value: str) -> None:
        """Keep some bytes of which the hash is `value`."""
        if self._on and len(data) <= self._left:
            with contextlib.suppress(OSError):
                self._put(value, lambda place: place.write_bytes(data), len(data))

    def _put(self, value: str, write: Callable[[Path], object], size: int) -> None:
        place = _place(self._folder, value)
        if place is None or place.exists():
            return
        self._folder.mkdir(exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self._folder)
        os.close(handle)
        try:
            write(Path(name))
            Path(name).replace(place)  # another rank may write the same content
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        self._left -= size


def before(path: str, keeper: Keeper) -> Before | None:
    """Return what a file holds that is about to be changed, and keep it if it is small; None if it cannot be read.

    Args:
        path: Absolute path.
        keeper: Keeps it.
    """
    try:
        size = os.stat(path).st_size  # noqa: PTH116 - a path of the user's
        if not os.path.isfile(path) or is_secret(Path(path)):  # noqa: PTH113
            return None
        sampled = size > min(WHOLE_BYTES, keeper.whole)
        whole = hash_file(Path(path), sampled=sampled)
        found = Before(whole=whole, sampled=hash_file(Path(path), sampled=True), size=size)
    except OSError:
        return None
    if not sampled:
        keeper.whole -= size
        keeper.file(Path(path), whole, size)
    return found


def kept(run: str, value: str | None) -> Path | None:
    """Return the copy of a content in a run's directory; None if there is none.

    Args:
        run: Directory of the run; empty: it is not known.
        value: Value of a ``file:`` or ``listing:`` row.
    """
    place = None if not run or value is None else _place(Path(run) / FOLDER, value)
    return place if place is not None and place.is_file() else None


def names_in(run: str, value: str | None) -> tuple[str, ...] | None:
    """Return the names of a ``listing:`` row in their order; None if they were not kept."""
    place = kept(run, value)
    if place is None:
        return None
    data = place.read_bytes()
    return tuple(os.fsdecode(name) for name in data.split(_SEPARATOR)) if data else ()


def present(path: str, like: str | None = None) -> str:
    """Return the hash of what lies at a path now; empty if nothing does.

    Args:
        path: Absolute path.
        like: Hash that it is compared with: where that is of samples, so is this.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - a path of the user's, as it was recorded
    except OSError:
        return ""
    sampled = status.st_size > WHOLE_BYTES or (like is not None and like.startswith(SAMPLED))
    return _hash_now(path, sampled, status.st_size, status.st_mtime_ns, status.st_ino)


@functools.lru_cache(maxsize=4 * MOST_FILES)
def _hash_now(path: str, sampled: bool, _size: int, _changed: int, _inode: int) -> str:
    try:
        return hash_file(Path(path), sampled=sampled)
    except OSError:
        return ""


def layer_of(name: str, size: int) -> Layer:
    """Return the layer of a file: small ones with the suffix of a configuration file are configuration."""
    return Layer.CONFIGURATION if is_configuration(name) and size <= LARGEST_FILE else Layer.DATASET


def is_configuration(name: str) -> bool:
    """Whether a file's name has the suffix of a configuration file."""
    return os.path.splitext(name)[1].lower() in FILE_SUFFIXES  # noqa: PTH122


def is_secret(path: Path) -> bool:
    """Whether a file holds credentials and nothing else, as its name or the place where it lies says."""
    return path.name in SECRET_FILES or path.suffix in SECRET_SUFFIXES or not SECRET_FOLDERS.isdisjoint(path.parts)


def read_files(
    paths: Iterable[str],
    cwd: Path,
    keeper: Keeper,
    *,
    kind: str = FILE,
    states: Mapping[str, tuple[int, int] | None] = MappingProxyType({}),
    overwritten: Mapping[str, Before] = MappingProxyType({}),
) -> Iterator[Setting]:
    """Yield the content of files as they were read, and keep what is small.

    Args:
        paths: Absolute paths; what is no file any more is left out.
        cwd: Working directory of the run.
        keeper: Keeps them.
        kind: How the knobs begin.
        states: Time of the last change in ns and size in bytes of each when it was read, as far as they are known. One
            that has others now gets no hash: what it held is not known.
        overwritten: What those held that the run itself has changed since.
    """
    rest = xxhash.xxh3_128()
    beyond = 0
    wanted = [path for path in paths if not is_secret(Path(path))]
    sizes = dict(sizes_of(path for path in wanted if path not in overwritten))
    sizes = {p: overwritten[p].size if p in overwritten else sizes[p] for p in wanted if p in overwritten or p in sizes}
    whole = WHOLE_BYTES if sum(min(size, WHOLE_BYTES) for size in sizes.values()) <= MOST_HASHED else 0
    for count, (path, size) in enumerate(sizes.items()):
        value = _as_read(path, states.get(path), overwritten.get(path), sampled=size > whole)
        if not value:
            continue
        name = name_of(path, cwd)
        if count >= MOST_FILES:
            rest.update(os.fsencode(name) + _SEPARATOR + value.encode())
            beyond += 1
            continue
        if path not in overwritten and value != CHANGED:
            keeper.file(Path(path), value, size)
        layer = layer_of(name, size) if kind == FILE else Layer.DATASET
        yield setting(layer, f"{kind}{name}", value, resolved=False)
    if beyond:
        yield setting(Layer.DATASET, REST, f"xxh3:{rest.hexdigest()} ({beyond} files)", resolved=False)


def _as_read(path: str, state: tuple[int, int] | None, held: Before | None, *, sampled: bool) -> str:
    """Return the hash of a file as it was read; empty if it cannot be read any more."""
    if held is not None:
        return held.sampled if sampled else held.whole
    try:
        value = hash_file(Path(path), sampled=sampled)
        status = os.stat(path)  # noqa: PTH116 - a path of the user's, as it was recorded
    except OSError:
        return ""
    return value if state in (None, (status.st_mtime_ns, status.st_size)) else CHANGED


def sizes_of(paths: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield paths with the sizes in bytes of what lies there; a path at which nothing lies is left out."""
    for path in paths:
        with contextlib.suppress(OSError):
            yield path, os.stat(path).st_size  # noqa: PTH116 - a path of the user's, as it was recorded


def read_listings(
    folders: Mapping[str, list[str] | None], cwd: Path, keeper: Keeper, own: frozenset[str]
) -> Iterator[Setting]:
    """Yield the names in folders, in the order in which the file system lists them, and keep the lists.

    Args:
        folders: Absolute path to the names that were seen there; None: those that are there now.
        cwd: Working directory of the run.
        keeper: Keeps them.
        own: Absolute paths that the run made itself: not listed.
    """
    for folder, seen in list(folders.items())[:MOST_FILES]:
        try:
            there = os.listdir(folder) if seen is None else seen  # noqa: PTH208
        except OSError:
            continue
        names = [name for name in there if not _is_output(folder, name, own)]
        data = _SEPARATOR.join(os.fsencode(name) for name in names)
        value = f"{hash_bytes(data)} ({len(names)} {'name' if len(names) == 1 else 'names'})"
        if len(names) <= MOST_NAMES:
            keeper.text(data, value)
        yield setting(Layer.DATASET, f"{LISTING}{name_of(folder, cwd)}", value, resolved=False)


def _is_output(folder: str, name: str, own: frozenset[str]) -> bool:
    """Whether a name in a folder is an output of the run, a recording, or what Python compiles."""
    path = os.path.join(folder, name)  # noqa: PTH118
    if path in own or name == "__pycache__":
        return True
    return os.path.exists(f"{path}/rank-00000.h5")  # noqa: PTH110


def _place(folder: Path, value: str) -> Path | None:
    """Return where the content of a hash is kept; None for a hash of a part only."""
    method, _, digest = value.partition(" ")[0].partition(":")
    return folder / digest if method == "xxh3" and digest.isalnum() else None


def _holds_credential(path: Path, size: int) -> bool:
    """Whether a text file holds something that looks like a credential, or is too large to tell."""
    if path.suffix.lower() not in DATA:
        return False
    if size > SEARCHED_BYTES:
        return path.suffix != "" or _is_text(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    return any(mask_data(line) != line for line in lines)


def _is_text(path: Path) -> bool:
    with path.open("rb") as file:
        return b"\0" not in file.read(4096)
