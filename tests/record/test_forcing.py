"""Replaying a step in place: every call starts from the recorded tensors, so that only its own computation shows."""

from __future__ import annotations

import importlib

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from bisect_diverge.diff.replayed import DREW
from bisect_diverge.model.replay import LEFT_OVER, Part
from tests.record.replaying import Layer, differing, equal, nudge, reasons, replay_here


class Chain(nn.Module):
    """Three layers with code between them, and one that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = Layer("one"), Layer("two"), Layer("three")
        self.drop = nn.Dropout(0.5)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x, *, scale):
        """Return what the layers make of a tensor and a factor."""
        x = self.relu(self.one(x))
        y = nudge("between", self.drop(x) * scale)
        return self.three(y + self.two(self.two(y)))


def train(make, *, seeds=(0, 0, 0), rates=(0.1, 0.1, 0.1), steps=2):
    """Return a function that trains what `make` returns: recorded, replayed as it is, and replayed otherwise."""
    settings = zip(seeds, rates, strict=True)

    def run():
        seed, rate = next(settings)
        torch.manual_seed(seed)
        model = make()
        opt = torch.optim.AdamW(model.parameters(), lr=rate)
        for _ in range(steps):
            x = torch.randn(3, 4)
            output = model(x, scale=torch.tensor(2.0)) if isinstance(model, Chain) else model(x)
            opt.zero_grad()
            output.square().mean().backward()
            opt.step()

    return run


def folder(path):
    """Return a folder of its own for a second recording."""
    (path / "second").mkdir()
    return path / "second"


def test_each_call_that_computes_otherwise_is_listed_and_no_other(tmp_path):
    """Also those behind the first one, each call of a module that is called twice, and code between modules."""
    found = replay_here(train(Chain), tmp_path, "one", "two", "between", step=1)
    assert differing(found) == {"one#0": [""], "two#0": [""], "two#1": [""], "model#0": ["between drop and two"]}
    assert reasons(found) == {}
    assert equal(found, Part.MODULE) == 3  # three, relu, drop
    # The factor of a nudge is part of what it hands back.
    assert {name.partition("#")[0] for name in differing(found, Part.GRADIENT)} <= {"one", "two", "drop", "relu"} | {
        f"{layer}.{weight}" for layer in ("one", "two") for weight in ("weight", "bias")
    }
    assert differing(found, Part.UPDATE) == differing(found, Part.OUTSIDE) == {}
    assert equal(found, Part.UPDATE) == 6


def test_a_backward_that_computes_otherwise_is_told_by_the_gradient_it_hands_back(tmp_path):
    """Its own parameters and what lies before it get A's."""
    found = replay_here(train(Chain), tmp_path, "three'")
    assert differing(found) == {}
    assert differing(found, Part.GRADIENT) == {"two#1:grad_output.0": ["used by code between modules"]}
    found = replay_here(train(lambda: nn.Sequential(Layer("a"), Layer("b"))), folder(tmp_path), "b'", step=1)
    assert differing(found, Part.GRADIENT) == {"0#0:grad_output.0": ["used by 1"]}


def test_other_weights_other_batches_and_other_draws_do_not_count(tmp_path):
    """Everything is set to A's: what is left of another seed is that nothing computes otherwise."""
    found = replay_here(train(Chain, seeds=(0, 0, 7)), tmp_path, step=1)
    assert [own for own in found if own.moved] == []
    assert set(reasons(found).values()) == {DREW}
    assert {own.part for own in found if own.reason} == {Part.OUTSIDE}
    assert equal(found, Part.MODULE) == 7
    assert equal(found, Part.UPDATE) == 6


def test_another_learning_rate_shows_in_the_updates_alone(tmp_path):
    """Gradients are A's, and so is what the update begins with."""
    found = replay_here(train(Chain, rates=(0.1, 0.1, 0.2)), tmp_path, step=1)
    assert len(differing(found, Part.UPDATE)) == 6
    assert {own.part for own in found if own.moved} == {Part.UPDATE}


def test_a_generator_that_stands_elsewhere_is_set_before_each_call(tmp_path):
    """A module that draws once more moves nothing behind it."""

    class Draws(nn.Module):
        def forward(self, x):
            if nudge("draws", torch.ones(1)) > 1:
                torch.rand(1)
            return functional.dropout(x)

    found = replay_here(train(lambda: nn.Sequential(Layer("a"), Draws(), nn.Dropout(0.5))), tmp_path, "draws")
    assert differing(found) == {"1#0": ["", ""]}
    assert reasons(found) == {}


def test_buffers_that_move_inside_the_step(tmp_path):
    """The buffer is listed; a later call that works with it is not judged, an equal one is."""

    class Average(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))

        def forward(self, x):
            output = x - self.mean
            self.mean.mul_(0.5).add_(nudge("mean", x.detach().mean(0)))
            return output

    def run():
        torch.manual_seed(0)
        model = nn.Sequential(Layer("a"), nn.BatchNorm1d(4), Average())
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(2):
            model(torch.randn(3, 4)).square().mean().backward()
        optimizer.step()

    found = replay_here(run, tmp_path, "mean")
    assert differing(found) == {}
    assert differing(found, Part.BUFFER) == {"2.mean#0": [""]}
    assert {name: why for name, why in reasons(found).items() if "buffers had moved" in why}.keys() == {"2#0"}
    assert equal(found, Part.BUFFER) == 3


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_modules_are_replayed_when_they_are_made_again_too(tmp_path, reentrant):
    """Both the call and its recomputation are listed."""

    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.block = Layer("first"), nn.Sequential(Layer("a"), nn.Dropout(0.5), Layer("b"))

        def forward(self, x):
            return checkpoint(self.block, self.first(x), use_reentrant=reentrant)

    found = replay_here(train(Checkpointed), tmp_path, "a", step=1)
    listed = [(str(own.address.phase), own.address.fqn) for own in found if own.moved and own.part is Part.MODULE]
    assert listed == [("forward", "block.0"), ("recompute", "block.0")]
    assert reasons(found) == {}


def test_views_expanded_gradients_and_structures(tmp_path):
    """Tensors are set in their own memory, whatever their strides, wherever they are in what a module returns."""

    class Splits(nn.Module):
        def __init__(self):
            super().__init__()
            self.wide = Layer("wide", 4, 8)

        def forward(self, x):
            left, right = nudge("split", self.wide(x)).chunk(2, dim=-1)
            return {"left": left.t(), "right": [right, right.sum().expand(3, 4)]}

    class Sums(nn.Module):
        def forward(self, parts):
            return nudge("sums", parts["left"].t() + parts["right"][0] * parts["right"][1])

    def run():
        torch.manual_seed(0)
        model = nn.Sequential(Splits(), Sums(), nn.Identity())
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        model(torch.randn(3, 4)).sum().backward()
        optimizer.step()

    found = replay_here(run, tmp_path, "split", "sums")
    assert set(differing(found)) == {"0#0", "1#0"}
    assert reasons(found) == {}


def test_two_optimizers_and_gradients_that_are_left(tmp_path):
    """A step of one optimizer finds the other's parameters as A had them, and gradients that nobody zeroed."""

    def run():
        torch.manual_seed(0)
        one, two = Layer("one"), Layer("two")
        first, second = torch.optim.Adam(one.parameters()), torch.optim.SGD(two.parameters(), 0.1, momentum=0.9)
        for _ in range(2):
            for optimizer in (first, second):
                two(one(torch.randn(3, 4))).square().mean().backward()
                optimizer.step()

    found = replay_here(run, tmp_path, "one", step=3)
    assert differing(found) == {"one#0": [""]}
    assert reasons(found) == dict.fromkeys(("weight#0:grad", "bias#0:grad"), f"under A's own settings: {LEFT_OVER}")
    assert differing(found, Part.UPDATE) == {}


def test_a_weight_that_is_clipped_after_the_update(tmp_path):
    """The step begins with the clipped one."""

    def run():
        torch.manual_seed(0)
        model = nn.Sequential(Layer("a"), Layer("b"))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            model(torch.randn(3, 4)).square().mean().backward()
            optimizer.step()
            with torch.no_grad():
                model[0].weight.clamp_(-0.2, 0.2)

    found = replay_here(run, tmp_path, "b", step=2)
    assert differing(found) == {"1#0": [""]}
    assert reasons(found) == {}


def test_autocast_and_other_element_types(tmp_path):
    """bfloat16 is set bit by bit."""

    def run():
        torch.manual_seed(0)
        model = nn.Sequential(Layer("a"), nn.GELU(), Layer("b"))
        with torch.autocast("cpu", torch.bfloat16):
            output = model(torch.randn(3, 4))
        output.float().sum().backward()

    found = replay_here(run, tmp_path, "a")
    assert reasons(found) == {}
    assert differing(found) == {"0#0": [""]}


def test_what_cannot_be_set_is_said_and_never_listed_as_differing(tmp_path):
    """A number that a module is given, and tensors of which only digests were kept."""

    class Scaled(nn.Module):
        def forward(self, x, factor):
            return x * factor

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.scaled, self.b = Layer("a"), Scaled(), Layer("b")

        def forward(self, x):
            return self.b(self.scaled(self.a(x), float(nudge("number", torch.tensor(2.0)))))

    found = replay_here(train(Model), tmp_path, "number", "b")
    assert differing(found) == {"model#0": ["between a and scaled"], "b#0": [""]}
    assert reasons(found)["scaled#0"] == "input.1 of scaled: it is a number or a text, which cannot be set"
    assert {own.part for own in found if own.reason} == {Part.MODULE, Part.OUTSIDE, Part.GRADIENT}

    found = replay_here(train(Model), folder(tmp_path), "a", capture="digest")
    assert differing(found) == {"a#0": [""]}
    assert reasons(found)["scaled#0"] == "input.0 of scaled: A kept only its digest"


def test_tensors_of_an_accelerator_are_set_whether_they_differ_or_not(tmp_path, monkeypatch):
    """Their digests come later; what is set is what was recorded, and each call is still judged alone."""
    device = importlib.import_module("bisect_diverge.record.device")
    monkeypatch.setattr(device, "DEVICE_TYPES", frozenset({"cpu"}))  # takes tensors of the CPU for those of another
    found = replay_here(train(Chain), tmp_path, "one", "two", step=1, quiet=False)
    assert differing(found) == {"one#0": [""], "two#0": [""], "two#1": [""]}
    assert reasons(found) == {}
