"""The digest of a leaf is of its dtype, shape and logical bits at that moment: no more, no less."""

from __future__ import annotations

import enum
import math
import random

import hypothesis
import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch import nn

from bisect_diverge.model.elements import BY_NAME, BYTES, ELEMENT_TYPES, NONE, UNHASHABLE
from bisect_diverge.model.record import Flag
from bisect_diverge.numerics.digest import digest, header
from bisect_diverge.record.capture import capture
from tests.record.support import recording, rows, value_of

DTYPES = sorted(
    {value for value in vars(torch).values() if isinstance(value, torch.dtype) and not str(value).startswith("torch.q")}
    - {torch.quint8, torch.quint2x4, torch.quint4x2},
    key=str,
)
KNOWN = [dtype for dtype in DTYPES if str(dtype)[6:] in BY_NAME]
OTHER = [dtype for dtype in DTYPES if dtype not in KNOWN]


def of_bytes(dtype, shape, data):
    """Return a tensor with these bytes."""
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype).reshape(shape)


def some(dtype, *shape, seed=0):
    """Return a tensor of arbitrary bits; bools are 0 or 1."""
    count = math.prod(shape) * dtype.itemsize
    data = random.Random(seed).randbytes(count)
    if dtype is torch.bool:
        data = bytes(byte & 1 for byte in data)
    return of_bytes(dtype, shape, data)


def element(captured):
    """Return the name of the element type of what was captured."""
    return ELEMENT_TYPES[captured.dtype].name


@pytest.mark.parametrize("dtype", KNOWN, ids=str)
def test_every_dtype(dtype):
    """A tensor of every dtype is hashed by its header and bytes, and its bytes are those in memory."""
    tensor = some(dtype, 3, 4)
    data = tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
    taken = capture(tensor)
    assert element(taken) == str(dtype)[6:]
    assert taken.shape == (3, 4)
    assert taken.digest == digest(header(str(dtype)[6:], (3, 4)), data)
    assert taken.data.tobytes() == data
    assert taken.flags == 0
    assert math.isnan(taken.value)


@pytest.mark.parametrize("dtype", OTHER, ids=str)
def test_dtypes_without_an_entry(dtype):
    """A dtype that the table does not know is kept as bytes, and differs from another one with the same bytes."""
    taken, bytes_taken = capture(some(dtype, 4)), capture(some(torch.uint8, 4 * dtype.itemsize))
    assert taken.dtype == BYTES.code
    assert math.prod(taken.shape) == taken.data.nbytes == 4 * dtype.itemsize
    assert taken.data.tobytes() == bytes_taken.data.tobytes()
    assert taken.digest != bytes_taken.digest


@pytest.mark.parametrize("dtype", [dtype for dtype in KNOWN if not dtype.is_complex], ids=str)
def test_value_of_one_element(dtype):
    """A tensor of one element shows its value, whatever its shape."""
    for shape in ((), (1,), (1, 1, 1)):
        assert capture(torch.ones(shape).to(dtype)).value == 1.0
    assert math.isnan(capture(torch.ones(2).to(dtype)).value)


@pytest.mark.parametrize("dtype", KNOWN, ids=str)
@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.transpose(1, 2),
        lambda t: t[:, ::2],
        lambda t: t[:, 1:3, 1:],
        lambda t: t[:1].expand(5, 4, 3),
        lambda t: t.as_strided((2, 2, 2), (1, 1, 1)),
        lambda t: t[..., 0],
    ],
    ids=["transposed", "every second", "inner", "expanded", "overlapping", "column"],
)
def test_layout_is_not_part_of_it(dtype, view):
    """A strided tensor has the digest of its contiguous copy, and says that it is strided."""
    tensor = view(some(dtype, 2, 4, 3))
    taken = capture(tensor)
    data = b"".join(tensor[index].reshape(1).view(torch.uint8).numpy().tobytes() for index in np.ndindex(*tensor.shape))
    plain = capture(of_bytes(dtype, tensor.shape, data))
    assert not tensor.is_contiguous()
    assert taken.digest == plain.digest
    assert taken.data.tobytes() == plain.data.tobytes()
    assert (taken.flags, plain.flags) == (Flag.STRIDED, 0)


def test_channels_last():
    """Memory formats are layouts too."""
    tensor = torch.randn(2, 3, 4, 5)
    assert capture(tensor.to(memory_format=torch.channels_last)).digest == capture(tensor).digest
    assert capture(tensor[None].to(memory_format=torch.channels_last_3d)).digest == capture(tensor[None]).digest


def test_offset_and_storage_are_not_part_of_it():
    """A slice of a larger storage is like a tensor of its own."""
    tensor = torch.randn(10)
    assert capture(tensor[3:5]).digest == capture(tensor[3:5].clone()).digest


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 4)])
def test_empty(shape):
    """Empty tensors have shapes, and these tell them apart."""
    taken = capture(torch.empty(shape))
    assert taken.shape == shape
    assert taken.digest == digest(header("float32", shape), b"")
    assert taken.digest != capture(torch.empty((*shape, 1))).digest
    assert taken.digest != capture(torch.empty(shape, dtype=torch.float64)).digest


def test_zero_dimensions():
    """A tensor without dimensions differs from one with one element."""
    assert capture(torch.tensor(1.5)).shape == ()
    assert capture(torch.tensor(1.5)).digest == digest(header("float32", ()), np.float32(1.5).tobytes())
    assert capture(torch.tensor(1.5)).digest != capture(torch.tensor([1.5])).digest


def test_lazy_conjugates_and_negatives():
    """A conjugate or negative view has the bits of what it stands for."""
    tensor = torch.randn(4, dtype=torch.complex64)
    conjugate, negative = tensor.conj(), tensor.conj().imag
    assert conjugate.is_conj()
    assert negative.is_neg()
    assert capture(conjugate).digest == capture(conjugate.resolve_conj()).digest != capture(tensor).digest
    assert capture(negative).digest == capture(negative.resolve_neg()).digest
    assert capture(negative).digest != capture(tensor.imag).digest
    assert conjugate.is_conj()


def test_bytes_outlive_their_tensor():
    """What was captured of a temporary tensor keeps its memory."""
    taken = [capture(torch.full((1000,), float(number))) for number in range(20)]
    rest = [torch.zeros(1000) for _ in range(50)]
    assert [one.data.view(np.float32)[-1] for one in taken] == list(range(20))
    assert len(rest) == 50


def test_storage_smaller_than_its_tensors():
    """Where storage was given back (as FSDP does between uses) there are no bytes, and none are read."""
    for tensor in (torch.randn(1000), torch.randn(1000)[500:], torch.randn(40, 25).t()):
        tensor.untyped_storage().resize_(0)
        taken = capture(tensor)
        assert taken.dtype == UNHASHABLE.code
        assert taken.shape == tensor.shape


def test_special_values_keep_their_bits():
    """Payload and sign of NaNs, negative zeros and subnormal numbers are bits like others."""
    patterns = [0x7FC00000, 0x7FC00001, 0xFFC00000, 0x7F800001, 0x00000000, 0x80000000, 0x00000001, 0x7F800000]
    tensors = [of_bytes(torch.float32, (1,), pattern.to_bytes(4, "little")) for pattern in patterns]
    digests = [capture(tensor).digest for tensor in tensors]
    assert len(set(digests)) == len(patterns)
    for tensor, pattern in zip(tensors, patterns, strict=True):
        assert capture(tensor).data.tobytes() == pattern.to_bytes(4, "little")


def test_requires_grad_is_a_flag():
    """Taking part in autograd is noted and not part of the digest."""
    tensor = torch.randn(3)
    taken, with_grad = capture(tensor), capture(tensor.clone().requires_grad_())
    assert with_grad.flags == Flag.REQUIRES_GRAD
    assert with_grad.digest == taken.digest


class Plain(torch.Tensor):
    """A subclass without behaviour of its own."""


def test_subclasses_with_memory():
    """Parameters, buffers and subclasses that compute like tensors are read like tensors."""
    tensor = torch.randn(3)
    for other in (nn.Parameter(tensor), nn.Buffer(tensor), tensor.as_subclass(Plain)):
        assert capture(other).digest == capture(tensor).digest


def unreadable():
    """Return tensors without readable bytes by name."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.ones(3, 3))
    jagged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    return {
        "sparse": torch.eye(3).to_sparse(),
        "sparse_rows": torch.eye(3).to_sparse_csr(),
        "mkldnn": torch.eye(3).to_mkldnn(),
        "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "jagged": jagged,
        "meta": torch.empty(3, 3, device="meta"),
        "quantized": torch.quantize_per_tensor(torch.ones(3, 3), 0.1, 0, torch.qint8),
        "fake": fake,
    }


@pytest.mark.filterwarnings("ignore:.*prototype stage:UserWarning")
@pytest.mark.filterwarnings("ignore:.*beta state:UserWarning")
@pytest.mark.filterwarnings("ignore:.*quantize_per_tensor:UserWarning")
def test_tensors_without_readable_bytes():
    """They give a typed row without bytes, never an exception, and different kinds have different digests."""
    taken = {name: capture(tensor) for name, tensor in unreadable().items()}
    for name, captured in taken.items():
        assert captured.dtype == UNHASHABLE.code, name
        assert captured.flags & Flag.UNHASHABLE
        assert captured.data is None
    assert len({captured.digest for captured in taken.values()}) == len(taken)
    assert taken["sparse"].shape == taken["meta"].shape == (3, 3)
    assert taken["nested"].shape == taken["jagged"].shape == ()
    assert capture(torch.empty(3, device="meta")).digest != capture(torch.empty(4, device="meta")).digest
    assert capture(torch.empty(3, device="meta")).digest == capture(torch.empty(3, device="meta")).digest
    half = torch.empty(3, device="meta", dtype=torch.float16)
    assert capture(half).digest != capture(torch.empty(3, device="meta")).digest


def test_functorch_wrapped():
    """Inside vmap and grad a tensor has no bytes of its own; the transform's result is what it is without us."""
    seen = []

    def function(x):
        seen.append(capture(x))
        return (x * x).sum()

    out = torch.func.vmap(torch.func.grad(function))(torch.arange(6.0).reshape(2, 3))
    assert torch.equal(out, 2 * torch.arange(6.0).reshape(2, 3))
    assert [captured.dtype for captured in seen] == [UNHASHABLE.code]


class Number(enum.IntEnum):
    """A number with a name."""

    ONE = 1


@pytest.mark.parametrize(
    ("leaf", "name", "shape", "value"),
    [
        (1.5, "float64", (), 1.5),
        (-0.0, "float64", (), 0.0),
        (3, "int64", (), 3.0),
        (True, "bool", (), 1.0),
        (Number.ONE, "int64", (), 1.0),
        (1 + 2j, "complex128", (), None),
        ("ab", "bytes", (2,), None),
        ("", "bytes", (0,), None),
        ("\ud800", "bytes", (3,), None),
        (b"\0\xff", "bytes", (2,), None),
        (2**63, "uint64", (), 2.0**63),
        (2**70, "bytes", (20,), None),
        (-(10**5000), "bytes", None, None),
        (np.float32(2.5), "float32", (), 2.5),
        (np.bool_(True), "bool", (), 1.0),
        (np.datetime64("2020-01-01"), "bytes", (8,), None),
        (np.longdouble(1) / 3, "bytes", None, None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_scalars(leaf, name, shape, value):
    """Python and numpy scalars and texts are rows of their own type, marked as no tensors."""
    taken = capture(leaf)
    assert element(taken) == name
    assert shape is None or taken.shape == shape
    assert taken.flags == Flag.SCALAR
    assert taken.value == value if value is not None else math.isnan(taken.value)
    assert capture(leaf).digest == taken.digest


def test_scalars_differ():
    """Numbers that are equal in Python and not in bits are told apart."""
    leaves = [
        1,
        1.0,
        True,
        1 + 0j,
        np.float32(1),
        np.int32(1),
        "1",
        0.0,
        -0.0,
        2**70,
        2**70 + 1,
        -(2**70),
        float("nan"),
    ]
    assert len({capture(leaf).digest for leaf in leaves}) == len(leaves)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.arange(6, dtype=np.uint16),
        np.arange(6).reshape(2, 3).T,
        np.zeros((0, 2)),
        np.array(1.5),
        np.array([True, False]),
        np.array(["ab", "c"]),
        np.array([b"ab", b"c"]),
        np.array(["2020-01-01", "NaT"], "M8[D]"),
        np.array([1, 2], "m8[s]"),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        np.array([None, "x", 1, 1.5, (1, [2])], dtype=object),
        np.array([np.longdouble(1) / 3]),
        np.ma.array([1, 2], mask=[0, 1]),
    ],
    ids=lambda array: str(array.dtype),
)
def test_arrays(array):
    """Arrays of every dtype are rows, equal for an equal copy and different when one element differs."""
    taken = capture(array)
    assert taken.flags == 0
    assert taken.digest == capture(array.copy()).digest
    assert array.ndim == 0 or taken.digest == capture(np.asfortranarray(array)).digest
    assert taken.data.nbytes == math.prod(taken.shape) * ELEMENT_TYPES[taken.dtype].itemsize
    if array.size > 1:
        other = array.copy()
        other.flat[0] = other.flat[1]
        assert capture(other).digest != taken.digest


def test_array_and_tensor_agree():
    """A numpy array and a tensor of the same bits are equal, and so is one of the other byte order."""
    array = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    tensor = torch.from_numpy(array)
    assert capture(array).digest == capture(tensor).digest
    assert capture(array.astype(">f4")).digest == capture(tensor).digest
    assert capture(array.astype(">f4")).data.tobytes() == array.tobytes()


def test_arrays_of_objects():
    """Objects in arrays are compared by value where they have one; long arrays in full, addresses never."""
    long = np.arange(5000).astype(object)
    other = long.copy()
    other[2500] = -1
    assert capture(long).digest != capture(other).digest
    assert capture(np.array([object()], object)).digest == capture(np.array([object()], object)).digest
    assert capture(np.array([1.0, None], object)).digest != capture(np.array([1, None], object)).digest
    old = np.get_printoptions()
    before = capture(np.array([0.1234567891234, None], object)).digest
    try:
        np.set_printoptions(precision=2, threshold=1)
        assert capture(np.array([0.1234567891234, None], object)).digest == before
    finally:
        np.set_printoptions(**old)


def test_padding_is_not_part_of_it():
    """Bytes between the fields of a record, which nobody writes, are not looked at."""
    dtype = np.dtype([("a", "i1"), ("b", "f8")], align=True)
    arrays = []
    for filler in (0, 255):
        array = np.full(dtype.itemsize, filler, np.uint8).view(dtype)
        array["a"], array["b"] = 1, 2.0
        arrays.append(array)
    assert arrays[0].tobytes() != arrays[1].tobytes()
    assert capture(arrays[0]).digest == capture(arrays[1]).digest


def test_none_is_a_gradient_that_is_none():
    """None is a row of its own type, not one of zeros."""
    assert capture(None).dtype == NONE.code
    assert capture(None).digest != capture(torch.zeros(())).digest


class Strange(str):
    """A text that refuses to be encoded."""

    __slots__ = ()

    def encode(self, *_args, **_kwargs):
        """Refuse."""
        raise OverflowError("of the class")


def test_leaves_that_refuse():
    """A leaf whose class raises is a row without bytes, not an error."""
    taken = capture(Strange("x"))
    assert taken.dtype == UNHASHABLE.code


# -- at that moment -------------------------------------------------------------------------------------------------


def test_digest_and_bytes_are_taken_at_once(tmp_path):
    """A tensor that is changed right after a module returned it is recorded as it was returned."""
    model = nn.Sequential(nn.Identity(), nn.Linear(4, 4), nn.Identity())
    with recording(tmp_path / "run"), torch.no_grad():
        for _ in range(5):
            x = torch.ones(64, 4)
            y = model[0](x)
            y.zero_()
            z = model[1](x)
            z.data.fill_(7.0)
    run = tmp_path / "run"
    ones, zeros = torch.ones(64, 4), torch.zeros(64, 4)
    for step in range(0, 10, 2):
        # Without an optimizer each root forward is a step; both modules are roots here.
        found = rows(run)
        outs = [record for text, record in found.items() if text.startswith(f"{step}/") and "output" in text]
        assert [record.digest for record in outs] == [capture(ones).digest.hex()]
        outs = [record for text, record in found.items() if text.startswith(f"{step + 1}/") and "output" in text]
        with torch.no_grad():
            assert [record.digest for record in outs] == [capture(model[1](zeros)).digest.hex()]


def test_kept_bytes_are_those_of_the_digest(tmp_path):
    """The bytes in the file are the ones that were hashed, also for tensors that the script overwrites at once."""
    with recording(tmp_path / "run"), torch.no_grad():
        identity = nn.Identity()
        for number in range(20):
            identity(torch.full((1000,), float(number))).mul_(-1)
    for number in range(20):
        kept = value_of(tmp_path / "run", f"{number}/0/forward/identity:#0:output.0".replace("/0/", "/e0/", 1))
        assert (kept == number).all()


# -- equal digests mean equal bits ----------------------------------------------------------------------------------

_ARRAYS = hnp.arrays(
    st.sampled_from(["f4", "f8", "f2", "i8", "i4", "u1", "c8"]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)


@hypothesis.given(_ARRAYS, _ARRAYS)
@hypothesis.settings(max_examples=150, deadline=None)
def test_equal_exactly_when_bits_are_equal(a, b):
    """Two tensors have equal digests exactly when dtype, shape and bits are equal."""
    one, two = torch.from_numpy(a.copy()), torch.from_numpy(b.copy())
    same = a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    assert (capture(one).digest == capture(two).digest) == same
    assert capture(one).digest == capture(one.clone()).digest
    assert capture(one).digest == capture(a).digest


@hypothesis.given(_ARRAYS.filter(lambda a: a.size > 0), st.data())
@hypothesis.settings(max_examples=150, deadline=None)
def test_any_flipped_bit_is_seen(array, data):
    """Flipping any single bit changes the digest."""
    tensor = torch.from_numpy(array.copy())
    before = capture(tensor).digest
    raw = tensor.reshape(-1).view(torch.uint8)
    position = data.draw(st.integers(0, raw.numel() - 1))
    raw[position] ^= 1 << data.draw(st.integers(0, 7))
    assert capture(tensor).digest != before


def changed_bits():
    """Yield name, tensor and a changed tensor: what a sum, a mean or a CRC would miss."""
    generator = torch.Generator().manual_seed(0)
    base = torch.randn(64, 48, generator=generator)
    large = torch.randn(1_000_000, generator=generator)
    ulp = large.clone()
    ulp[777_777] = torch.nextafter(large[777_777], torch.tensor(math.inf))
    last = large.clone().view(torch.int32)
    last[-1] ^= 1
    swapped, pair, sign, zero, snan = (base.clone() for _ in range(5))
    swapped[[3, 40]] = swapped[[40, 3]]
    pair[0, 0] += 1
    pair[0, 1] -= 1
    sign[5] = -sign[5]
    zero[7, 7] = 0.0
    minus_zero = zero.clone()
    minus_zero[7, 7] = -0.0
    snan.view(torch.int32)[1, 1] = 0x7FC00001
    quiet = snan.clone()
    quiet.view(torch.int32)[1, 1] = 0x7F800001
    yield "permutation", base.reshape(-1), base.reshape(-1)[torch.randperm(base.numel(), generator=generator)]
    yield "reversed", base, base.flip(0)
    yield "rows swapped", base, swapped
    yield "rolled", base, base.roll(1, 1)
    yield "transposed", base, base.T.contiguous()
    yield "transposed view", base, base.T
    yield "square transposed", base[:48], base[:48].T
    yield "reshaped", base, base.reshape(48, 64)
    yield "one more dimension", base, base[None]
    yield "viewed as another dtype", base, base.view(torch.int32)
    yield "signs", base, sign
    yield "negated", base, -base
    yield "two changes that cancel", base, pair
    yield "one ulp in a million", large, ulp
    yield "last bit of the last of a million", large, last.view(torch.float32)
    yield "negative zero", zero, minus_zero
    yield "signalling NaN", snan, quiet
    yield "other constant", torch.full((100,), 1.0), torch.full((100,), 1.0000001)
    yield "constant of another length", torch.zeros(100), torch.zeros(101)
    yield "another precision", base, base.double()
    yield "two halves for one float", base, base.view(torch.float16)
    yield "bool for byte", torch.ones(8, dtype=torch.bool), torch.ones(8, dtype=torch.uint8)
    yield "CRC-32 collision", torch.tensor([-0.665871, 1.0]), torch.tensor([2.39e22, 1.0])


@pytest.mark.parametrize(
    ("name", "a", "b"), list(changed_bits()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_changed_bits_are_seen(name, a, b):
    """None of the changes that weaker checks miss is missed."""
    assert capture(a).digest != capture(b).digest


def test_no_collisions_among_small_tensors():
    """A hundred thousand small tensors have a hundred thousand digests."""
    digests = {capture(torch.tensor([number, -number])).digest for number in range(1, 50_001)}
    digests |= {capture(torch.tensor([float(number)])).digest for number in range(50_000)}
    assert len(digests) == 100_000


@pytest.mark.filterwarnings("ignore:.*prototype stage:UserWarning")
@pytest.mark.filterwarnings("ignore:.*beta state:UserWarning")
@pytest.mark.filterwarnings("ignore:.*quantize_per_tensor:UserWarning")
def test_everything_through_the_recorder(tmp_path):
    """All of these pass through a recorded module and come back from the file."""
    leaves = {name: tensor for name, tensor in unreadable().items() if name != "fake"}
    leaves |= {str(dtype).replace(".", "_"): some(dtype, 2, 3) for dtype in DTYPES}
    leaves |= {
        "number": 1.5,
        "text": "abc",
        "big": 2**70,
        "array": np.arange(3),
        "objects": np.array([None, 1], object),
    }
    identity = nn.Identity()
    with recording(tmp_path / "run"):
        identity(leaves)
    found = rows(tmp_path / "run")
    for name, leaf in leaves.items():
        record = found[f"0/0/forward/identity:#0:output.{name}"]
        assert record.digest == capture(leaf).digest.hex()
        if record.kept:
            kept = value_of(tmp_path / "run", f"0/0/forward/identity:#0:output.{name}")
            assert kept.tobytes() == capture(leaf).data.tobytes()
        else:
            assert record.flags & Flag.UNHASHABLE
