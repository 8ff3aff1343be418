"""The digest: 128 bits that stand for dtype, shape and logical bytes of a tensor.

``xxh3-128`` over a header and the row-major bytes. The header is the ASCII text ``<dtype>:<d0>,<d1>,...;`` (a
0-d tensor: ``float32:;``), so that tensors of equal bytes but other dtype or shape never share a digest. XXH3
is specified at https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md; digests are stored in its
canonical (big-endian) form. XXH3 is not a cryptographic hash: it tells accidents apart, not attackers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import xxhash

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined,unused-ignore]

ALGORITHM = "xxh3-128"
"""Name that stands in the file; only digests of the same algorithm are compared."""


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
