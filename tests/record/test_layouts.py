"""Weights that a trial lays out otherwise, as ``model.to(memory_format=...)`` would."""

import pytest
import torch
from torch import nn

from bisect_diverge.record.layouts import hold_layouts
from bisect_diverge.record.patches import Patches


class Owner:
    """Whoever holds settings."""

    def __init__(self):
        self.notes = []
        self.before_pass = None


@pytest.fixture
def patches():
    """Patches that are taken back."""
    made = Patches()
    yield made
    made.undo()


def net():
    """Return a small convolutional net, the same each time."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.Flatten(), nn.Linear(8 * 16, 4))


def trained(model, forward):
    """Return the parameters after two steps, and which objects the optimizer held."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    before = list(map(id, model.parameters()))
    torch.manual_seed(1)
    for _ in range(2):
        optimizer.zero_grad()
        forward(torch.randn(4, 3, 8, 8)).square().mean().backward()
        optimizer.step()
    assert list(map(id, model.parameters())) == before
    return [p.detach().clone() for p in model.parameters()]


def test_bits_are_those_of_a_model_that_was_converted(patches):
    """Also where an optimizer holds the parameters already; other models stay as they are."""
    model = net().to(memory_format=torch.channels_last)
    wanted = trained(model, model)
    owner = Owner()
    hold_layouts({"kernels.model.model.layout": "channels_last"}, owner, patches)
    model, other = net(), net()
    found = trained(model, model)
    assert all(map(torch.equal, wanted, found))
    assert model[2].weight.is_contiguous(memory_format=torch.channels_last)
    assert len(owner.notes) == 1
    assert owner.notes[0].startswith("layout of model was held at channels_last")
    other(torch.randn(1, 3, 8, 8))
    assert other[2].weight.is_contiguous()


def test_the_way_back(patches):
    """A model that the script converted is laid out in the usual order; what is so already is left alone."""
    owner = Owner()
    hold_layouts({"kernels.model.model.layout": "contiguous"}, owner, patches)
    model = net().to(memory_format=torch.channels_last)
    model(torch.randn(1, 3, 8, 8))
    assert model[0].weight.is_contiguous()
    model(torch.randn(1, 3, 8, 8))
    assert len(owner.notes) == 1


def test_a_mixture_is_not_made(patches):
    """There is no such order: nothing is changed, and the trial finds the knob inert."""
    owner = Owner()
    hold_layouts({"kernels.model.model.layout": "channels_last and contiguous"}, owner, patches)
    model = net()
    model(torch.randn(1, 3, 8, 8))
    assert model[0].weight.is_contiguous()
    assert owner.notes == []
