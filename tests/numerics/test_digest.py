"""The digest, against the vectors of the file format and against what must never collide."""

import re
from pathlib import Path

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bisect_diverge.numerics.digest import digest, header

VECTORS = [
    ("float32", (), np.float32(1.0).tobytes()),
    ("float32", (0,), b""),
    ("float32", (2, 3), np.arange(6, dtype="<f4").tobytes()),
    ("int64", (1,), np.array([-1], "<i8").tobytes()),
    ("bfloat16", (2,), np.array([0x3F80, 0x8000], "<u2").tobytes()),
]


def value(dtype: str, shape: tuple[int, ...], data: bytes) -> str:
    """Return the digest in hexadecimal digits."""
    return digest(header(dtype, shape), data).hex()


@pytest.mark.parametrize("vector", VECTORS)
def test_the_digest_is_xxh3_of_header_and_bytes(vector):
    """Header and bytes are hashed as one message, in XXH3's canonical form."""
    dtype, shape, data = vector
    head = f"{dtype}:{','.join(map(str, shape))};".encode()

    assert value(*vector) == xxhash.xxh3_128_hexdigest(head + data)


def test_a_zero_changes_the_digest_by_its_sign_and_a_nan_by_its_payload():
    """Every bit counts."""
    patterns = [0x00000000, 0x80000000, 0x7FC00000, 0x7FC00001, 0x7F800001]
    digests = {value("float32", (1,), np.array([p], "<u4").tobytes()) for p in patterns}

    assert len(digests) == len(patterns)


@given(hnp.arrays("<f4", st.tuples(st.integers(1, 6), st.integers(1, 6))), st.data())
def test_a_changed_element_a_transposition_and_another_type_change_the_digest(array, data):
    """B10: what differs as a tensor has another digest."""
    here = value("float32", array.shape, array.tobytes())
    other = array.copy()
    at = tuple(data.draw(st.integers(0, side - 1)) for side in array.shape)
    other.view("<u4")[at] ^= 1 << data.draw(st.integers(0, 31))

    assert value("float32", array.shape, other.tobytes()) != here
    assert value("int32", array.shape, array.tobytes()) != here
    assert value("float32", (*array.shape, 1), array.tobytes()) != here
    if array.shape[0] != array.shape[1]:
        assert value("float32", array.T.shape, array.tobytes()) != here


def test_one_unit_in_a_million_elements_changes_the_digest():
    """A single last bit anywhere in a large tensor is seen."""
    array = np.ones(1_000_000, "<f4")
    here = value("float32", array.shape, array.tobytes())
    array.view("<u4")[777_777] ^= 1

    assert value("float32", array.shape, array.tobytes()) != here


def test_the_file_format_page_has_these_vectors():
    """The documented digests are those that the program makes."""
    page = (Path(__file__).parent.parent.parent / "docs" / "file-format.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| `(\w+)` \| `\[(.*?)\]` \| (?:`(\w+)`|\(none\)) \| `(\w{32})` \|$", page, re.MULTILINE)

    assert len(documented) == len(VECTORS)
    for (dtype, shape, data, expected), vector in zip(documented, VECTORS, strict=True):
        parsed = (dtype, tuple(int(side) for side in shape.split(", ") if side), bytes.fromhex(data))
        assert parsed == vector
        assert value(*vector) == expected
