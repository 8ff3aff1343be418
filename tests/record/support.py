"""What the tests of the recorder share: bits of anything, recordings of a function, small networks."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import bisect_diverge
from bisect_diverge.store.reader import Run, RunFile


def seed_all(number: int = 0) -> None:
    """Seed every global generator."""
    torch.manual_seed(number)
    random.seed(number)
    np.random.seed(number)


def generator_states() -> tuple[Any, ...]:
    """Return the states of every global generator."""
    state = np.random.get_state()
    return random.getstate(), (state[0], state[1].tobytes(), *state[2:]), torch.get_rng_state().numpy().tobytes()


def bits(value: Any) -> Any:
    """Return something that is equal for two values exactly when dtype, shape and bits of all their tensors are."""
    if isinstance(value, torch.Tensor):
        return _tensor_bits(value)
    if isinstance(value, dict):
        return tuple((key, bits(child)) for key, child in value.items())
    if isinstance(value, list | tuple):
        return tuple(bits(child) for child in value)
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    return repr(value)


def _tensor_bits(value: torch.Tensor) -> Any:
    value = value.detach().resolve_conj().resolve_neg()
    if value.layout is not torch.strided:
        value = value.coalesce()
        return "sparse", bits(value.indices()), bits(value.values())
    if value.is_meta:
        return "meta", str(value.dtype), tuple(value.shape)
    plain = value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return str(value.dtype), tuple(value.shape), plain


def grads(model: nn.Module) -> list[torch.Tensor | None]:
    """Return the gradients of all parameters."""
    return [parameter.grad for parameter in model.parameters()]


def everything(model: nn.Module, *others: Any) -> list[Any]:
    """Return copies of parameters, buffers and gradients of a model, and whatever else is given."""
    return [dict(model.state_dict()), grads(model), *others]


@contextlib.contextmanager
def recording(path: Path, **options: Any) -> Iterator[None]:
    """Record a block; it must have been recorded without any trouble of ours."""
    with bisect_diverge.record(path, **options):
        yield
    if list(path.glob("*.h5")):
        with Run(path) as run:
            assert trouble(run.first) == []


def trouble(file: RunFile) -> list[str]:
    """Return what the recorder could not do, from the run record."""
    return [f"{key}: {file.record.notes}" for key in file.record.coverage if key.startswith("failures")]


def addresses(run: Path | Run, *, without: tuple[str, ...] = ("rng", "init")) -> list[str]:
    """Return the addresses of a recording in order, without the rank, leaving out some phases."""
    opened = Run(run) if isinstance(run, Path) else run
    file = opened.first
    found = [file.address(row) for row in range(len(file.events))]
    if isinstance(run, Path):
        opened.close()
    return [str(address).partition("/")[2] for address in found if str(address.phase) not in without]


def rows(run: Path) -> dict[str, Any]:
    """Return address (without the rank) to record; the first of each."""
    out: dict[str, Any] = {}
    with Run(run) as opened:
        file = opened.first
        for row in range(len(file.events)):
            record = file.record_at(row)
            out.setdefault(str(record.address).partition("/")[2], record)
    return out


def value_of(run: Path, address: str) -> np.ndarray:
    """Return the kept tensor at an address (given without the rank)."""
    with Run(run) as opened:
        file = opened.first
        for row in range(len(file.events)):
            if str(file.address(row)) == f"r0/{address}":
                tensor = file.tensor(row)
                assert tensor is not None, f"{address} was not kept"
                return tensor
    raise AssertionError(f"no record at {address}; there are {sorted(rows(run))}")


def mlp(*, width: int = 8) -> nn.Sequential:
    """Return two linear layers with a ReLU between."""
    return nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2))


def train(model: nn.Module, *inputs: Any, steps: int = 3, lr: float = 0.1, loss: Callable[[Any], Any] | None = None):
    """Train a model for some steps with SGD and momentum; return losses, optimizer state and the model's tensors."""
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        output = model(*inputs)
        value = loss(output) if loss is not None else output.square().mean()
        value.backward()
        optimizer.step()
        losses.append(value.detach().clone())
    return everything(model, losses, optimizer.state_dict())


def same_with_us(function: Callable[[], Any], path: Path, **options: Any) -> Any:
    """Run a function without and with a recording; bits and generators must end alike. Return what it returned."""
    seed_all()
    plain = bits(function()), generator_states()
    seed_all()
    with recording(path, **options):
        result = function()
    assert (bits(result), generator_states()) == plain
    return result
