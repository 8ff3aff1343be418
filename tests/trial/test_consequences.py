"""What a cause sets: reported under it, and never as a second cause; what a script sets itself is overridden."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.helpers.command import bd

SCRIPT = Path(__file__).with_name("consequences.py")
needs_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core: every number of threads is one")

RANKS = """
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + dist.get_rank())
for _ in range(2):
    loss = model(torch.randn(4, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with the script and its file."""
    shutil.copy(SCRIPT, tmp_path / "train.py")
    configure(tmp_path, 0)
    return tmp_path


def configure(folder, workers):
    """Write the configuration file."""
    (folder / "conf.json").write_text(json.dumps({"workers": workers}))


def record(folder, name, *flags, options=(), **variables):
    """Record the script."""
    bd("record", "-o", name, *options, "--", sys.executable, "train.py", *flags, cwd=folder, **variables)


def explained(folder):
    """Return the units of the one cause, the values that moved with them, and the first line of the text."""
    words = ("bisect", "a", "b", "--no-observer-check")
    found = json.loads(bd(*words, "--format", "json", cwd=folder).stdout)
    assert found["verdict"] == "cause", found
    (cause,) = found["causes"]
    assert (cause["sufficient"], cause["necessary"]) == (True, True)
    units = [f"{u['layer']}.{u['knob']}: {u['a']} -> {u['b']}" for u in cause["units"]]
    moved = {f"{d['layer']}.{d['knob']}": (d["a"], d["b"]) for d in cause["consequences"]}
    verdict = " ".join(bd(*words, cwd=folder).stdout.partition("A with only")[0].split())
    return units, moved, verdict


@pytest.mark.slow
def test_a_call_of_the_script_that_is_overridden_is_named(folder):
    """In the text of a trial, and in its JSON; the call happens all the same."""
    record(folder, "a", "--deterministic")
    words = ("trial", "a", "--set", "kernels.deterministic=False")
    text = " ".join(bd(*words, cwd=folder).stdout.split())
    assert "overridden kernels.deterministic was held at False; the script asked for True" in text
    (note,) = json.loads(bd(*words, "--format", "json", cwd=folder).stdout)["overridden"]  # from the journal
    assert note.startswith("kernels.deterministic was held at False")


@pytest.mark.matrix
@needs_cores
def test_a_flag_that_sets_the_threads(folder):
    """The flag is the cause; torch's threads are named, MKL's and OpenMP's are below."""
    record(folder, "a")
    record(folder, "b", "--threads", "1")
    units, moved, verdict = explained(folder)
    assert units == ["configuration.argv.--threads: None -> 1"]
    assert {"hardware.threads.intra_op", "hardware.threads.mkl"} <= set(moved)
    assert ", which sets hardware threads.intra_op: " in verdict


@pytest.mark.matrix
def test_a_flag_that_sets_the_element_type(folder):
    """The default type, and with it the model's."""
    record(folder, "a")
    record(folder, "b", "--dtype", "float64")
    units, moved, verdict = explained(folder)
    assert units == ["configuration.argv.--dtype: None -> float64"]
    assert moved["kernels.model.model.dtype"] == ("torch.float32", "torch.float64")
    assert "which sets kernels default_dtype: torch.float32 -> torch.float64" in verdict


@pytest.mark.matrix
def test_a_key_that_sets_the_workers(folder):
    """The key of the file is the cause, and the loader's workers are what it sets."""
    record(folder, "a")
    configure(folder, 2)
    record(folder, "b")
    units, moved, verdict = explained(folder)
    assert units == ["configuration.file:conf.json:workers: 0 -> 2"]
    assert any(name.endswith(".num_workers") for name in moved)
    assert "num_workers: 0 -> 2" in verdict


@pytest.mark.matrix
def test_a_variable_that_sets_the_seed(folder):
    """The variable is the cause, and the setter that gets the seed is no second one."""
    record(folder, "a", options=("--env", "RUN_SEED"), RUN_SEED="0")
    record(folder, "b", options=("--env", "RUN_SEED"), RUN_SEED="1")
    units, _, _ = explained(folder)
    assert units == ["configuration.RUN_SEED: 0 -> 1"]


@pytest.mark.matrix
def test_a_package_that_sets_a_knob_when_it_is_imported(folder):
    """The package is the cause; oneDNN, which it switches off, moves with it."""
    for version, enabled in (("1.0", True), ("2.0", False)):
        place = folder / version
        (place / f"kit-{version}.dist-info").mkdir(parents=True)
        (place / f"kit-{version}.dist-info" / "METADATA").write_text(f"Name: kit\nVersion: {version}\n")
        (place / "kit.py").write_text(f"import torch\ntorch.backends.mkldnn.enabled = {enabled}\n")
        (place / f"kit-{version}.dist-info" / "RECORD").write_text(f"kit.py,,\nkit-{version}.dist-info/RECORD,,\n")
    record(folder, "a", PYTHONPATH=str(folder / "1.0"))
    record(folder, "b", PYTHONPATH=str(folder / "2.0"))
    units, moved, verdict = explained(folder)
    assert units == ["dependencies.kit: 1.0 -> 2.0"]
    assert moved["kernels.mkldnn.enabled"] == ("True", "False")
    assert "which sets kernels mkldnn.enabled: True -> False" in verdict


@pytest.mark.matrix
def test_a_flag_that_lays_out_the_model(folder):
    """The flag is the cause; and the layout alone, set from outside, has the same bits."""
    record(folder, "a")
    record(folder, "b", "--channels-last")
    units, _, verdict = explained(folder)
    assert units == ["configuration.argv.--channels-last: None -> set"]
    assert "which sets kernels model.model.layout: contiguous -> channels_last" in verdict
    done = bd("trial", "a", "--set", "kernels.model.model.layout=channels_last", "--b", "b", cwd=folder)
    assert done.stdout.startswith("B's bits")


@pytest.mark.matrix
def test_more_ranks_are_the_launchers_option(folder):
    """The world, and the one thread that torchrun gives each rank, move with it, there and back."""
    (folder / "train.py").write_text(RANKS)
    for name, number in (("a", "1"), ("b", "2")):
        launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", number)
        bd("record", "-o", name, "--", *launcher, "train.py", cwd=folder)
    units, moved, verdict = explained(folder)
    assert units == ["configuration.launcher.--nproc-per-node: 1 -> 2"]
    assert moved["hardware.WORLD_SIZE"] == ("1", "2")
    assert moved["hardware.OMP_NUM_THREADS"] == (None, "1")
    assert "hardware WORLD_SIZE: 1 -> 2" in verdict
    words = ("trial", "b", "--set", "configuration.launcher.--nproc-per-node=1", "--b", "a")
    assert bd(*words, cwd=folder).stdout.startswith("B's bits")
    environment = bd("env", "a", "b", cwd=folder, status=1).stdout
    assert "launcher.--nproc-per-node: 1 -> 2\n      LOCAL_WORLD_SIZE: 1 -> 2\n" in environment
