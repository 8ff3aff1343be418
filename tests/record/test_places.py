"""Two recordings of one model, of which the second does one thing more: the comparison names the place."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import nn

from bisect_diverge.diff.compare import compare
from bisect_diverge.store.reader import Run
from tests.record.support import recording, seed_all

CHANGED_STEP = 2
NUDGE = 1 + 2**-20


class Block(nn.Module):
    """Two layers and dropout, with functional code between them; does one thing more when it is told to."""

    def __init__(self):
        super().__init__()
        self.attn, self.mlp, self.drop = nn.Linear(8, 8), nn.Linear(8, 8), nn.Dropout(0.5)
        self.extra = ""

    def forward(self, x):
        """Draw, or scale, between attn and mlp where that is asked for."""
        h = self.attn(x)
        if self.extra == "draw":
            torch.rand(1)
        if self.extra == "scale":
            h = h * NUDGE
        return self.drop(self.mlp(h + x))


class Net(nn.Module):
    """Two blocks and a head."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = Block(), Block(), nn.Linear(8, 2)
        self.extra = ""

    def forward(self, x):
        """Scale between the blocks, or behind the head, where that is asked for."""
        x = self.a(x)
        if self.extra == "between":
            x = x * NUDGE
        out = self.head(self.b(x))
        return out * NUDGE if self.extra == "behind" else out


def before_step(extra):
    """Do one thing more in the script itself."""
    if extra == "script draws":
        torch.rand(1)
    if extra == "numpy draws":
        np.random.rand()
    if extra == "python draws":
        random.random()


def train(extra=""):
    """Train for four steps; do one thing more in one of them."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in range(4):
        net.extra = net.a.extra = extra if step == CHANGED_STEP else ""
        before_step(net.extra)
        random.random()
        np.random.rand()
        optimizer.zero_grad()
        net(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()


@pytest.fixture(scope="module")
def baseline(tmp_path_factory):
    """Return a recording in which nothing more is done."""
    path = tmp_path_factory.mktemp("baseline") / "run"
    seed_all()
    with recording(path):
        train()
    return path


def compared(baseline, extra, folder):
    """Return the divergence of a run that does one thing more."""
    seed_all()
    with recording(folder / "run"):
        train(extra)
    return compare(Run(baseline), Run(folder / "run")).divergence


def line_of(text):
    """Return the number of the first line of this file with some text."""
    with open(__file__, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


def test_nothing_more(baseline, tmp_path):
    """The same run again has equal rows throughout."""
    assert compared(baseline, "", tmp_path).first is None


def test_draw_between_two_modules(baseline, tmp_path):
    """One draw more between two modules is placed there, before the dropout that it changes."""
    first = compared(baseline, "draw", tmp_path).first
    assert str(first.address) == "r0/2/0/rng/net:a#0:torch.cpu"
    assert first.module_type == "Block"
    assert first.site.endswith(f":{line_of('return self.drop(self.mlp(h + x))')}")
    with Run(tmp_path / "run") as run:
        at = run.first.rows_at(first.address)[0]
        around = [str(run.first.address(row)) for row in (at - 1, at + 1)]
    assert around == ["r0/2/0/forward/net:a.attn#0:output.0", "r0/2/0/forward/net:a.mlp#0:input.0"]


@pytest.mark.parametrize(
    ("extra", "address"),
    [
        ("script draws", "r0/2/0/rng/net:#0:torch.cpu"),
        ("numpy draws", "r0/2/-/rng/-:#0:numpy"),
        ("python draws", "r0/2/-/rng/-:#0:python"),
    ],
)
def test_draw_of_the_script(extra, address, baseline, tmp_path):
    """One draw more in the script is placed at the pass, or for numpy and Python at the step, that follows it."""
    divergence = compared(baseline, extra, tmp_path)
    assert (str(divergence.first.address), divergence.kind) == (address, "rng")
    assert divergence.is_origin


@pytest.mark.parametrize(
    ("extra", "address", "line"),
    [
        ("scale", "r0/2/0/forward/net:a.mlp#0:input.0", "return self.drop(self.mlp(h + x))"),
        ("between", "r0/2/0/forward/net:b#0:input.0", "out = self.head(self.b(x))"),
        ("behind", "r0/2/0/forward/net:#0:output.0", "net(torch.randn(4, 8)).square().mean()"),
    ],
)
def test_functional_code(extra, address, line, baseline, tmp_path):
    """What functional code changes is placed at the next module's input, or at the output, with the call's line."""
    divergence = compared(baseline, extra, tmp_path)
    assert (str(divergence.first.address), divergence.kind, divergence.is_origin) == (address, "computation", True)
    assert divergence.first.site.endswith(f":{line_of(line)}")


def test_windows_begin_with_the_weights(baseline, tmp_path):
    """A window whose weights differ says so and blames no module; equal windows, and a whole run, are equal."""
    runs = {"a": ("", (3, 4)), "same": ("", (3, 4)), "b": ("scale", (3, 4))}
    for name, (extra, steps) in runs.items():
        seed_all()
        with recording(tmp_path / name, steps=steps):
            train(extra)
    divergence = compare(Run(tmp_path / "a"), Run(tmp_path / "b")).divergence
    assert str(divergence.first.address) == "r0/3/-/init/net:a.attn.weight#0:param"
    assert (divergence.kind, divergence.is_origin) == ("initialization", None)
    assert compare(Run(tmp_path / "a"), Run(tmp_path / "same")).divergence.first is None
    for pair in ((baseline, tmp_path / "a"), (tmp_path / "a", baseline)):
        divergence = compare(*map(Run, pair)).divergence
        assert (divergence.first, divergence.verdict) == (None, "equal-so-far")
