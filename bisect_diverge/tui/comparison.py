"""What the screens need to know of two compared runs; the differ's `Comparison` has all of it.

The screens see only this Protocol, so that a small fake can drive every test of them.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.model.divergence import Divergence, ElementStatistics
from bisect_diverge.model.record import TensorRecord


class Comparison(Protocol):
    """Two runs, merged into one trace of n records: paired ones once, the others where they happened."""

    @property
    def label_a(self) -> str:
        """The baseline as the user named it."""

    @property
    def label_b(self) -> str:
        """The candidate as the user named it."""

    @property
    def divergence(self) -> Divergence:
        """The answer."""

    @property
    def row_a(self) -> NDArray[np.int64]:
        """int64[n]: row in A's file, -1 where A has none."""

    @property
    def row_b(self) -> NDArray[np.int64]:
        """int64[n]: row in B's file, -1 where B has none."""

    @property
    def state(self) -> NDArray[np.uint8]:
        """uint8[n]: `tui.states.EQUAL` and its neighbours."""

    @property
    def step(self) -> NDArray[np.int32]:
        """int32[n]: step, in A's count where A has the record."""

    @property
    def rank(self) -> NDArray[np.int32]:
        """int32[n]: rank."""

    @property
    def first(self) -> int:
        """Index of the first divergence in the trace; -1 when nothing differs."""

    def pair(self, index: int, /) -> tuple[TensorRecord | None, TensorRecord | None]:
        """Return the record in A and the record in B; needs no tensor bytes."""

    def tensors(self, index: int, /) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        """Return the tensors in their storage type; None for a side that has none or kept none."""

    def statistics(self, index: int, /) -> ElementStatistics | None:
        """Return how the two tensors differ; None when they cannot be compared element by element."""

    def producers(self, index: int, /) -> list[int]:
        """Return the indices of the records that this one was computed from."""

    def consumers(self, index: int, /) -> list[int]:
        """Return the indices of the records that were computed from this one."""

    def close(self) -> None:
        """Close the files."""
