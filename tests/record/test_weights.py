"""Weights that change between two passes are recorded, so that no module is blamed for what it was given."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from bisect_diverge.diff.compare import compare
from bisect_diverge.model.coverage import HOOKS_CALLED, HOOKS_SET
from bisect_diverge.record import weights
from bisect_diverge.store.reader import Run
from tests.record.support import addresses, recording, seed_all


def by_hand(change: float = 0.0) -> None:
    """Update twice without an optimizer, inside one step, by another amount the second time."""
    model, x = nn.Linear(4, 2), torch.randn(3, 4)
    torch.optim.SGD(model.parameters(), 0.1)
    for rate in (0.1, 0.2 + change, 0.1):
        gradients = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter.sub_(rate * gradient)


def functional(change: float = 0.0) -> None:
    """Call a module with other parameters than its own."""
    model, x = nn.Linear(4, 2), torch.randn(3, 4)
    model(x)
    weights = {name: tensor.detach() + 1.0 + change for name, tensor in model.named_parameters()}
    torch.func.functional_call(model, weights, (x,))
    model(x)


def accumulate() -> None:
    """Train with two micro-batches an update: nothing changes between them."""
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        for _ in range(2):
            model(torch.randn(3, 4)).sum().backward()
        optimizer.step()


def pair(folder, train):
    """Record a function as it is and with a change, and return the result of the comparison."""
    for name, change in (("a", 0.0), ("b", 0.5)):
        seed_all()
        with recording(folder / name):
            train(change)
    with compare(Run(folder / "a"), Run(folder / "b")) as comparison:
        return comparison.divergence


def test_weights_written_between_two_passes_of_a_step(tmp_path):
    """A loop that updates by hand: the pass after the change shows the weights, and its modules are innocent."""
    found = pair(tmp_path, by_hand)

    assert str(found.first.address) == "r0/0/2/forward/model:weight#0:param"
    assert found.is_origin is None
    assert "it was changed between two updates" in found.origin_reason
    assert not [address for address in found.origins_in_first_step if address.slot == "output.0"]


def test_weights_put_in_the_place_of_a_modules_own(tmp_path):
    """Those of a functional call are recorded as what the module was called with, and its own when they are back."""
    found = pair(tmp_path, functional)
    rows = [text for text in addresses(tmp_path / "a") if text.endswith("model:weight#0:param")]

    assert str(found.first.address).endswith("forward/model:weight#0:param")
    assert len(rows) == 2  # replaced, and back again
    assert not [address for address in found.origins_in_first_step if address.slot == "output.0"]


def test_weights_that_are_gone_are_forgotten(monkeypatch):
    """A script that makes its weights anew in each step does not make the recorder grow."""
    monkeypatch.setattr(weights, "FORGET_FROM", 8)
    known = weights.Weights()
    kept = torch.ones(1)
    for number in range(100):
        tensor = torch.ones(1) if number else kept
        known.see(tensor)
        known.note(tensor, b"x")

    assert len(known) < 16
    assert not known.written(kept)
    assert known.changed(kept, b"y")


def test_gradients_are_counted_once(tmp_path):
    """Every hook set is called: with a checkpoint on the outputs that autograd reaches; two passes through a graph too.

    Without reentry these are the outputs made first, with it those made again.
    """
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    with recording(tmp_path / "run"):
        for reentrant in (False, True):
            x = torch.randn(3, 4, requires_grad=True)
            checkpoint(net, x, use_reentrant=reentrant).sum().backward()
        loss = net(x).sum()
        loss.backward(retain_graph=True)
        loss.backward()
    with Run(tmp_path / "run") as run:
        coverage = run.first.record.coverage

    assert coverage[HOOKS_SET] == coverage[HOOKS_CALLED] > 0


def test_nothing_is_recorded_again_where_nothing_was_written(tmp_path):
    """Micro-batches of one update add no rows of weights; the buffers that they move are those of their own passes."""
    with recording(tmp_path / "run"):
        accumulate()
    assert not [
        text for text in addresses(tmp_path / "run") if "/forward/" in text and text.endswith(("param", "buffer"))
    ]


def test_numbers_of_the_users_hooks_are_what_they_are_without_us(tmp_path):
    """A script can see them, and saves them with a whole module; both sorts of hooks are called."""
    seen, model = [], nn.Linear(4, 2)
    first = model.register_forward_hook(lambda *_: None)
    with recording(tmp_path / "run"):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        output = model(torch.randn(3, 4))
        second = output.register_hook(lambda gradient: seen.append(gradient.shape))
        output.sum().backward()
        optimizer.step()
        third = model.register_forward_hook(lambda *_: None)

    assert [handle.id - first.id for handle in (second, third)] == [1, 2]
    assert seen == [(3, 2)]
    assert "0/0/backward/model:#0:grad_output.0" in addresses(tmp_path / "run")
