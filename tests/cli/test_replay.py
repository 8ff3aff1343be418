"""``bd replay`` in real processes, with real kernels."""

from __future__ import annotations

import json
import sys

import pytest

from bisect_diverge.cli.replay import command
from bisect_diverge.errors import BisectDivergeError
from tests.helpers.command import bd
from tests.helpers.runs import training_rows, write_run

SCRIPT = """
import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, 2, 16).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(x.shape))


torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(20, 32), Attention(), nn.Linear(32, 32), nn.Dropout(0.1), Attention())
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.randint(20, (8, 32))).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a script, its run ``a``, and ``b`` with other vector kernels."""
    folder = tmp_path_factory.mktemp("replay")
    (folder / "train.py").write_text(SCRIPT)
    bd("record", "-o", "a", "--", sys.executable, "train.py", cwd=folder)
    bd("record", "-o", "b", "--", sys.executable, "train.py", cwd=folder, ATEN_CPU_CAPABILITY="default")
    return folder


@pytest.mark.slow
def test_every_module_that_computes_otherwise_is_listed(place):
    """Both attentions, of which the second one's inputs differ in B; no linear layer, no draw, no update."""
    done = bd("replay", "a", "--env-of", "b", "--format", "json", cwd=place, status=1)
    found = json.loads(done.stdout)
    assert [unit["knob"] for unit in found["swapped"]] == ["ATEN_CPU_CAPABILITY"]
    calls = {row["address"].split(":")[1]: row for row in found["differing"] if row["part"] == "module call"}
    assert {"1#0", "4#0"} <= calls.keys()
    assert [moved["inside"] for moved in calls["4#0"]["moved"]] == ["between qkv and proj"]
    assert not {row["module_type"] for row in calls.values()} & {"Linear", "Embedding", "Dropout"}
    assert found["cannot_be_replayed"] == []
    assert found["step"] == 0
    assert found["written"] >= len(found["differing"])
    assert all(moved["tensor"]["max_ulp"] > 0 for row in calls.values() for moved in row["moved"])


@pytest.mark.matrix
def test_a_later_step_under_the_same_settings(place):
    """A knob that moves no bits: nothing is set, everything is equal; the folder is as it was."""
    before = sorted(path.name for path in place.rglob("*"))
    done = bd("replay", "a", "--set", "runtime.MALLOC_PERTURB_=85", "--step", "2", cwd=place)
    assert done.stdout.startswith("= nothing of step 2 computes otherwise: 10 module calls replayed\n")
    assert "0 tensors had other bits" in done.stdout
    assert "the steps before 2 ran under each setting" in done.stdout
    assert sorted(path.name for path in place.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("digests", "--env-of", "b"), "record that step in full: bd record --capture full --steps 0:2"),
        (("a", "--env-of", "b", "--step", "7"), "a has no record of step 7"),
        (("a",), "which step?"),
        (("a", "--step", "1"), "replay under which settings?"),
        (("a", "--env-of", "a"), "a and a do not differ"),
    ],
)
def test_what_is_refused(folder, words, expected):
    """One sentence with what to do next: digests only, no such step, nothing to change, nothing that differs."""
    write_run(folder / "a", training_rows())
    write_run(folder / "digests", training_rows(), keep_bytes=0)
    write_run(folder / "b", training_rows(change={"r0/1/0/forward/model:1#0:output.0": "x"}))
    with pytest.raises(BisectDivergeError) as found:
        command.main([*words], standalone_mode=False)
    assert expected in str(found.value)
    assert found.value.exit_code == 2
