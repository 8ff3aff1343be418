"""Everything that autograd lets a script do: the rows that it gives, and that its bits stay what they are."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from bisect_diverge.model.record import Flag
from bisect_diverge.store.reader import Run
from tests.record.support import addresses, everything, grads, mlp, recording, rows, same_with_us, value_of


def of_phase(run, phase):
    """Return FQN, call and slot of the rows of a phase, in order."""
    return [text.partition(f"/{phase}/")[2] for text in addresses(run) if f"/{phase}/" in text]


class Calls(nn.Module):
    """Calls a function with its two layers and an input."""

    def __init__(self, function):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.function = function

    def forward(self, x):
        """Leave it to the function."""
        return self.function(self.a, self.b, x)


# -- gradients that no backward() makes -----------------------------------------------------------------------------


def test_gradients_asked_for(tmp_path):
    """`torch.autograd.grad` gives the gradients of outputs as `backward` does, and makes no loss and no step."""
    model = Calls(lambda a, b, x: b(a(x).tanh()))

    def train():
        return torch.autograd.grad(model(torch.ones(2, 4)).sum(), list(model.parameters()))

    same_with_us(train, tmp_path / "run")
    assert of_phase(tmp_path / "run", "backward") == [
        "model:b#0:grad_output.0",
        "model:#0:grad_output.0",
        "model:a#0:grad_output.0",
    ]
    assert not [text for text in addresses(tmp_path / "run") if "loss" in text]


def test_double_backward(tmp_path):
    """A gradient of a gradient arrives a second time at the same address, beside the one that it is taken of."""

    def train():
        model = Calls(lambda a, b, x: b(a(x).tanh()))
        x = torch.ones(2, 4, requires_grad=True)
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        slope.square().sum().backward()
        return grads(model)

    same_with_us(train, tmp_path / "run")
    found = of_phase(tmp_path / "run", "backward")
    assert found.count("model:a#0:grad_output.0") == 2
    assert found.count("model:b#0:grad_output.0") == 1  # the second pass does not go through the last layer's output
    assert "0/0/forward/model:loss#0:value" in rows(tmp_path / "run")


def test_retained_graph(tmp_path):
    """Two backward passes through one graph are two losses and two rows for each gradient."""

    def train():
        model = mlp()
        out = model(torch.ones(2, 4)).sum()
        out.backward(retain_graph=True)
        (3 * out).backward()
        return grads(model)

    same_with_us(train, tmp_path / "run")
    found = addresses(tmp_path / "run")
    assert [text for text in found if "loss" in text] == [f"0/0/forward/model:loss#{n}:value" for n in range(2)]
    assert of_phase(tmp_path / "run", "backward").count("model:0#0:grad_output.0") == 2


def test_several_roots_of_one_backward(tmp_path):
    """What `torch.autograd.backward` starts from are values of one loss, numbered."""
    model = mlp()
    with recording(tmp_path / "run"):
        out = model(torch.ones(1, 4))
        torch.autograd.backward([out[0, 0], out[0, 1]])
    found = [text for text in addresses(tmp_path / "run") if "loss" in text]
    assert found == [f"0/0/forward/model:loss#0:value.{n}" for n in range(2)]


def test_gradients_that_are_absent_and_zero(tmp_path):
    """A gradient that is None and one of zeros are rows of different types; an update leaves the first one's alone."""
    with recording(tmp_path / "run"):
        model = nn.ModuleList([nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)])
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        (model[0](torch.ones(1, 2)) * 0).sum().backward()
        optimizer.step()
    found = rows(tmp_path / "run")
    zero, absent = (
        next(record for text, record in found.items() if text.endswith(f"{name}#0:grad"))
        for name in ("weight", "group0.1")
    )
    assert (zero.dtype, absent.dtype) == ("float32", "none")
    assert zero.digest != absent.digest


# -- functions, views and in-place operations -----------------------------------------------------------------------


class Scaled(torch.autograd.Function):
    """Doubles forward, triples backward; writes its input in place."""

    @staticmethod
    def forward(ctx, x):
        """Double in place."""
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, gradient):
        """Triple."""
        return gradient * 3


def test_custom_function(tmp_path):
    """A custom Function that writes in place keeps its own backward, and the row shows what was before it."""
    model = Calls(lambda a, b, x: b(Scaled.apply(a(x))))

    def train():
        model.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        return grads(model)

    same_with_us(train, tmp_path / "run")
    before, after = (
        value_of(tmp_path / "run", f"0/0/forward/model:{slot}") for slot in ("a#0:output.0", "b#0:input.0")
    )
    assert (2 * before == after).all()
    # The hook sits on the tensor as it was returned, before it was written.
    gradient = value_of(tmp_path / "run", "0/0/backward/model:a#0:grad_output.0")
    assert (gradient == 3 * model.b.weight.detach().sum(0).numpy()).all()


def test_one_tensor_two_gradients(tmp_path):
    """An output that an in-place activation overwrites has one gradient as the layer's, another as the activation's."""
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True))
    with torch.no_grad():
        model[0].weight.copy_(torch.eye(3))
        model[0].bias.copy_(torch.tensor([1.0, -1.0, -1.0]))

    def train():
        model.zero_grad()
        model(torch.zeros(1, 3)).sum().backward()
        return grads(model)

    same_with_us(train, tmp_path / "run")
    of_layer, of_activation = (
        value_of(tmp_path / "run", f"0/0/backward/model:{number}#0:grad_output.0").ravel().tolist() for number in (0, 1)
    )
    assert (of_layer, of_activation) == ([1, 0, 0], [1, 1, 1])


def test_view_that_is_written_later(tmp_path):
    """A gradient that never arrives, since the output was a view whose base was written, is counted."""
    model = nn.Unflatten(1, (2, 2))

    def train():
        x = (torch.ones(1, 4, requires_grad=True) * 1).clone()
        y = model(x)
        x.mul_(2)
        y.sum().backward()

    same_with_us(train, tmp_path / "run")
    with Run(tmp_path / "run") as run:
        coverage = run.first.record.coverage
    assert coverage["gradient hooks set"] == 1
    assert "gradient hooks called" not in coverage
    assert of_phase(tmp_path / "run", "backward") == []


def test_gradient_of_a_view(tmp_path):
    """A module that returns a part of its input has a gradient of its own, of the part's shape."""
    model = Calls(lambda a, b, x: b(nn.Identity()(a(x)[:1])))
    with recording(tmp_path / "run"):
        model(torch.ones(3, 4)).sum().backward()
    assert value_of(tmp_path / "run", "0/0/backward/model:a#0:grad_output.0").shape == (3, 4)
    assert value_of(tmp_path / "run", "0/0/backward/model:b#0:grad_output.0").shape == (1, 4)


def times_seven(parameter):
    """Write a gradient in place."""
    parameter.grad.mul_(7)


def test_hooks_of_the_script_on_gradients(tmp_path):
    """A tensor hook of the script's that replaces a gradient, and a backward hook on a module, work as without us."""

    def train():
        model = mlp()
        model[0].register_full_backward_hook(lambda module, gi, go: (gi[0] * 2,) if gi[0] is not None else None)
        model[2].weight.register_hook(lambda gradient: gradient * 5)
        model[0].weight.register_post_accumulate_grad_hook(times_seven)
        out = model[1](model[0](torch.ones(2, 4, requires_grad=True)))
        out.register_hook(lambda gradient: gradient * 3)
        model[2](out).sum().backward()
        return grads(model)

    same_with_us(train, tmp_path / "run")


# -- activation checkpointing ---------------------------------------------------------------------------------------


class Checkpointed(nn.Module):
    """A checkpointed block, twice, and a head."""

    def __init__(self, reentrant, *, nested=False):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.head = nn.Linear(4, 1)
        self.reentrant = reentrant
        self.nested = nested

    def forward(self, x):
        """Keep nothing of the blocks for backward."""
        run = self.inner if self.nested else self.block
        for _ in range(2):
            x = checkpoint(run, x, use_reentrant=self.reentrant)
        return self.head(x)

    def inner(self, x):
        """Checkpoint inside a checkpoint."""
        return checkpoint(self.block, x, use_reentrant=self.reentrant)


def pass_through(model):
    """Train for two steps; return the model's tensors."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(2, 4, requires_grad=True)).sum().backward()
        optimizer.step()
    return everything(model)


@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
@pytest.mark.parametrize("reentrant", [False, True], ids=["non-reentrant", "reentrant"])
def test_checkpointing(reentrant, nested, tmp_path):
    """What is run again is `recompute` with the numbers of the first run, and nothing after it is out of place."""

    def train():
        torch.manual_seed(1)
        return pass_through(Checkpointed(reentrant, nested=nested))

    same_with_us(train, tmp_path / "run")
    with Run(tmp_path / "run") as run:
        file = run.first
        again = {
            str(file.address(row)).split("/recompute/")[1].split("#")[1][0]
            for row in range(len(file.events))
            if "/recompute/" in str(file.address(row))
        }
        marked = (file.events["flags"] & Flag.RECOMPUTE).nonzero()[0]
        flagged = {str(file.address(row).phase) for row in marked.tolist()}
    assert again == {"0", "1"}
    assert flagged == {"recompute"}
    found = addresses(tmp_path / "run")
    calls = [text for text in found if "/forward/" in text and ":block.0#" in text and text.endswith("output.0")]
    assert calls == [f"{step}/0/forward/model:block.0#{call}:output.0" for step in range(2) for call in range(2)]
    by_digest = rows(tmp_path / "run")
    for text in found:
        if "/recompute/" in text:
            first = by_digest[text.replace("/recompute/", "/forward/")]
            assert by_digest[text].digest == first.digest, text


def test_gradients_under_reentrant_checkpointing(tmp_path):
    """The first run of a reentrant checkpoint has no gradients; those of the second run come at the first's address."""
    with recording(tmp_path / "run"):
        model = Checkpointed(True)
        pass_through(model)
    flags = {text: record.flags for text, record in rows(tmp_path / "run").items()}
    assert not flags["0/0/forward/model:block.0#0:output.0"] & Flag.REQUIRES_GRAD
    assert flags["0/0/recompute/model:block.0#0:output.0"] & Flag.REQUIRES_GRAD
    assert "model:block#0:grad_output.0" in of_phase(tmp_path / "run", "backward")


def test_checkpoint_wrapper_is_looked_through(tmp_path):
    """Torch's wrapper class for checkpointing leaves no trace in the names."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    model = nn.Sequential(checkpoint_wrapper(nn.Linear(4, 4)), nn.Linear(4, 1))
    with recording(tmp_path / "run"):
        model(torch.ones(2, 4)).sum().backward()
    found = addresses(tmp_path / "run", without=())
    assert not [text for text in found if "wrapped" in text]
    assert found.count("0/0/forward/model:0#0:output.0") == 1
    assert "0/-/init/model:0.weight#0:param" in found


def test_fast_path_of_a_transformer(tmp_path):
    """In evaluation a transformer layer takes its fast path, calling no module: the rows show which path ran."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    inside = {}
    for name in ("fast", "hooked"):
        if name == "hooked":
            layer.linear1.register_forward_hook(lambda *_: None)
        with recording(tmp_path / name), torch.no_grad():
            layer(torch.ones(1, 3, 8))
        inside[name] = {text.partition("layer:")[2].partition("#")[0] for text in addresses(tmp_path / name)}
    assert inside["fast"] == {""}
    assert "linear1" in inside["hooked"]
