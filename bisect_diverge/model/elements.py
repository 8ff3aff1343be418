"""The element types a tensor can have, with their code in the file and how their bits are stored.

A type that HDF5 and numpy have no number for (bfloat16, float8) is stored bit for bit as an unsigned integer of the
same width. Codes are part of the file format: new types are added at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What the bits of an element mean."""

    FLOAT = "float"
    COMPLEX = "complex"
    INTEGER = "integer"
    BOOL = "bool"
    OPAQUE = "opaque"


@dataclass(frozen=True, slots=True)
class ElementType:
    """One element type of tensors."""

    code: int
    """Number in the file."""
    name: str
    """Name as torch has it, without ``torch.``."""
    itemsize: int
    """Bytes per element; 0 for rows that hold no tensor."""
    kind: Kind
    """What the bits mean."""
    storage: str
    """numpy dtype of its pool in the file; empty where there is no pool."""
    bits: str
    """numpy dtype of the unsigned integers that its bits are compared as (complex: of each half)."""


_TABLE = (
    # name, itemsize, kind, storage, bits
    ("none", 0, Kind.OPAQUE, "", ""),  # a gradient that is None
    (
        "unhashable",
        0,
        Kind.OPAQUE,
        "",
        "",
    ),  # a tensor without readable bytes: sparse, meta, functorch-wrapped, ...
    ("bytes", 1, Kind.OPAQUE, "<u1", "<u1"),  # text, and element types without an entry here
    ("float64", 8, Kind.FLOAT, "<f8", "<u8"),
    ("float32", 4, Kind.FLOAT, "<f4", "<u4"),
    ("float16", 2, Kind.FLOAT, "<f2", "<u2"),
    ("bfloat16", 2, Kind.FLOAT, "<u2", "<u2"),
    ("float8_e4m3fn", 1, Kind.FLOAT, "<u1", "<u1"),
    ("float8_e5m2", 1, Kind.FLOAT, "<u1", "<u1"),
    ("float8_e4m3fnuz", 1, Kind.FLOAT, "<u1", "<u1"),
    ("float8_e5m2fnuz", 1, Kind.FLOAT, "<u1", "<u1"),
    ("float8_e8m0fnu", 1, Kind.FLOAT, "<u1", "<u1"),
    ("complex128", 16, Kind.COMPLEX, "<c16", "<u8"),
    ("complex64", 8, Kind.COMPLEX, "<c8", "<u4"),
    ("complex32", 4, Kind.COMPLEX, "<u4", "<u2"),
    ("int64", 8, Kind.INTEGER, "<i8", "<u8"),
    ("int32", 4, Kind.INTEGER, "<i4", "<u4"),
    ("int16", 2, Kind.INTEGER, "<i2", "<u2"),
    ("int8", 1, Kind.INTEGER, "<i1", "<u1"),
    ("uint64", 8, Kind.INTEGER, "<u8", "<u8"),
    ("uint32", 4, Kind.INTEGER, "<u4", "<u4"),
    ("uint16", 2, Kind.INTEGER, "<u2", "<u2"),
    ("uint8", 1, Kind.INTEGER, "<u1", "<u1"),
    ("bool", 1, Kind.BOOL, "<u1", "<u1"),
)

ELEMENT_TYPES = tuple(ElementType(code, *row) for code, row in enumerate(_TABLE))
BY_NAME = {element.name: element for element in ELEMENT_TYPES}
NONE = BY_NAME["none"]
UNHASHABLE = BY_NAME["unhashable"]
BYTES = BY_NAME["bytes"]

_SHORT = {"float": "f", "bfloat": "bf", "complex": "c", "int": "i", "uint": "u"}


def short_type(name: str) -> str:
    """Return the compact name of an element type, ``float32`` is ``f32`` (as torch's own debug output has it)."""
    head = name.rstrip("0123456789")
    return _SHORT[head] + name[len(head) :] if head in _SHORT else name


def shape_text(name: str, shape: tuple[int, ...]) -> str:
    """Return type and shape in one word: ``f32[4,64,192]``."""
    return f"{short_type(name)}[{','.join(map(str, shape))}]"
