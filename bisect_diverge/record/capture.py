"""One tensor -> element type, shape, digest, bytes. Runs in the training thread, before the user's code goes on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from bisect_diverge.model.elements import BY_NAME, BYTES, ELEMENT_TYPES, NONE, UNHASHABLE, Kind
from bisect_diverge.model.record import Flag
from bisect_diverge.numerics.digest import digest, header

_NAN = float("nan")

_CODES = {
    dtype: element.code
    for element in ELEMENT_TYPES
    if isinstance(dtype := getattr(torch, element.name, None), torch.dtype)
}
"""torch dtype to code; types that this torch does not have are left out."""

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
_UNHASHABLE = int(Flag.UNHASHABLE)

_heads: dict[tuple[str, tuple[int, ...]], bytes] = {}


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


NO_TENSOR = Captured(NONE.code, (), digest(header("none", ()), b""), None, 0, _NAN)
"""Stands for a gradient that is None."""


def capture(leaf: Any) -> Captured:
    """Return the bits of a tensor, number, text or numpy array; never raises for one without readable bytes."""
    if leaf is None:
        return NO_TENSOR
    try:
        return _tensor(leaf) if isinstance(leaf, torch.Tensor) else _scalar(leaf)
    except Exception:  # whatever a tensor of some other library, or a strange subclass of int, objects to
        return unhashable(leaf)


def unhashable(leaf: Any) -> Captured:
    """Return the row of a leaf without readable bytes; its digest stands for class, layout and type only."""
    try:
        shape = tuple(int(size) for size in leaf.shape)
    except Exception:  # nested or symbolic sizes
        shape = ()
    kind = f"unhashable {type(leaf).__name__} {getattr(leaf, 'layout', '')} {getattr(leaf, 'dtype', '')}"
    return Captured(UNHASHABLE.code, shape, digest(header(kind, shape), b""), None, _UNHASHABLE, _NAN)


def _tensor(leaf: torch.Tensor) -> Captured:
    flags = _REQUIRES_GRAD if leaf.requires_grad else 0
    if type(leaf) not in _PLAIN:
        if _has_dispatch(type(leaf)):
            return unhashable(leaf)
        with torch._C.DisableTorchFunctionSubclass():
            leaf = leaf.as_subclass(torch.Tensor)
    if leaf.layout is not torch.strided or leaf.is_meta or leaf.is_quantized or leaf.is_nested:
        return unhashable(leaf)
    plain = leaf.detach()
    if plain.is_conj():
        plain = plain.resolve_conj()
    if plain.is_neg():
        plain = plain.resolve_neg()
    dtype = plain.dtype
    integer = _AS_INTEGER.get(dtype)
    if integer is not None:
        plain = plain.view(integer)  # first: torch warns of some of these types when it makes a tensor of them
    if plain.device.type != "cpu":
        plain = plain.cpu()
    if not plain.is_contiguous():
        plain, flags = plain.contiguous(), flags | _STRIDED
    shape = tuple(plain.shape)
    code = _CODES.get(dtype, BYTES.code)
    array = plain.reshape(-1).view(torch.uint8).numpy() if code == BYTES.code else plain.numpy()
    name = ELEMENT_TYPES[code].name
    if code == BYTES.code:
        name = str(dtype)
        if dtype.itemsize > 1:
            shape = (*shape, dtype.itemsize)  # the pool has one element for each byte
    value = _value(array, plain, dtype, code) if array.size == 1 else _NAN
    data = array.reshape(-1).view(np.uint8)
    return Captured(code, shape, digest(_head(name, shape), data if data.size else b""), data, flags, value)


def _has_dispatch(kind: type) -> bool:
    """Whether a subclass computes in Python (DTensor, FakeTensor, ...): its bytes are not where they seem to be."""
    return getattr(kind, "__torch_dispatch__", None) is not torch._C._disabled_torch_dispatch_impl


def _head(name: str, shape: tuple[int, ...]) -> bytes:
    key = (name, shape)
    head = _heads.get(key)
    if head is None:
        if len(_heads) > 10_000:  # shapes of a run with ragged batches
            _heads.clear()
        head = _heads[key] = header(name, shape)
    return head


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
    return Captured(code, shape, digest(_head(name, shape), data if data.size else b""), data, flags, value)


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
