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
    assert "with PYTHONHASHSEED=0 alone it repeats itself too" in said
    assert "or the same command with --clamp or --confidence 95" in said
    said = " ".join(bd("bisect", "a", "b", "--clamp", "--no-observer-check", cwd=folder).stdout.split())
    assert "cause: configuration argv.--lr: 0.1 -> 0.2" in said
    assert "clamped in every trial: one thread, deterministic algorithms, PYTHONHASHSEED=0" in said
    assert "bd bisect a b --clamp --fresh" in said


NOISY = """
import argparse
import time

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--shrink", type=float, default=0.0)
parser.add_argument("--empty", action="store_true")
parser.add_argument("--clock", action="store_true")
args = parser.parse_args()
torch.manual_seed(time.time_ns() % 1000 if args.clock else 0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for _ in range(3):
    inputs = torch.ones(1, 4)
    if args.empty:
        inputs += torch.empty(40).nan_to_num(0, 1, -1).clamp(-1, 1).view(10, 4)[5:].mean(0)
    if not args.clock:
        inputs += 1e-4 * (time.perf_counter_ns() % 1000) * (not args.empty)
    loss = model(inputs).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 - args.shrink)
"""


@pytest.fixture
def noisy(tmp_path):
    """Return a function that records a script without repeatable bits: as it is, and with parameters that shrink."""
    (tmp_path / "train.py").write_text(NOISY)

    def record(*flags, **variables):
        bd("record", "-o", "a", "--", sys.executable, "train.py", *flags, cwd=tmp_path)
        words = (*flags, "--shrink", "0.3")
        bd("record", "-o", "b", "--", sys.executable, "train.py", *words, cwd=tmp_path, **variables)
        return tmp_path

    return record


@pytest.mark.matrix
def test_a_likely_cause_is_told_where_nothing_repeats_itself(noisy):
    """A clock is in every record: samples tell the flag from a decoy, and no clamp is tried. The journal is used."""
    folder = noisy(MKL_DEBUG_CPU_TYPE="5")
    words = ("bisect", "a", "b", "--confidence", "95", "--format", "json")
    partial = json.loads(bd(*words, "--max-trials", "9", cwd=folder, status=3).stdout)
    assert (partial["verdict"], partial["finished"]) == ("inconclusive", False)
    found = json.loads(bd(*words, cwd=folder, status=3).stdout)
    assert found["verdict"] == "likely"
    (cause,) = found["causes"]
    assert [unit["knob"] for unit in cause["units"]] == ["argv.--shrink"]
    assert found["innocent"] == []
    assert found["sampling"]["confidence"] >= 0.95
    assert not any(trial["clamps"] for trial in found["trials"])
    assert sum(trial["reused"] for trial in found["trials"]) >= 7
    said = " ".join(bd(*words[:-2], cwd=folder, status=3).stdout.split())
    assert said.startswith("likely cause, not proved: configuration argv.--shrink: (not set) -> 0.3; confidence 9")


@pytest.mark.matrix
def test_unwritten_memory_is_named_with_the_trials_that_show_it(noisy):
    """`torch.empty` is read: deterministic algorithms hide it, and filled memory shows it and where."""
    found = json.loads(bd("bisect", "a", "b", "--format", "json", cwd=noisy("--empty"), status=4).stdout)
    notes = " ".join(found["notes"])
    assert "with deterministic algorithms alone it repeats itself too" in notes
    assert "it reads memory that nobody has written: its bits follow what memory is filled with" in notes
    assert "first seen at r0/0/0/forward/model:#0:input.0" in notes
    assert found["remedies"][0] == "--clamp"


@pytest.mark.matrix
def test_seeds_that_move_are_held_with_clamps_too(noisy):
    """The clock is a seed: held from the first run with clamps on; without clamps it is part of what makes B."""
    folder = noisy("--clock")
    for more, knobs in (((), {"argv.--shrink", "torch.manual_seed"}), (("--clamp",), {"argv.--shrink"})):
        found = json.loads(bd("bisect", "a", "b", "--format", "json", *more, cwd=folder).stdout)
        assert found["verdict"] == "cause"
        assert {u["knob"] for c in found["causes"] for u in c["units"]} == knobs
        assert ("kind" in found["first"]) == (not more), "with clamps it is another divergence than the recorded one"
        assert any("held at A's in every trial unless swapped: torch.manual_seed" in note for note in found["notes"])
