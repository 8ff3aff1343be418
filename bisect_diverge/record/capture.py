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
    """Return the bits of a tensor, number, text or numpy array; never raises for a tensor without readable bytes."""
    if isinstance(leaf, torch.Tensor):
        try:
            return _tensor(leaf)
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            return unhashable(leaf)
    if leaf is None:
        return NO_TENSOR
    return _scalar(leaf)


def unhashable(leaf: torch.Tensor) -> Captured:
    """Return the row of a tensor without readable bytes; its digest stands for class and layout only."""
    try:
        shape = tuple(int(size) for size in leaf.shape)
    except (RuntimeError, TypeError):  # nested or symbolic sizes
        shape = ()
    kind = f"unhashable {type(leaf).__name__} {getattr(leaf, 'layout', '')}"
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
    if plain.device.type != "cpu":
        plain = plain.cpu()
    if not plain.is_contiguous():
        plain, flags = plain.contiguous(), flags | _STRIDED
    shape = tuple(plain.shape)
    dtype = plain.dtype
    code = _CODES.get(dtype, BYTES.code)
    integer = _AS_INTEGER.get(dtype)
    if integer is not None:
        array = plain.reshape(-1).view(integer).numpy()
    elif code == BYTES.code:
        array = plain.reshape(-1).view(torch.uint8).numpy()
    else:
        array = plain.numpy()
    name = ELEMENT_TYPES[code].name if code != BYTES.code else str(dtype)
    value = _value(array, plain, code) if array.size == 1 else _NAN
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


def _value(array: NDArray[Any], tensor: torch.Tensor, code: int) -> float:
    kind = ELEMENT_TYPES[code].kind
    if kind in (Kind.COMPLEX, Kind.OPAQUE):
        return _NAN
    if tensor.dtype in _AS_INTEGER:
        return float(tensor.reshape(-1).to(torch.float32).item())
    return float(array.reshape(-1)[0])


def _scalar(leaf: Any) -> Captured:
    if isinstance(leaf, (str, bytes)):
        data = leaf.encode("utf-8", "surrogatepass") if isinstance(leaf, str) else leaf
        array: NDArray[Any] = np.frombuffer(data, np.uint8)
    else:
        array = np.asarray(leaf)
    code = BY_NAME.get(array.dtype.name, BYTES).code
    if code == BYTES.code:
        if array.dtype.hasobject:
            array = np.frombuffer(repr(array).encode(), np.uint8)
        name = "bytes" if array.dtype == np.uint8 else array.dtype.str
        shape = array.shape if name == "bytes" else (*array.shape, array.dtype.itemsize)
    else:
        name, shape = array.dtype.name, array.shape
    if isinstance(leaf, (str, bytes)):
        code, name = BYTES.code, "bytes"
    data_u1 = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    value = float(array.reshape(-1)[0]) if array.size == 1 and array.dtype.kind in "fiub" and name != "bytes" else _NAN
    flags = 0 if isinstance(leaf, np.ndarray) else _SCALAR
    return Captured(code, shape, digest(_head(name, shape), data_u1 if data_u1.size else b""), data_u1, flags, value)
