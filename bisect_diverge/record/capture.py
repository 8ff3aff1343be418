"""One tensor -> element type, shape, digest, bytes. Runs in the training thread, before the user's code goes on."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from bisect_diverge.model.elements import BY_NAME, BYTES, ELEMENT_TYPES, NONE, UNHASHABLE, ElementType, Kind
from bisect_diverge.model.record import Flag
from bisect_diverge.numerics.digest import digest, header
from bisect_diverge.record.device import DevicePath, Later, is_capturing

_NAN = float("nan")
_HEADS_KEPT = 10_000


class _Type:
    """What is known of a dtype, and the headers of the shapes that were met."""

    __slots__ = ("code", "heads", "is_complex", "is_number", "itemsize", "name")

    def __init__(self, element: ElementType) -> None:
        self.code = element.code
        self.name = element.name
        self.itemsize = element.itemsize
        self.is_complex = element.kind is Kind.COMPLEX
        self.is_number = element.kind not in (Kind.COMPLEX, Kind.OPAQUE)
        """Whether one element has a value that a float can show."""
        self.heads: dict[tuple[int, ...], tuple[tuple[int, ...], bytes]] = {}
        """Shape (as ``torch.Size`` too) to the shape as a tuple and the header."""

    def head(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], bytes]:
        """Return a shape as a plain tuple, and the header."""
        known = self.heads.get(shape)
        if known is None:
            if len(self.heads) > _HEADS_KEPT:  # shapes of a run with ragged batches
                self.heads.clear()
            plain = tuple(shape)
            known = self.heads[plain] = plain, header(self.name, plain)
        return known


_TYPES = {
    dtype: _Type(element)
    for element in ELEMENT_TYPES
    if isinstance(dtype := getattr(torch, element.name, None), torch.dtype)
}
"""By torch dtype; types that this torch does not have are left out."""

_AS_INTEGER = {
    getattr(torch, name): integer
    for name, integer in (
        ("bfloat16", torch.int16),
        ("float8_e4m3fn", torch.uint8),
        ("float8_e5m2", torch.uint8),
        ("float8_e4m3fnuz", torch.uint8),
        ("float8_e5m2fnuz", torch.uint8),
        ("float8_e8m0fnu", torch.uint8),
        ("complex32", torch.int32),
    )
    if hasattr(torch, name)
}
"""Types that numpy has no number for, and the integers their bits are read as."""

_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", torch.Tensor)})

_REQUIRES_GRAD = int(Flag.REQUIRES_GRAD)
_STRIDED = int(Flag.STRIDED)
_SCALAR = int(Flag.SCALAR)
_ON_DEVICE = int(Flag.ON_DEVICE)
_UNHASHABLE = int(Flag.UNHASHABLE)


class Captured(NamedTuple):
    """The bits of one leaf at one moment."""

    dtype: int
    """Code of the element type."""
    shape: tuple[int, ...]
    digest: bytes
    """16 bytes."""
    data: NDArray[np.uint8] | None
    """uint8[n], the logical bytes; may alias the tensor's memory, so it is copied before the hook returns."""
    flags: int
    value: float
    """The value of a one-element tensor, else NaN."""
    later: Later | None = None
    """Where digest, value and data come from when they are made on a device; they are empty here then."""


NO_TENSOR = Captured(NONE.code, (), digest(header("none", ()), b""), None, 0, _NAN)
"""Stands for a gradient that is None."""


def capture(leaf: Any, *, keep: bool = True, device: DevicePath | None = None) -> Captured:
    """Return the bits of a tensor, number, text or numpy array; never raises for one without readable bytes.

    Args:
        leaf: What to read; None is a gradient that is None.
        keep: Whether `Captured.data` is wanted.
        device: Digests tensors of its devices there; None: they are copied to the host and digested here.
    """
    if leaf is None:
        return NO_TENSOR
    try:
        if not isinstance(leaf, torch.Tensor):
            return _scalar(leaf)
        if type(leaf) in _PLAIN and (taken := _in_place(leaf, keep, device)) is not None:
            return taken
        return _tensor(leaf, keep, device)
    except Exception:  # whatever a tensor of some other library, or a strange subclass of int, objects to
        return unhashable(leaf)


def _in_place(leaf: torch.Tensor, keep: bool, device: DevicePath | None) -> Captured | None:
    """Return the bits of a tensor that lies in memory just as it is hashed; None for any other.

    Nearly all tensors do. They are read through their address: making a numpy array of each, as `_tensor` does, takes
    four times as long.
    """
    kind = _TYPES.get(leaf.dtype)  # none for quantized ones; of other layouts and nested ones, the storage objects
    if kind is None or not leaf.is_cpu or not leaf.is_contiguous() or leaf.is_neg():
        return None
    if (kind.is_complex and leaf.is_conj()) or (device is not None and device.takes_host):
        return None
    size = leaf.nbytes
    # Storage can be smaller than its tensors: FSDP frees parameters by making it empty.
    if not 0 < size <= leaf.untyped_storage().nbytes() - leaf.storage_offset() * kind.itemsize:
        return None
    address = leaf.data_ptr()
    if not address:
        return None
    shape, head = kind.head(leaf.shape)
    memory = _memory(size).from_address(address)
    data = None
    if keep:
        memory.owner = leaf  # the array keeps what it was made of, and so the memory
        data = np.frombuffer(memory, np.uint8)
    value = float(leaf.item()) if kind.is_number and leaf.numel() == 1 else _NAN
    return Captured(kind.code, shape, digest(head, memory), data, _REQUIRES_GRAD if leaf.requires_grad else 0, value)


@functools.lru_cache(maxsize=4096)
def _memory(size: int) -> Any:
    return ctypes.c_char * size


def unhashable(leaf: Any, why: str = "") -> Captured:
    """Return the row of a leaf without readable bytes; its digest stands for class, layout, type and reason only."""
    try:
        shape = tuple(int(size) for size in leaf.shape)
    except Exception:  # nested or symbolic sizes
        shape = ()
    kind = f"unhashable {why}{type(leaf).__name__} {getattr(leaf, 'layout', '')} {getattr(leaf, 'dtype', '')}"
    return Captured(UNHASHABLE.code, shape, digest(header(kind, shape), b""), None, _UNHASHABLE, _NAN)


def _tensor(leaf: torch.Tensor, keep: bool, device: DevicePath | None) -> Captured:
    flags = _REQUIRES_GRAD if leaf.requires_grad else 0
    if type(leaf) not in _PLAIN:
        if _has_dispatch(type(leaf)):
            return unhashable(leaf)
        with torch._C.DisableTorchFunctionSubclass():
            leaf = leaf.as_subclass(torch.Tensor)
    if not has_bytes(leaf):
        return unhashable(leaf)
    if is_capturing(leaf):  # whatever we enqueued would be done again by every replay, or end the capture
        return unhashable(leaf, "captured ")
    plain = leaf.detach()
    if plain.is_conj():
        plain = plain.resolve_conj()
    if plain.is_neg():
        plain = plain.resolve_neg()
    if device is not None and device.takes(plain) and (taken := _on_device(plain, flags, keep, device)) is not None:
        return taken
    dtype = plain.dtype
    integer = _AS_INTEGER.get(dtype)
    if integer is not None:
        plain = plain.view(integer)  # first: torch warns of some of these types when it makes a tensor of them
    if plain.device.type != "cpu":
        plain = plain.cpu()
    if not plain.is_contiguous():
        plain, flags = plain.contiguous(), flags | _STRIDED
    code, name, shape = _identity(dtype, plain.shape)
    array = plain.reshape(-1).view(torch.uint8).numpy() if code == BYTES.code else plain.numpy()
    value = _value(array, plain, dtype, code) if array.size == 1 else _NAN
    data = array.reshape(-1).view(np.uint8)
    return Captured(code, shape, digest(header(name, shape), data if data.size else b""), data, flags, value)


def _on_device(plain: torch.Tensor, flags: int, keep: bool, device: DevicePath) -> Captured | None:
    """Return the row of a tensor that is digested where it lies; None if there is no room for that."""
    if not plain.is_contiguous():
        plain, flags = plain.contiguous(), flags | _STRIDED
    code, name, shape = _identity(plain.dtype, plain.shape)
    number = code != BYTES.code and _TYPES[plain.dtype].is_number
    later = device.take(plain, header(name, shape), keep=keep, number=number)
    return None if later is None else Captured(code, shape, b"", None, flags | _ON_DEVICE, _NAN, later)


def _identity(dtype: torch.dtype, shape: tuple[int, ...]) -> tuple[int, str, tuple[int, ...]]:
    """Return code, name and shape that stand for a dtype; one without a code is kept as bytes, one element each."""
    known = _TYPES.get(dtype)
    if known is not None:
        return known.code, known.name, tuple(shape)
    return BYTES.code, str(dtype), (*shape, dtype.itemsize) if dtype.itemsize > 1 else tuple(shape)


def has_bytes(leaf: torch.Tensor) -> bool:
    """Whether a tensor has memory of its own that all its elements lie in."""
    if leaf.layout is not torch.strided or leaf.is_meta or leaf.is_quantized or leaf.is_nested:
        return False
    if not leaf.numel():
        return True
    last = sum((size - 1) * stride for size, stride in zip(leaf.shape, leaf.stride(), strict=True))
    return bool(leaf.untyped_storage().nbytes() >= (leaf.storage_offset() + last + 1) * leaf.itemsize)


def _has_dispatch(kind: type) -> bool:
    """Whether a subclass computes in Python (DTensor, FakeTensor, ...): its bytes are not where they seem to be."""
    return getattr(kind, "__torch_dispatch__", None) is not torch._C._disabled_torch_dispatch_impl


def _value(array: NDArray[Any], plain: torch.Tensor, dtype: torch.dtype, code: int) -> float:
    kind = ELEMENT_TYPES[code].kind
    if kind in (Kind.COMPLEX, Kind.OPAQUE):
        return _NAN
    if dtype in _AS_INTEGER:
        return float(plain.view(dtype).reshape(-1).to(torch.float32).item())
    return float(array.reshape(-1)[0])


def _scalar(leaf: Any) -> Captured:
    if isinstance(leaf, (str, bytes)):
        data = leaf.encode("utf-8", "surrogatepass") if isinstance(leaf, str) else leaf
        return _array(np.frombuffer(data, np.uint8), "bytes", _SCALAR)
    array = np.asarray(leaf)
    flags = 0 if isinstance(leaf, np.ndarray) else _SCALAR
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if _has_bytes_without_meaning(array.dtype):
        text = _text(array.tolist()).encode("utf-8", "surrogatepass")
        return _array(np.frombuffer(text, np.uint8), "bytes", flags)
    return _array(array, array.dtype.name if array.dtype.name in BY_NAME else array.dtype.str, flags)


def _array(array: NDArray[Any], name: str, flags: int) -> Captured:
    code = BY_NAME.get(name, BYTES).code
    shape = array.shape if name in BY_NAME else (*array.shape, array.dtype.itemsize)
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    number = array.size == 1 and array.dtype.kind in "fiub" and name != "bytes"
    value = float(array.reshape(-1)[0]) if number else _NAN
    return Captured(code, shape, digest(header(name, shape), data if data.size else b""), data, flags, value)


def _has_bytes_without_meaning(dtype: np.dtype[Any]) -> bool:
    """Whether memory of such elements holds addresses, or padding that nobody has written."""
    if dtype.hasobject or dtype.char in "gG":  # long double: 10 bytes in 16
        return True
    fields = dtype.fields
    return bool(fields) and dtype.itemsize != sum(field[0].itemsize for field in (fields or {}).values())


def _text(value: Any) -> str:
    """Return a text for objects in an array that is the same in every process; of what it does not know, the class."""
    if isinstance(value, int):
        return hex(int(value))
    if isinstance(value, (str, bytes, float, complex, np.generic, type(None))):
        return repr(value)
    if isinstance(value, np.ndarray):
        return _text(value.tolist())
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(_text, value))}]"
    return type(value).__name__
