"""Writes tensors as `torch.save` does, in their own element types; the one output that needs torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_OTHERS = {"bytes": "uint8"}
"""Element types that torch has under another name."""


def save_pt(path: Path, arrays: dict[str, NDArray[Any]], index: dict[str, dict[str, Any]]) -> None:
    """Write a file that ``torch.load(path, weights_only=True)`` reads.

    It holds a dictionary: ``tensors`` is names to tensors in their recorded element types, bit for bit; ``index`` is
    names to what is known of them.

    Args:
        path: File to write.
        arrays: Names to arrays in the storage type of their element type.
        index: Names to attributes; ``dtype`` is the element type.
    """
    tensors = {name: as_tensor(array, index[name]["dtype"]) for name, array in arrays.items()}
    torch.save({"tensors": tensors, "index": index}, path)


def as_tensor(array: NDArray[Any], dtype: str) -> torch.Tensor:
    """Return an array, as stored, as a tensor of an element type; of its shape, and with the same bits."""
    kind: torch.dtype = getattr(torch, _OTHERS.get(dtype, dtype))
    flat = (
        torch.frombuffer(bytearray(array.tobytes()), dtype=torch.uint8)
        if array.size
        else torch.empty(0, dtype=torch.uint8)
    )
    return flat.view(kind).reshape(array.shape)
