"""What module calls do not cover is counted and named: functional code, uncalled modules, compiled regions."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it
from torch.utils.checkpoint import checkpoint

from bisect_diverge.model import coverage as names
from bisect_diverge.report.run_overview import run_overview
from bisect_diverge.report.run_text import run_text
from bisect_diverge.store.reader import Run
from tests.record.support import mlp, recording, same_with_us


class Block(nn.Module):
    """A layer, and functional code before, between and after its modules."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        """Three operations of its own: tanh, mul and add."""
        return self.second(self.first(x).tanh() * 2) + x


class Direct(nn.Module):
    """Uses layers in every way that calls no hook."""

    def __init__(self):
        super().__init__()
        self.called = nn.Linear(4, 4)
        self.by_forward = nn.Linear(4, 4)
        self.by_weight = nn.Linear(4, 4)
        self.unused = nn.Linear(4, 4)
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(4))])
        self.tied = nn.Linear(4, 4, bias=False)
        self.tied.weight = self.called.weight

    def forward(self, x):
        """Call one, bypass two."""
        x = self.by_forward.forward(self.called(x))
        return F.linear(x, self.by_weight.weight) * self.scales[0]


def counted(run):
    """Return coverage and notes of a run."""
    with Run(run) as opened:
        record = opened.first.record
        return {name: count for name, count in record.coverage.items() if "hooks" not in name}, list(record.notes)


def train(model, x, steps=2, loss=lambda out: out.sum()):
    """Train for some steps."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(steps):
        loss(model(x)).backward()
        optimizer.step()
    return dict(model.state_dict())


def test_operations_between_modules(tmp_path):
    """Operations are counted by where they are: in innermost modules, in a forward between modules, in the script."""
    same_with_us(lambda: train(nn.Sequential(Block(), Block()), torch.ones(2, 4)), tmp_path / "run")
    found, notes = counted(tmp_path / "run")
    assert found[names.DIRECTLY.format("Block")] == 6
    assert found[names.OUTSIDE] == 1  # sum
    # A linear layer is a transposition and a product, but for the first weight, whose input needs no gradient.
    assert found[names.OPERATIONS] - 7 == found[names.IN_LEAVES] == 8
    assert notes == []


def test_report(tmp_path):
    """`bd show` lists the counts below their sum, the largest first."""
    with recording(tmp_path / "run"):
        train(nn.Sequential(Block(), Block()), torch.ones(2, 4))
    with Run(tmp_path / "run") as run:
        lines = run_text(run_overview(run)).splitlines()
    at = lines.index("  coverage")
    assert lines[at + 2 : at + 6] == [
        "    differentiable operations of the first pass: 15",
        "      in modules that call no other: 8",
        "      directly in Block.forward: 6",
        "      outside of any module: 1",
    ]


def test_modules_that_are_not_called(tmp_path):
    """A module whose parameters are used without a call is named; unused, tied and list-like ones are not."""
    with recording(tmp_path / "run"):
        model = Direct()
        train(model, torch.ones(2, 4))
    found, notes = counted(tmp_path / "run")
    assert found[names.UNCALLED] == 2
    assert notes == [
        "no rows, since not called though their parameters are used: model:by_forward, model:by_weight",
    ]


def test_many_that_are_not_called(tmp_path):
    """Of many such modules some are named and the others counted."""

    class Many(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(8))

        def forward(self, x):
            for layer in self.layers:
                x = layer.forward(x)
            return x

    with recording(tmp_path / "run"):
        model = Many()
        train(model, torch.ones(2, 4))
    found, notes = counted(tmp_path / "run")
    assert found[names.UNCALLED] == 8
    assert notes[0].endswith("model:layers.4 and 3 more")


def test_attention(tmp_path):
    """Attention reads the weight of its output projection without calling it."""
    with recording(tmp_path / "run"):
        attention = nn.MultiheadAttention(4, 2)
        x = torch.ones(3, 1, 4)
        attention(x, x, x)[0].sum().backward()
    found, notes = counted(tmp_path / "run")
    assert found[names.UNCALLED] == 1
    assert notes[0].endswith(": attention:out_proj")


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_scripted_module(tmp_path):
    """A scripted module is one call; what runs inside of it is counted as inside of it."""
    with recording(tmp_path / "run"):
        model = nn.Sequential(torch.jit.script(mlp()))
        model(torch.ones(2, 4)).sum().backward()
    found, _ = counted(tmp_path / "run")
    assert found[names.OUTSIDE] == 1
    assert found[names.IN_LEAVES] == found[names.OPERATIONS] - 1


def test_only_the_first_loss_is_counted(tmp_path):
    """The count is made once, before the first backward, and nothing is left of it."""
    from bisect_diverge.record.install import current

    with recording(tmp_path / "run"):
        model = Block()
        assert current().census is not None
        train(model, torch.ones(2, 4), steps=1)
        assert current().census is None
        train(nn.Sequential(model, model), torch.ones(2, 4), steps=3)
    assert counted(tmp_path / "run")[0][names.DIRECTLY.format("Block")] == 3


def test_window_of_steps(tmp_path):
    """In a window it is the first loss of the window."""
    with recording(tmp_path / "run", steps=(1, 2)):
        model = Block()
        train(model, torch.ones(2, 4), steps=3)
    assert counted(tmp_path / "run")[0][names.DIRECTLY.format("Block")] == 3


def test_inference_is_not_counted(tmp_path):
    """A run without a loss has no count, and the wait for one ends soon."""
    from bisect_diverge.record.census import STEPS
    from bisect_diverge.record.install import current

    model = Block().eval()
    with recording(tmp_path / "run"), torch.no_grad():
        for _ in range(STEPS + 1):
            model(torch.ones(2, 4))
        assert current().census is None
    assert counted(tmp_path / "run") == ({}, [])


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed(reentrant, tmp_path):
    """A checkpointed block does not disturb the count."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.block, self.head = Block(), nn.Linear(4, 1)

        def forward(self, x):
            return self.head(checkpoint(self.block, x, use_reentrant=reentrant))

    same_with_us(lambda: train(Net(), torch.ones(2, 4, requires_grad=True)), tmp_path / "run")
    found, _ = counted(tmp_path / "run")
    inside = found.get(names.DIRECTLY.format("Block"), 0) + found.get(names.DIRECTLY.format("Net"), 0)
    assert inside == (1 if reentrant else 3)  # reentrant: one operation, which hides the block's own
    assert found[names.OUTSIDE] == 1


def test_error_in_forward(tmp_path):
    """After a forward that failed the operations of the next one are counted in the right places."""
    with recording(tmp_path / "run"):
        model = nn.Sequential(Block())
        with pytest.raises(RuntimeError):
            model(torch.ones(2, 9))
        train(model, torch.ones(2, 4))
    found, _ = counted(tmp_path / "run")
    assert found[names.DIRECTLY.format("Block")] == 3
    assert found[names.OUTSIDE] == 1


def test_several_threads(tmp_path):
    """Threads number their operations apart: that they were not counted is said."""
    model = Block()
    with recording(tmp_path / "run"):
        torch.optim.SGD(model.parameters())  # so that a forward is no step of its own
        threads = [threading.Thread(target=lambda: model(torch.ones(2, 4))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        model(torch.ones(2, 4)).sum().backward()
    assert counted(tmp_path / "run") == ({}, ["operations were not counted: modules were called in several threads"])


def test_large_graph(tmp_path, monkeypatch):
    """Of a graph beyond all measure a part is counted, and that is said."""
    from bisect_diverge.record import census

    monkeypatch.setattr(census, "MOST_NODES", 10)
    with recording(tmp_path / "run"):
        train(nn.Sequential(Block(), Block()), torch.ones(2, 4))
    found, notes = counted(tmp_path / "run")
    assert found[names.OPERATIONS] <= 10
    assert notes == ["of the operations of the first pass 10 were counted"]


def test_parameters_of_no_module(tmp_path, capfd):
    """That an optimizer updates parameters of which no forward was seen is said aloud, once."""
    criterion = nn.MSELoss()
    with recording(tmp_path / "run"):
        weight = nn.Parameter(torch.ones(4))
        opt = torch.optim.SGD([weight, nn.Parameter(torch.ones(4))], 0.1)
        for _ in range(2):
            criterion(weight * 2, torch.zeros(4)).backward()
            opt.step()
    found, notes = counted(tmp_path / "run")
    assert found[names.NO_MODULE] == 2
    assert notes == ["none of the 2 parameters of opt is in a module that was called"]
    assert capfd.readouterr().err.count(notes[0]) == 1
