"""States of the random generators, read without drawing from them."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from bisect_diverge.environment.hashing import hash_bytes
from bisect_diverge.environment.seeds import DRAWN


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


def own_generators(loader: Any) -> Iterator[tuple[str, torch.Generator]]:
    """Yield the generators that a data loader was given, each once: ``generator``, ``sampler.generator``."""
    seen: set[int] = set()
    for name, holder in (
        ("generator", loader),
        ("sampler.generator", getattr(loader, "sampler", None)),
        ("sampler.generator", getattr(getattr(loader, "batch_sampler", None), "sampler", None)),
    ):
        generator = getattr(holder, "generator", None)
        if isinstance(generator, torch.Generator) and id(generator) not in seen:
            seen.add(id(generator))
            yield name, generator


def text_of_generator(generator: torch.Generator) -> tuple[str, str]:
    """Return the seed of a generator as text, and its state as JSON if numbers were drawn from it since, else nothing.

    Nothing is drawn from it.
    """
    seed = generator.initial_seed()
    state = generator.get_state()
    fresh = torch.Generator(generator.device)
    fresh.manual_seed(seed)
    if torch.equal(fresh.get_state(), state):
        return str(seed), ""
    text = json.dumps(state.tolist())
    return f"{DRAWN} {hash_bytes(text.encode())}", text
