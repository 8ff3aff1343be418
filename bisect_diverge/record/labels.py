"""The labels of a loss that is a function: they enter no module, but autograd saves them for the backward pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

MOST_NODES = 64
"""Nodes behind a loss that are looked at: between it and its loss functions lie sums, weights and means."""
_SAVED = {"_raw_saved_target": "input.target", "_raw_saved_targets": "input.targets"}
"""Attribute of a node of autograd's graph: slot."""


def labels_of(losses: Iterable[torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield slot and tensor of what loss functions behind some losses compared with, those nearest to a loss first.

    Only what takes no part in autograd is a label. A saved tensor with hooks is left alone: looking at it would run
    them, for checkpointing a forward. Losses that save no target (``l1_loss``, a difference and its mean,
    probabilities in ``cross_entropy``) show none.
    """
    waiting = [loss.grad_fn for loss in losses if loss.grad_fn is not None]
    seen: set[Any] = set()
    for node in waiting:  # grows while it is gone through
        if node in seen or len(seen) >= MOST_NODES:
            continue
        seen.add(node)
        found = [name for name in _SAVED if hasattr(node, name)]
        for name in found:
            tensor = _read(getattr(node, name))
            if tensor is not None:
                yield _SAVED[name], tensor
        if not found:  # behind a loss function lies the model
            waiting += [before for before, _ in node.next_functions if before is not None]


def _read(saved: Any) -> torch.Tensor | None:
    if getattr(saved, "unpack_hook", None) is not None:
        return None
    try:
        tensor = saved.data
    except (AttributeError, RuntimeError):  # an older torch; a graph whose buffers have been freed
        return None
    return tensor if isinstance(tensor, torch.Tensor) and not tensor.requires_grad else None
