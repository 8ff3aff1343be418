"""Where an input came from: the row that recorded the same storage last, while that storage is unchanged."""

from __future__ import annotations

import torch
from torch.multiprocessing.reductions import StorageWeakRef

Mark = tuple[int, int, StorageWeakRef]
"""Identity of a storage, its version, and the weak reference that keeps the identity from being used again."""


class Edges:
    """Storages seen in this step.

    A weak reference to the storage keeps its address from being used again without keeping its memory; the version
    counter, which views share, tells whether it was written since.
    """

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, int, StorageWeakRef]] = {}

    def mark(self, tensor: torch.Tensor) -> Mark | None:
        """Return what `note` remembers of a tensor, now; None for one without storage or version counter."""
        try:
            storage = tensor.untyped_storage()
            return storage._cdata, tensor._version, StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        except (RuntimeError, NotImplementedError):
            return None

    def note(self, mark: Mark | None, row: int) -> None:
        """Remember that a row recorded a tensor."""
        if mark is not None:
            self._seen[mark[0]] = (row, mark[1], mark[2])

    def source(self, tensor: torch.Tensor) -> int:
        """Return the row that recorded this tensor, or one it shares memory with, unchanged since; else -1."""
        try:
            known = self._seen.get(tensor.untyped_storage()._cdata)
            if known is None or known[1] != tensor._version or known[2].expired():  # type: ignore[no-untyped-call]
                return -1
        except (RuntimeError, NotImplementedError):
            return -1
        return known[0]

    def clear(self) -> None:
        """Forget everything: a new step begins."""
        self._seen.clear()
