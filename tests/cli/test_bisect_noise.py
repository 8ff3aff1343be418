"""``bd bisect`` of a script that does not repeat itself, and of one that behaves otherwise while it is recorded."""

import json
import sys

import pytest

from tests.helpers.command import bd

pytestmark = pytest.mark.slow

SCRIPT = """
import argparse

import torch
from torch import nn
from torch.nn.modules import module

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--hashes", action="store_true")
parser.add_argument("--shy", action="store_true")
args = parser.parse_args()
rate = args.lr
if args.hashes:
    rate += hash("a salt of every process") % 1000 / 1e6
if args.shy and not module._global_forward_hooks:
    rate = 0.1
torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=rate)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
"""


@pytest.fixture
def pair(tmp_path):
    """Record the script twice with a flag: at two rates."""
    (tmp_path / "train.py").write_text(SCRIPT)

    def record(flag):
        for name, rate in (("a", "0.1"), ("b", "0.2")):
            bd("record", "-o", name, "--", sys.executable, "train.py", flag, "--lr", rate, cwd=tmp_path)
        return tmp_path

    return record


def test_a_difference_that_recording_makes_is_not_explained(pair):
    """The script looks for hooks: unrecorded, A and B are the same. No cause is named."""
    done = bd("bisect", "a", "b", "--format", "json", cwd=pair("--shy"), status=3)
    found = json.loads(done.stdout)
    assert (found["verdict"], found["observer"], found["causes"]) == ("inconclusive", "creates", [])
    assert len(found["trials"]) == 2
    assert any(note.startswith("recording creates the effect") for note in found["notes"])


@pytest.mark.matrix
def test_noise_is_named_and_clamped(pair):
    """Hashes are salted: status 4 tells that a clamp removes it; with the clamp the cause is found."""
    folder = pair("--hashes")
    said = " ".join(bd("bisect", "a", "b", cwd=folder, status=4).stdout.split())
    assert said.startswith("the baseline does not repeat itself")
    assert "with every clamp it repeats itself" in said
    assert "with one thread alone it does not" in said
    assert "A (clamped: one thread)" in said
    assert "bd bisect A B --clamp" in said
    said = " ".join(bd("bisect", "a", "b", "--clamp", "--no-observer-check", cwd=folder).stdout.split())
    assert "cause: configuration argv.--lr: 0.1 -> 0.2" in said
    assert "clamped in every trial: one thread, deterministic algorithms, PYTHONHASHSEED=0" in said
    assert "bd bisect a b --clamp --fresh" in said
