"""``bd neutral`` in real processes."""

from __future__ import annotations

import json
import re
import sys
import textwrap

import pytest

from bisect_diverge.model.neutrality import Finding, Neutral, Neutrality
from bisect_diverge.report.neutral_text import neutral_text
from bisect_diverge.trial.neutral import compare
from bisect_diverge.trial.observe import observe
from tests.helpers.command import REPOSITORY, bd

SCRIPT = """
import os, sys, time
import torch

def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.1))
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.randn(5, 4)).square().mean()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item()}")
    os.makedirs("out", exist_ok=True)
    torch.save(model.state_dict(), "out/model.pt")

main()
"""


@pytest.mark.slow
def test_a_script_that_recording_does_not_change(tmp_path):
    """Everything is compared, nothing of the user's is written, and two runs are enough; status 0."""
    (tmp_path / "train.py").write_text(SCRIPT + "sys.exit(4)")
    before = sorted(tmp_path.rglob("*"))
    done = bd("neutral", "--format", "json", "--", sys.executable, "train.py", cwd=tmp_path)
    found = json.loads(done.stdout)
    items = {item["name"]: item for item in found["items"]}
    assert found["verdict"] == "neutral"
    assert [run["capture"] for run in found["runs"]] == [None, "digest"]
    assert [name for name, item in items.items() if item["finding"] == "not compared"] == [
        "standard error",
        "graph breaks",
    ]
    equal = {name: item["equal"] for name, item in items.items() if item["finding"] == "equal"}
    assert equal["losses"] == equal["standard output"] == 3
    assert equal["parameters"] == 4
    assert equal["optimizer state"] == 12
    assert equal["buffers"] == 3
    assert equal["generators"] == 3
    assert equal["files written"] == 1
    assert {"exit status", "updates", "process state"} <= equal.keys()
    assert sorted(tmp_path.rglob("*")) == before
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_script_that_recording_changes(tmp_path):
    """A script that looks for us is caught, part by part by its name; what never repeats itself is no change."""
    text = """
        watched = "bisect_diverge.record.recorder" in sys.modules
        head = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(head.parameters(), 0.1)
        (head(torch.ones(1, 2)).sum() * (2 if watched else 1)).backward()
        optimizer.step()
        print(time.perf_counter())
        if watched:
            print("somebody is looking")
        open("log.txt", "w").write(str(time.time()))
        """
    (tmp_path / "train.py").write_text(SCRIPT + textwrap.dedent(text))
    done = bd("neutral", "--", sys.executable, "train.py", cwd=tmp_path, status=1)
    lines = done.stdout.splitlines()
    assert lines[0] == "recording changes this run: standard output, losses, parameters"
    assert "      optimizer_1:weight" in lines or "      optimizer_1:head.weight" in lines
    assert "  equal                   optimizer state   12" in lines
    assert any("somebody is looking" in line for line in lines)
    assert re.search(r"differs between two unrecorded runs:[^:]*log\.txt", " ".join(done.stdout.split()))
    assert not (tmp_path / "log.txt").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument"),
        (["--", "no-such-program"], "command not found: no-such-program"),
        (["--keep", "much", "--", "true"], "not a size"),
        (["--", "true"], "nothing was recorded: no process called a torch module"),
    ],
)
def test_misuse(arguments, message, tmp_path):
    """What makes no sense is one message and status 2."""
    done = bd("neutral", *arguments, cwd=tmp_path, status=2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


SAMPLES = sorted(path.stem for path in (REPOSITORY / "sample_models").glob("*.py"))
LAUNCHERS = {
    "script": lambda name: [sys.executable, f"sample_models/{name}.py"],
    "module": lambda name: [sys.executable, "-m", f"sample_models.{name}"],
    "torchrun": lambda name: [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "1"),
        f"sample_models/{name}.py",
    ],
}


@pytest.mark.matrix
@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("capture", ["digest", "full"])
@pytest.mark.parametrize("sample", SAMPLES)
def test_every_sample_in_every_way(sample, capture, launcher, tmp_path):
    """No sample model, capture mode or launcher is changed by recording, in nothing that is compared."""
    command = [*LAUNCHERS[launcher](sample), "--steps", "3", "--out", str(tmp_path / "out.pt")]
    done = bd("neutral", "--capture", capture, "--format", "json", "--", *command)
    found = json.loads(done.stdout)
    assert found["verdict"] == "neutral"
    items = {item["name"]: item["finding"] for item in found["items"]}
    for name in ("exit status", "updates", "losses", "parameters", "optimizer state", "generators", "process state"):
        assert items[name] == "equal", name
    assert items["files written"] == "equal"


@pytest.mark.matrix
@pytest.mark.parametrize("capture", ["digest", "full"])
def test_a_compiled_model(capture, tmp_path):
    """Recording adds no graph break, and moves no bit of what is compiled."""
    text = SCRIPT.replace("    optimizer =", "    model = torch.compile(model, backend='aot_eager')\n    optimizer =")
    assert text != SCRIPT
    (tmp_path / "train.py").write_text(text)
    done = bd("neutral", "--capture", capture, "--format", "json", "--", sys.executable, "train.py", cwd=tmp_path)
    items = {item["name"]: item["finding"] for item in json.loads(done.stdout)["items"]}
    assert items["graph breaks"] == items["parameters"] == items["losses"] == "equal"


@pytest.mark.matrix
@pytest.mark.parametrize("capture", ["digest", "full"])
@pytest.mark.parametrize("sample", SAMPLES)
def test_every_sample_inside_the_library(sample, capture, tmp_path, monkeypatch):
    """Nor by the library's door."""
    monkeypatch.chdir(REPOSITORY)
    seen = []
    for mode in ("none", capture):
        folder = tmp_path / mode
        folder.mkdir()
        script = [f"sample_models/{sample}.py", "--steps", "3", "--out", str(tmp_path / "out.pt")]
        seen.append(
            observe(
                [sys.executable, "tests/helpers/in_library.py", mode, str(folder / "library"), *script], folder, None
            )
        )
    assert (folder / "library" / "rank-00000.h5").exists()
    found = Neutrality(items=compare(*seen, None, {}), runs=())
    assert found.verdict is Neutral.NEUTRAL, neutral_text(found)
    assert {item.name: item.finding for item in found.items}["parameters"] is Finding.EQUAL
