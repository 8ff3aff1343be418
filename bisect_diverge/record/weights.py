"""Parameters and buffers as they were last recorded: how a change outside of an update is noticed.

An EMA swap, a late ``load_state_dict`` or a clipped weight is nobody's forward and no optimizer's update. Before the
first pass of a step it is found by the digest, not by the version counter, which writes through ``.data`` do not move.
Between two passes of a step, as within LBFGS or a loop that updates by hand, the counter says what to look at; and a
tensor that stands where another one stood, as in `torch.func.functional_call`, is one that was changed.
"""

from __future__ import annotations

import weakref

import torch

FORGET_FROM = 4096
"""Tensors that are remembered before those that are gone are looked for."""


class Weights:
    """Digests by tensor, and tensors by name; keeps no tensor alive."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], bytes, bool]] = {}
        self._versions: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}
        self._holders: dict[tuple[str, str, str], weakref.ref[torch.Tensor]] = {}
        self._sweep_at = FORGET_FROM

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

    def see(self, tensor: torch.Tensor) -> None:
        """Remember that the bits of a tensor are being read now."""
        self._versions[id(tensor)] = (weakref.ref(tensor), _version(tensor))
        if len(self._versions) >= self._sweep_at:
            self._forget_dead()

    def written(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor was written since its bits were read, as far as torch counts writes, or never read."""
        seen = self._versions.get(id(tensor))
        return seen is None or seen[0]() is not tensor or seen[1] != _version(tensor)

    def __len__(self) -> int:
        return max(len(self._known), len(self._versions))

    def _forget_dead(self) -> None:
        """Forget tensors that are gone: a script that makes its weights anew in each step makes many."""
        self._known = {key: entry for key, entry in self._known.items() if entry[0]() is not None}
        self._versions = {key: entry for key, entry in self._versions.items() if entry[0]() is not None}
        self._sweep_at = max(FORGET_FROM, 2 * len(self._versions))

    def hold(self, name: tuple[str, str, str], tensor: torch.Tensor) -> bool:
        """Remember which tensor stands under a root, FQN and slot; return whether it was another one before."""
        before = self._holders.get(name)
        if before is not None and before() is tensor:
            return False
        self._holders[name] = weakref.ref(tensor)
        return before is not None


def _version(tensor: torch.Tensor) -> int:
    try:
        return tensor._version
    except RuntimeError:  # an inference tensor has none
        return -1
