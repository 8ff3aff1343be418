"""Opens recordings for reading, and refuses what could harm the reader: loops, bombs, links to other files.

A damaged HDF5 file is told by the checksums of its metadata. In SWMR mode HDF5 takes a wrong checksum for a block that
a writer is about to finish and reads it again and again, for minutes; so the metadata of such a file is read once as
if it were closed, before it is opened in SWMR mode.
"""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import h5py

from bisect_diverge.errors import DamagedRunError, NewerSchemaError, NoSuchRunError, NotARunError
from bisect_diverge.model.run import SCHEMA
from bisect_diverge.store import schema, superblock
from bisect_diverge.store.heap import check_heaps

READ_ERRORS = (OSError, KeyError, ValueError, TypeError, RuntimeError, OverflowError, MemoryError, AttributeError)
"""What h5py and numpy raise when the bytes of a file are not what its structure says."""

_WAITS = (0.02, 0.05)
"""Seconds before a file that is being written is looked at again: it may have been caught between two writes."""

_ATTRIBUTES = ("format", "schema", "digest")


def open_recording(path: Path) -> Any:
    """Return an open h5py file that has the attributes of a recording of a schema known here.

    No locks are taken: they fail on some network file systems, and SWMR needs none.

    Raises:
        NoSuchRunError, NotARunError, DamagedRunError, NewerSchemaError: if it cannot be read.
    """
    if not path.exists():
        raise NoSuchRunError(f"no such run: {path}")
    try:
        if not path.is_file() or not h5py.is_hdf5(path):
            raise NotARunError(f"{path} is not an HDF5 file", hint="give a run directory or one of its rank-*.h5 files")
        check_heaps(path)
        swmr = superblock.is_open_for_swmr(path)
        if swmr:
            _look_through(path)
        file = h5py.File(path, "r", swmr=swmr, locking=False)
    except READ_ERRORS as error:
        raise damaged(path, error) from error
    try:
        _check_head(file, path)
    except BaseException:
        file.close()
        raise
    return file


def dataset(file: Any, name: str, kinds: str) -> Any:
    """Return a dataset of a recording as h5py has it.

    Args:
        file: What `open_recording` returned.
        name: Path of the dataset.
        kinds: Kinds of numpy types that it may have (``u``, ``V`` for a compound, ...).

    Raises:
        KeyError, ValueError: if it is not there, is not what this format has, or reaches outside of the file.
    """
    for part in (name[:at] for at, letter in enumerate(f"{name}/") if letter == "/"):
        if not isinstance(file.get(part, getlink=True), h5py.HardLink):
            raise ValueError(f"/{part} is missing, or a link to somewhere else")
    found = file[name]
    if not isinstance(found, h5py.Dataset) or len(found.shape or ()) != 1:
        raise ValueError(f"/{name} is not a one-dimensional dataset")
    if found.chunks is None or found.external or found.is_virtual or found.id.get_create_plist().get_nfilters():
        raise ValueError(f"/{name} is not a plain chunked dataset of this file")
    if found.dtype.kind not in kinds:
        raise ValueError(f"/{name} has elements of type {found.dtype}")
    return found


def written(found: Any) -> int:
    """Return how many elements of a dataset can have been written: its length may be ahead of what is stored."""
    return int(min(len(found), found.id.get_storage_size() // max(found.dtype.itemsize, 1)))


def damaged(path: Path, error: BaseException) -> DamagedRunError:
    """Return the error to raise for a file that could not be read as what it is."""
    reason = str(error).splitlines()[0].strip("'") if str(error) else type(error).__name__
    return DamagedRunError(
        f"{path} is damaged or cut off: {reason}",
        hint=f"bd check {path} says what is wrong; copy it again from where it was recorded, or record the run again",
    )


def _check_head(file: Any, path: Path) -> None:
    try:
        if file.id.get_filesize() > path.stat().st_size:  # in SWMR mode HDF5 does not look, and may never return
            raise EOFError("its end is missing")
        found = {name: file.attrs.get(name) for name in _ATTRIBUTES}
        known = isinstance(found["format"], str) and found["format"] == schema.FORMAT
        version = int(found["schema"] or 0) if known else 0
    except (*READ_ERRORS, EOFError) as error:
        raise damaged(path, error) from error
    if not known:
        raise NotARunError(
            f"{path} is an HDF5 file, but not a recording",
            hint="record one with: bd record -o RUN -- python train.py",
        )
    if version > SCHEMA:
        raise NewerSchemaError(
            f"{path} was recorded by a newer version (schema {version}; this one reads up to {SCHEMA})",
            hint="pip install --upgrade bisect-diverge",
        )


def _look_through(path: Path) -> None:
    """Read all metadata of a file that is open for SWMR writing, as if it were closed.

    Raises:
        One of `READ_ERRORS`: if it is damaged.
    """
    for wait in (*_WAITS, None):
        try:
            with _AsClosed(path) as raw, h5py.File(raw, "r") as file:
                _measure("", file)
                file.visititems(_measure)
            return
        except READ_ERRORS:
            if wait is None:
                raise
            time.sleep(wait)


def _measure(_name: str, found: Any) -> None:
    dict(found.attrs)
    if isinstance(found, h5py.Dataset):
        found.id.get_storage_size()  # walks the whole index of chunks


class _AsClosed(io.FileIO):
    """A file that reads as if no writer had it open."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._head = superblock.as_closed(super().read(superblock.SIZE), path.stat().st_size)
        self.seek(0)

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer from the present position on."""
        at = self.tell()
        count = super().readinto(buffer)
        if at < len(self._head):
            piece = self._head[at : at + count]
            memoryview(buffer)[: len(piece)] = piece
        return int(count)
