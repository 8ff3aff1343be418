"""The digest, against the vectors of the file format and against what must never collide."""

import re
from pathlib import Path

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bisect_diverge.numerics.digest import BLOCK_WORDS, device_digest, device_keys, digest, header, word_sums

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


# -- digests of an accelerator ---------------------------------------------------------------------------------------


def splitmix(number: int) -> int:
    """Return an output of SplitMix64 with seed 0, in Python's own integers."""
    mask = 2**64 - 1
    z = (number + 1) * 0x9E3779B97F4A7C15 & mask
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
    return z ^ z >> 31


def sums_by_hand(data: bytes, block: int = 2**18, level: int = 0) -> bytes:
    """Return the sums by the words of the file format, in Python's own integers."""
    data += bytes(-len(data) % 4)
    words = [int.from_bytes(data[at : at + 4], "little", signed=True) for at in range(0, len(data), 4)]
    blocks = [words[at : at + block] for at in range(0, len(words), block)] or [[]]
    sums = b""
    for part in blocks:
        for lane in (0, 1):
            first = (2 * level + lane) * 2**18
            total = sum((splitmix(first + i) | 1) * word for i, word in enumerate(part))
            sums += (total % 2**64).to_bytes(8, "little")
    return sums if len(blocks) == 1 else sums_by_hand(sums, block, level + 1)


def sums_of(data: bytes) -> bytes:
    """Return what the program makes of some bytes."""
    return word_sums(np.frombuffer(data, np.uint8))


def test_keys_are_outputs_of_splitmix64():
    """SplitMix64 begins with its published first output; keys are odd and those of two levels differ."""
    assert splitmix(0) == 0xE220A8397B1DCDAF
    for level in (0, 1):
        keys = device_keys(level)
        assert keys.shape == (2, BLOCK_WORDS)
        assert bool((keys & 1).all())
        for lane, at in ((0, 0), (0, BLOCK_WORDS - 1), (1, 0), (1, 12345)):
            assert int(keys[lane, at]) == splitmix((2 * level + lane) * BLOCK_WORDS + at) | 1


@given(st.binary(max_size=70))
def test_sums_are_those_of_the_file_format(data):
    """Whatever the bytes and their number, the sums are those that the page describes."""
    assert sums_of(data) == sums_by_hand(data)


def test_sums_of_several_blocks(monkeypatch):
    """Longer data is summed block by block, and the sums again, as often as it takes."""
    import importlib

    module = importlib.import_module("bisect_diverge.numerics.digest")
    monkeypatch.setattr(module, "BLOCK_WORDS", 8)
    keys = {
        level: np.array([[splitmix((2 * level + lane) * 2**18 + i) | 1 for i in range(8)] for lane in (0, 1)], "<u8")
        for level in range(8)
    }
    monkeypatch.setattr(module, "device_keys", keys.__getitem__)
    random = np.random.default_rng(0)
    for size in (32, 33, 64, 100, 1000, 1024):
        data = random.bytes(size)
        assert sums_of(data) == sums_by_hand(data, block=8)


@given(st.binary(min_size=1, max_size=64), st.data())
def test_one_changed_bit_changes_both_sums(data, draw):
    """The keys are odd: no change of one word is lost."""
    at, bit = draw.draw(st.integers(0, len(data) - 1)), draw.draw(st.integers(0, 7))
    other = bytearray(data)
    other[at] ^= 1 << bit
    here, there = sums_of(data), sums_of(bytes(other))

    assert here[:8] != there[:8]
    assert here[8:] != there[8:]


def test_an_accelerators_digest_is_not_a_hosts():
    """The two algorithms cannot be taken for one another."""
    data = bytes(range(16))
    assert device_digest(header("uint8", (16,)), data) != digest(header("uint8", (16,)), data)
    assert device_digest(header("uint8", (16,)), data) != device_digest(header("int8", (16,)), data)


def test_the_file_format_page_has_the_vectors_of_an_accelerator():
    """The documented sums and digests are those that the program makes."""
    page = (Path(__file__).parent.parent.parent / "docs" / "file-format.md").read_text(encoding="utf-8")
    row = r"^\| `(\w+)` \| `\[(.*?)\]` \| (.+?) \| `(\w{32})` \| `(\w{32})` \|$"
    documented = re.findall(row, page, re.MULTILINE)

    assert len(documented) == 5
    for dtype, sides, text, sums, expected in documented:
        shape = tuple(int(side) for side in sides.split(", ") if side)
        known = {"0, 1, 2, ...": np.arange(*shape[:1], dtype="<i4").tobytes() if shape else b"", "(none)": b""}
        data = known[text] if text in known else bytes.fromhex(text.strip("`"))
        assert sums_of(data).hex() == sums
        assert device_digest(header(dtype, shape), sums_of(data)).hex() == expected
