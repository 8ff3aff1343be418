"""Where an input came from: the row that recorded the same storage last, while that storage is unchanged."""

from __future__ import annotations

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

Mark = tuple[int, int, StorageWeakRef]
"""Identity of a storage, its version, and the weak reference that keeps the identity from being used again."""

_free: Any = torch.UntypedStorage._free_weak_ref


class Edges:
    """Storages seen in this step.

    A weak reference to the storage keeps its address from being used again without keeping its memory; the version
    counter, which views share, tells whether it was written since. The references are torch's own numbers, which have
    to be given back: an object around each of them would cost as much as everything else here.
    """

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, int, int | StorageWeakRef]] = {}

    def mark(self, tensor: torch.Tensor) -> Mark | None:
        """Return what `note_mark` remembers of a tensor, now; None for one without storage or version counter."""
        try:
            storage = tensor.untyped_storage()
            return storage._cdata, tensor._version, StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        except (RuntimeError, NotImplementedError):
            return None

    def note_mark(self, mark: Mark | None, row: int) -> None:
        """Remember that a row recorded a tensor of which `mark` was taken then."""
        if mark is not None:
            known = self._seen.get(mark[0])
            self._seen[mark[0]] = (row, mark[1], mark[2] if known is None else known[2])

    def note(self, tensor: torch.Tensor, row: int) -> None:
        """Remember that a row recorded a tensor."""
        try:
            version = tensor._version
            storage = tensor.untyped_storage()
        except (RuntimeError, NotImplementedError):
            return
        key = storage._cdata
        known = self._seen.get(key)
        reference: Any = storage._weak_ref() if known is None else known[2]
        self._seen[key] = (row, version, reference)

    def source(self, tensor: torch.Tensor) -> int:
        """Return the row that recorded this tensor, or one it shares memory with, unchanged since; else -1."""
        try:
            known = self._seen.get(tensor.untyped_storage()._cdata)
            return known[0] if known is not None and known[1] == tensor._version else -1
        except (RuntimeError, NotImplementedError):
            return -1

    def holds(self, tensor: torch.Tensor) -> bool:
        """Return whether all of the memory that this tensor is in is this tensor, and a row recorded some of it."""
        try:
            storage = tensor.untyped_storage()
            return storage.nbytes() == tensor.numel() * tensor.element_size() and storage._cdata in self._seen
        except (RuntimeError, NotImplementedError):
            return False

    def clear(self) -> None:
        """Forget everything: a new step begins."""
        for _, _, reference in self._seen.values():
            if isinstance(reference, int):
                _free(reference)
        self._seen.clear()

    def __del__(self) -> None:
        self.clear()
