"""Names, row layouts and chunk sizes of the file; everything in it exists before SWMR mode is switched on."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

from bisect_diverge.model.elements import ELEMENT_TYPES, ElementType
from bisect_diverge.numerics.digest import DEVICE_ALGORITHM

FORMAT = "bisect-diverge run"
"""Root attribute ``format``: how a recording is told from any other HDF5 file."""

EVENT = np.dtype(
    [
        ("digest0", "<u8"),  # bytes 0-7 of the digest
        ("digest1", "<u8"),  # bytes 8-15
        ("value", "<f8"),  # the value of a one-element tensor, else NaN
        ("offset", "<i8"),  # first element in its pool; -1: digest only
        ("source", "<i8"),  # row of the same tensor, or of the tensor this is a view of; -1: not known
        ("step", "<i4"),
        ("micro_batch", "<i4"),  # model.address.micro_batch_code
        ("call", "<u4"),
        ("name", "<u4"),  # number in /names
        ("slot", "<u4"),  # number in /slots
        ("shape", "<u4"),  # number in /shapes
        ("site", "<u4"),  # number in /sites
        ("phase", "u1"),  # number in model.address.PHASES
        ("dtype", "u1"),  # number in model.elements.ELEMENT_TYPES
        ("flags", "<u2"),  # model.record.Flag
    ]
)
"""One row of ``/events``."""

PACK = struct.Struct("<16sdqqiiIIIIIBBH")
"""The same layout for `struct`, which fills a row four times faster than numpy does."""

assert PACK.size == EVENT.itemsize

STATUS = np.dtype(
    [
        ("schema", "<u4"),
        ("host", "S64"),
        ("pid", "<u8"),
        ("started", "<f8"),  # seconds since the epoch
        ("state", "u1"),  # number of model.run.State
        ("exit_status", "<i4"),  # NO_EXIT_STATUS: not known
    ]
)
"""The one row of ``/status``."""

NO_EXIT_STATUS = -(2**31)

TABLES = ("names", "slots", "sites")
"""Interned texts: group with ``bytes`` (UTF-8, one after the other) and ``ends`` (end offset of each)."""

NAME_SEPARATOR = "\0"
"""Between root, FQN and module type in an entry of ``/names``."""

EVENT_CHUNK = 4096
"""Rows per chunk (288 KiB)."""
POOL_CHUNK_BYTES = 1 << 19
TEXT_CHUNK = 1 << 14
INDEX_CHUNK = 1 << 11

POOLED = tuple(element for element in ELEMENT_TYPES if element.storage)
"""Element types that have a pool."""


def rank_path(run: Path, rank: int, occurrence: int = 0) -> Path:
    """Return the file of a rank; a second process of the same rank has occurrence 1, and so on."""
    suffix = f".{occurrence}" if occurrence else ""
    return run / f"rank-{rank:05d}{suffix}.h5"


def digest_of(event: Any) -> bytes:
    """Return the 16-byte digest of a row of ``/events``."""
    return bytes(event["digest0"].tobytes() + event["digest1"].tobytes())


def pool_name(element: ElementType) -> str:
    """Return the path of the pool of an element type."""
    return f"pool/{element.name}"


def create(file: Any, digest_algorithm: str, schema: int) -> None:
    """Create every dataset of a recording in an empty, open h5py file."""
    file.attrs["format"] = FORMAT
    file.attrs["schema"] = schema
    file.attrs["digest"] = digest_algorithm
    file.attrs["digest_on_device"] = DEVICE_ALGORITHM

    def growing(name: str, dtype: Any, chunk: int) -> Any:
        return file.create_dataset(name, shape=(0,), maxshape=(None,), dtype=dtype, chunks=(chunk,))

    growing("events", EVENT, EVENT_CHUNK)
    growing("run", "u1", TEXT_CHUNK)
    file.create_dataset("status", shape=(1,), dtype=STATUS, chunks=(1,))
    for table in TABLES:
        growing(f"{table}/bytes", "u1", TEXT_CHUNK)
        growing(f"{table}/ends", "<u8", INDEX_CHUNK)
    growing("shapes/dims", "<i8", INDEX_CHUNK)
    growing("shapes/ends", "<u8", INDEX_CHUNK)
    for element in POOLED:
        pool = growing(pool_name(element), element.storage, POOL_CHUNK_BYTES // element.itemsize)
        pool.attrs["dtype"] = element.name
