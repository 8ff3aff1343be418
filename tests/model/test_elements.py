"""The table of element types against torch and numpy."""

import numpy as np
import pytest
import torch

from bisect_diverge.model.elements import BY_NAME, BYTES, ELEMENT_TYPES, NONE, UNHASHABLE, Kind, shape_text, short_type

TENSOR_TYPES = [element for element in ELEMENT_TYPES if element not in (NONE, UNHASHABLE, BYTES)]
by_name = pytest.mark.parametrize("element", TENSOR_TYPES, ids=lambda element: element.name)


@by_name
def test_sizes_and_kinds_are_torchs(element):
    """Each entry has the name, the element size and the kind that torch has."""
    dtype = getattr(torch, element.name)
    assert str(dtype) == f"torch.{element.name}"
    assert dtype.itemsize == element.itemsize
    assert (element.kind is Kind.FLOAT) == dtype.is_floating_point
    assert (element.kind is Kind.COMPLEX) == dtype.is_complex
    assert (element.kind is Kind.BOOL) == (dtype is torch.bool)


@by_name
def test_storage_holds_an_element(element):
    """The pool of a type has elements of the same size; the bits are unsigned and divide it."""
    assert np.dtype(element.storage).itemsize == element.itemsize
    bits = np.dtype(element.bits)
    assert bits.kind == "u"
    assert bits.itemsize * (2 if element.kind is Kind.COMPLEX else 1) == element.itemsize


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental:UserWarning")
@by_name
def test_types_that_numpy_has_are_stored_as_themselves(element):
    """A type that numpy has is stored as that type, bool as bytes, all others as unsigned integers."""
    try:
        dtype = torch.empty(0, dtype=getattr(torch, element.name)).numpy().dtype
    except TypeError:
        dtype = np.dtype(f"u{element.itemsize}")
    if element.kind is Kind.BOOL:
        dtype = np.dtype("u1")
    assert np.dtype(element.storage) == dtype.newbyteorder("<")


def test_codes_are_part_of_the_file_format():
    """Codes never change: files hold them."""
    names = [
        "none unhashable bytes float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz",
        "float8_e5m2fnuz float8_e8m0fnu complex128 complex64 complex32 int64 int32 int16 int8 uint64 uint32",
        "uint16 uint8 bool",
    ]
    assert [element.name for element in ELEMENT_TYPES][:24] == " ".join(names).split()
    assert [element.code for element in ELEMENT_TYPES] == list(range(len(ELEMENT_TYPES)))
    assert len(BY_NAME) == len(ELEMENT_TYPES) <= 256


def test_types_that_tensors_compute_with_have_entries():
    """Every element type of torch has an entry, but for those that hold parts of a byte or quantized values."""
    found = {str(dtype).removeprefix("torch.") for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)}
    missing = found - set(BY_NAME)
    parts = {f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)}
    parts |= {f"bits{form}" for form in ("1x8", "2x4", "4x2", "8", "16")}
    assert missing <= parts | {"qint8", "quint8", "qint32", "quint4x2", "quint2x4", "float4_e2m1fn_x2"}


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("float32", "f32"),
        ("bfloat16", "bf16"),
        ("complex64", "c64"),
        ("int64", "i64"),
        ("uint8", "u8"),
        ("bool", "bool"),
        ("bytes", "bytes"),
        ("none", "none"),
    ],
)
def test_short_names(name, short):
    """Short names are those of torch's own debug output."""
    assert short_type(name) == short


def test_short_names_are_different():
    """No two types share a short name."""
    assert len({short_type(element.name) for element in ELEMENT_TYPES}) == len(ELEMENT_TYPES)


def test_shapes_in_one_word():
    """Type and shape are one word; a 0-d tensor has empty brackets."""
    assert shape_text("float32", (4, 64, 192)) == "f32[4,64,192]"
    assert shape_text("int64", ()) == "i64[]"
