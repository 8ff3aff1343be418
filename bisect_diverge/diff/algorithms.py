"""Pairs whose digests were made by different algorithms: one on a host, the other on an accelerator.

Only like is compared with like. Where a run has kept the bytes, the digest that the other run's algorithm makes of
them is computed here; where neither has, it is not known whether the two are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.model.elements import BYTES, ELEMENT_TYPES
from bisect_diverge.model.record import Flag
from bisect_diverge.numerics.digest import DEVICE_ALGORITHM, device_digest, digest, header, word_sums
from bisect_diverge.store.schema import digest_of

if TYPE_CHECKING:
    from bisect_diverge.store.reader import RunFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlike:
    """Pairs with digests of different algorithms; all arrays have one entry for each of them."""

    index: NDArray[np.intp]
    """Row of the trace."""
    same: NDArray[np.bool_]
    """The bytes of one have the other's digest."""
    known: NDArray[np.bool_]
    """Whether that could be found out, or that type or shape differ."""


def compare_unlike(a: RunFile, b: RunFile, row_a: NDArray[np.int64], row_b: NDArray[np.int64]) -> Unlike:
    """Return what is known of the pairs whose digests cannot be compared as they are.

    Args:
        a: A's recording.
        b: B's recording.
        row_a: Row of A for each row of the trace, or -1.
        row_b: Row of B for each row of the trace, or -1.
    """
    index = np.flatnonzero(_unlike(a, b, row_a, row_b))
    same, known = np.zeros(len(index), np.bool_), np.zeros(len(index), np.bool_)
    for place, (at_a, at_b) in enumerate(zip(row_a[index].tolist(), row_b[index].tolist(), strict=True)):
        answer = _equal(a, at_a, b, at_b)
        same[place], known[place] = bool(answer), answer is not None
    return Unlike(index=index, same=same, known=known)


def _unlike(a: RunFile, b: RunFile, row_a: NDArray[np.int64], row_b: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which rows of the trace are pairs with digests of different algorithms."""
    on_a, on_b = (file.events["flags"] & np.uint16(Flag.ON_DEVICE) != 0 for file in (a, b))
    out = np.zeros(len(row_a), np.bool_)
    if not on_a.any() and not on_b.any():
        return out
    paired = np.flatnonzero((row_a >= 0) & (row_b >= 0))
    on_device = on_a[row_a[paired]], on_b[row_b[paired]]
    both = on_device[0] & on_device[1] if a.device_algorithm != b.device_algorithm else np.False_
    readable = [~np.isin(file.events["dtype"][row[paired]], _NO_BYTES) for file, row in ((a, row_a), (b, row_b))]
    out[paired] = ((on_device[0] != on_device[1]) | both) & readable[0] & readable[1]
    return out


_NO_BYTES = [element.code for element in ELEMENT_TYPES if not element.storage]


def _equal(a: RunFile, row_a: int, b: RunFile, row_b: int) -> bool | None:
    """Return whether two records are equal; None if neither run has the bytes that would tell."""
    of_a, of_b = a.events[row_a], b.events[row_b]
    if of_a["dtype"] != of_b["dtype"] or a.shapes[of_a["shape"]] != b.shapes[of_b["shape"]]:
        return False
    for file, row, other, event in ((a, row_a, b, of_b), (b, row_b, a, of_a)):
        if int(of_a["dtype"]) == BYTES.code:
            continue  # the name of its type, which the digest covers, is not in the file
        tensor = file.tensor(row)
        found = None if tensor is None else _digest_of(tensor, ELEMENT_TYPES[event["dtype"]].name, other, event)
        if found is not None:
            return found == digest_of(event)
    return None


def _digest_of(tensor: NDArray[np.generic], name: str, other: RunFile, event: NDArray[np.void]) -> bytes | None:
    """Return the digest of kept bytes by the algorithm of the other run's row; None if it is not known here."""
    head = header(name, tensor.shape)
    data = np.ascontiguousarray(tensor).reshape(-1).view(np.uint8)
    if not int(event["flags"]) & Flag.ON_DEVICE:
        return digest(head, data if data.size else b"")
    return device_digest(head, word_sums(data)) if other.device_algorithm == DEVICE_ALGORITHM else None
