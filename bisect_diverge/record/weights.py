"""Parameters and buffers as they were last recorded: how a change outside of an update is noticed.

An EMA swap, a late ``load_state_dict`` or a clipped weight is nobody's forward and no optimizer's update. It is found
by the digest, not by the version counter, which writes through ``.data`` do not move.
"""

from __future__ import annotations

import weakref

import torch


class Weights:
    """Digests by tensor; keeps no tensor alive."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], bytes, bool]] = {}

    def note(self, tensor: torch.Tensor, digest: bytes, *, on_device: bool = False) -> None:
        """Remember that a row recorded this tensor; `on_device`: that its digest was made on an accelerator."""
        known = self._known.get(id(tensor))
        reference = known[0] if known is not None and known[0]() is tensor else weakref.ref(tensor)
        self._known[id(tensor)] = (reference, digest, on_device)

    def changed(self, tensor: torch.Tensor, digest: bytes, *, on_device: bool = False) -> bool:
        """Whether the last row of this tensor has another digest.

        False where it has none (a new tensor, or one not in a window), or one of another algorithm.
        """
        known = self._known.get(id(tensor))
        return known is not None and known[0]() is tensor and known[2] == on_device and known[1] != digest
