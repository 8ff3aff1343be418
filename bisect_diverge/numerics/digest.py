"""The digest: 128 bits that stand for dtype, shape and logical bytes of a tensor.

``xxh3-128`` over a header and the row-major bytes. The header is the ASCII text ``<dtype>:<d0>,<d1>,...;`` (a
0-d tensor: ``float32:;``), so that tensors of equal bytes but other dtype or shape never share a digest. XXH3
is specified at https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md; digests are stored in its
canonical (big-endian) form. XXH3 is not a cryptographic hash: it tells accidents apart, not attackers.

Bytes that lie on an accelerator are summed up there by ``multilinear-2x64`` instead: two sums of 32-bit words, each
word times an odd 64-bit key of its place, modulo 2^64 (multilinear hashing: Lemire and Kaser, "Strongly universal
string hashing is fast", 2014). Wrap-around sums are the same in whatever order a device adds. One changed word always
changes both sums, the keys being odd; two tensors that were not made to collide share both with a chance of at most
2^-64. The two numbers, not the bytes, are then hashed with the header.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import xxhash

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined,unused-ignore]

    from numpy.typing import NDArray

ALGORITHM = "xxh3-128"
"""Name that stands in the file; only digests of the same algorithm are compared."""

DEVICE_ALGORITHM = "multilinear-2x64"
"""Name of the algorithm of rows that were digested on an accelerator."""

BLOCK_WORDS = 1 << 18
"""Words that are summed with one table of keys; longer data gives one pair of sums a block, which are summed again."""

_GOLDEN = 0x9E3779B97F4A7C15
_DEVICE_MARK = f"{DEVICE_ALGORITHM}:".encode()


def header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """Return the bytes that go before a tensor's own bytes."""
    return f"{dtype}:{','.join(map(str, shape))};".encode()


def digest(head: bytes, data: Buffer) -> bytes:
    """Return the 16-byte digest of a tensor.

    Args:
        head: What `header` returned for its dtype and shape.
        data: Its logical bytes, row-major, C-contiguous.
    """
    state = xxhash.xxh3_128(head)
    state.update(data)
    return state.digest()


def device_digest(head: bytes, sums: bytes) -> bytes:
    """Return the 16-byte digest of a tensor that was summed up on a device.

    Args:
        head: What `header` returned for its dtype and shape.
        sums: The two sums that `word_sums` is the reference of, 16 bytes, little-endian.
    """
    return digest(head + _DEVICE_MARK, sums)


@functools.lru_cache(maxsize=2)
def device_keys(level: int) -> NDArray[np.uint64]:
    """Return the keys of a level: uint64[2, BLOCK_WORDS], odd; level 0 is for data, 1 for the sums of its blocks, ...

    Key *i* of lane *l* is output number ``(2 * level + l) * BLOCK_WORDS + i`` of SplitMix64 (Steele, Lea and Flood,
    "Fast splittable pseudorandom number generators", 2014) with seed 0, with its lowest bit set.
    """
    first = 2 * level * BLOCK_WORDS + 1
    with np.errstate(over="ignore"):
        z = np.arange(first, first + 2 * BLOCK_WORDS, dtype=np.uint64) * np.uint64(_GOLDEN)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z | np.uint64(1)).reshape(2, BLOCK_WORDS)


def word_sums(data: NDArray[np.uint8]) -> bytes:
    """Return the two sums of ``multilinear-2x64`` over some bytes: what a device computes, here with numpy.

    The bytes, filled up with zeros to whole words, are signed 32-bit words. Up to `BLOCK_WORDS` of them give two sums
    with the keys of their level. More are summed block by block; the sums (8 bytes each, a block's two together) are
    then the bytes of the next level.

    Args:
        data: uint8[n], the logical bytes, row-major.

    Returns:
        16 bytes: two little-endian 64-bit numbers.
    """
    words = np.concatenate([data, np.zeros(-len(data) % 4, np.uint8)]).view("<i4")
    level = 0
    while len(words) > BLOCK_WORDS:
        blocks = [_sums(words[start : start + BLOCK_WORDS], level) for start in range(0, len(words), BLOCK_WORDS)]
        words = np.concatenate(blocks).view("<i4")
        level += 1
    return _sums(words, level).tobytes()


def _sums(words: NDArray[np.int32], level: int) -> NDArray[np.uint64]:
    keys = device_keys(level)[:, : len(words)]
    total: NDArray[np.uint64] = (keys * words.astype("<i8").view("<u8")).sum(axis=1, dtype="<u8")
    return total
