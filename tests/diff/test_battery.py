"""Changes of bits that weaker digests miss: each is found; equal bits are equal."""

import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bisect_diverge.model.divergence import Verdict
from tests.helpers.compare import compare_rows, first_address
from tests.helpers.runs import Row

BASE = np.random.default_rng(2).standard_normal((64, 64)).astype(np.float32)
BEFORE, PLACE = "r0/0/0/forward/model:fc#0:input.0", "r0/0/0/forward/model:fc#0:output.0"


def with_pattern(at: int, pattern: int) -> np.ndarray:
    """Return the base with the bits of one element replaced."""
    out = BASE.copy()
    out.reshape(-1).view(np.uint32)[at] = pattern
    return out


def with_values(**places: float) -> np.ndarray:
    """Return the base with some elements, by flat index, replaced."""
    out = BASE.copy()
    for at, value in places.items():
        out.reshape(-1)[int(at.removeprefix("at"))] = value
    return out


def pair_cancelled() -> np.ndarray:
    """Return the base with one element raised and another lowered by the same amount, so that the sum stays."""
    out = np.round(BASE * 64)
    out[0, 0] += 1
    out[5, 5] -= 1
    return out


def same_crc(a: np.ndarray) -> np.ndarray:
    """Return an array with another first element and the same CRC-32: its second element makes up for it.

    CRC-32 is affine over bits: which bits of the second element to turn follows from 32 equations.
    """
    b = a.copy()
    b[0] = 2.39e22
    words = b.view(np.uint32)
    target = zlib.crc32(a.tobytes()) ^ zlib.crc32(b.tobytes())
    columns = []
    for bit in range(32):
        turned = words.copy()
        turned[1] ^= np.uint32(1 << bit)
        columns.append((zlib.crc32(turned.tobytes()) ^ zlib.crc32(b.tobytes()), 1 << bit))
    basis: dict[int, tuple[int, int]] = {}
    for entry in columns:
        column, turn = entry
        while column and (known := basis.get(column.bit_length())):
            column, turn = column ^ known[0], turn ^ known[1]
        if column:
            basis[column.bit_length()] = column, turn
    turn = 0
    while target:
        column, bits = basis[target.bit_length()]
        target, turn = target ^ column, turn ^ bits
    words[1] ^= np.uint32(turn)
    return b


LARGE = np.random.default_rng(3).standard_normal(1_000_000).astype(np.float32)


def one_ulp_in_a_million() -> np.ndarray:
    """Return a million elements with the last bit of one turned."""
    out = LARGE.copy()
    out.view(np.uint32)[777_777] ^= 1
    return out


CONSTANT = np.full((8, 8), 2.0, np.float32)
ROUND = np.round(BASE * 64)
FLAT = np.ascontiguousarray(BASE.reshape(-1)[:64])

BATTERY: dict[str, tuple[np.ndarray, Callable[[], np.ndarray] | np.ndarray]] = {
    "permutation": (BASE, lambda: np.random.default_rng(4).permutation(BASE.reshape(-1)).reshape(64, 64)),
    "row swap": (BASE, lambda: BASE[[1, 0, *range(2, 64)]]),
    "transpose": (BASE, lambda: np.ascontiguousarray(BASE.T)),
    "reshape": (BASE, lambda: BASE.reshape(32, 128)),
    "axis of length one": (BASE, lambda: BASE.reshape(64, 64, 1)),
    "dtype of the same bits": (BASE, lambda: BASE.view("<i4")),
    "dtype of the same values": (ROUND, lambda: ROUND.astype("<f8")),
    "sign of one element": (BASE, lambda: with_values(at9=-float(BASE.reshape(-1)[9]))),
    "signs of two elements": (BASE, lambda: BASE * np.where(np.arange(64) < 2, -1, 1).astype(np.float32)),
    "pair that cancels": (ROUND, pair_cancelled),
    "constant fill": (CONSTANT, lambda: np.full((8, 8), np.nextafter(np.float32(2), np.float32(3)), np.float32)),
    "constant of another length": (CONSTANT, lambda: np.full((8, 9), 2.0, np.float32)),
    "empty of another shape": (np.zeros((0, 3), np.float32), lambda: np.zeros((3, 0), np.float32)),
    "one ulp in a million": (LARGE, one_ulp_in_a_million),
    "negative zero": (with_values(at7=0.0), lambda: with_values(at7=-0.0)),
    "signalling NaN": (with_pattern(7, 0x7FC00000), lambda: with_pattern(7, 0x7FA00000)),
    "payload of a NaN": (with_pattern(7, 0x7FC00000), lambda: with_pattern(7, 0x7FC00001)),
    "sign of a NaN": (with_pattern(7, 0x7FC00000), lambda: with_pattern(7, 0xFFC00000)),
    "subnormal": (with_pattern(7, 0), lambda: with_pattern(7, 1)),
    "crafted collision of CRC-32": (FLAT, lambda: same_crc(FLAT)),
}


@pytest.mark.parametrize("keep_bytes", [0, 1 << 30], ids=["digests", "tensors"])
@pytest.mark.parametrize("name", list(BATTERY))
def test_no_change_is_missed(tmp_path: Path, name: str, keep_bytes: int):
    """With digests alone as with tensors, and nothing else is blamed."""
    a, change = BATTERY[name]
    b = change() if callable(change) else change
    rows = [[Row(BEFORE, "x"), Row(PLACE, value)] for value in (a, b)]
    divergence = compare_rows(tmp_path, *rows, keep_bytes=keep_bytes)

    assert first_address(divergence) == PLACE
    assert divergence.divergence.is_origin is True


@pytest.mark.parametrize("name", list(BATTERY))
def test_equal_bits_are_equal(tmp_path: Path, name: str):
    """NaN of any kind, zeros of either sign and empty tensors equal themselves."""
    _, change = BATTERY[name]
    b = change() if callable(change) else change
    rows = [[Row(BEFORE, "x"), Row(PLACE, value)] for value in (b, b.copy())]

    assert compare_rows(tmp_path, *rows).divergence.verdict is Verdict.EQUAL


def test_the_crafted_collision_is_one():
    """Else its case would prove nothing."""
    assert zlib.crc32(FLAT.tobytes()) == zlib.crc32(same_crc(FLAT).tobytes())
    assert not np.array_equal(FLAT, same_crc(FLAT))
