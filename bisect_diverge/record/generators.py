"""States of the random generators, read without drawing from them."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch


def python_state() -> bytes:
    """Return the state of ``random``'s global generator as bytes."""
    version, words, gauss = random.getstate()
    return np.array(words, "<u4").tobytes() + repr((version, gauss)).encode()


def numpy_state() -> bytes:
    """Return the state of numpy's global generator as bytes."""
    state: Any = sys.modules["numpy"].random.get_state(legacy=False)
    return _flat(state)


def _flat(value: Any) -> bytes:
    if isinstance(value, dict):
        return b"".join(str(key).encode() + _flat(child) for key, child in sorted(value.items()))
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return repr(value).encode()


def torch_state() -> torch.Tensor:
    """Return the state of torch's CPU generator, uint8[5056]."""
    return torch.default_generator.get_state()


def states() -> Iterator[tuple[str, Any]]:
    """Yield slot and state of every global generator of the process."""
    yield "python", python_state()
    if "numpy.random" in sys.modules:
        yield "numpy", numpy_state()
    yield "torch.cpu", torch_state()
    for kind in ("cuda", "xpu"):
        device = getattr(torch, kind, None)
        if device is not None and device.is_initialized():
            for index, generator in enumerate(getattr(device, "default_generators", ())):
                yield f"torch.{kind}:{index}", generator.get_state()
    if "torch.mps" in sys.modules and torch.backends.mps.is_available():
        yield "torch.mps", torch.mps.get_rng_state()
