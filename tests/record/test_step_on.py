"""What ends a step: an update, a forward of the leading root, or the script itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import bisect_diverge
from bisect_diverge.errors import UsageError
from bisect_diverge.report.run_overview import run_overview
from bisect_diverge.report.run_text import run_text
from bisect_diverge.store.reader import Run
from tests.helpers.command import bd
from tests.record.support import addresses, bits, everything, mlp, recording, rows, seed_all


def accumulate(end_of_step=lambda: None):
    """Train with two micro-batches an update and a criterion; return the model's tensors."""
    model, criterion = mlp(), nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        for _ in range(2):
            criterion(model(torch.randn(3, 4)), torch.randn(3, 2)).backward()
        optimizer.step()
        optimizer.zero_grad()
        end_of_step()
    return everything(model)


def outputs(run):
    """Return step and micro-batch of every output and loss, and the steps of the updates."""
    found = addresses(run)
    passes = [text.partition("/forward/")[0] for text in found if text.endswith(("model:#0:output.0", "loss#0:value"))]
    return passes, sorted({int(text.partition("/")[0]) for text in found if "/optimizer/" in text})


def test_each_forward_of_the_leading_root(tmp_path):
    """With `forward` each forward of the model is a step; criterion, loss and update belong to the last one."""
    with recording(tmp_path / "run", step_on="forward"):
        accumulate()
    passes, updates = outputs(tmp_path / "run")
    assert passes == ["0/0", "0/0", "1/0", "1/0", "2/0", "2/0", "3/0", "3/0"]
    assert updates == [1, 3]


def test_forward_of_another_model_after_the_first_is_gone(tmp_path):
    """When the root that was called first is gone, the next one leads."""
    with recording(tmp_path / "run", step_on="forward"):
        first = nn.Linear(4, 4)
        first(torch.randn(2, 4))
        del first
        second = nn.Linear(4, 4)
        for _ in range(2):
            second(torch.randn(2, 4))
    assert [text for text in addresses(tmp_path / "run") if "output" in text] == [
        "0/0/forward/first:#0:output.0",
        "1/0/forward/second:#0:output.0",
        "2/0/forward/second:#0:output.0",
    ]


def test_closure_under_forward(tmp_path):
    """An update with a closure belongs, with `forward`, to the last forward that it made."""
    model, x = nn.Linear(4, 1), torch.randn(3, 4)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)

    def closure():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    with recording(tmp_path / "run", step_on="forward"):
        for _ in range(2):
            optimizer.step(closure)
    passes, _ = outputs(tmp_path / "run")
    assert passes == [f"{step}/0" for step in range(len(passes) // 2) for _ in range(2)]


def test_steps_counted_by_the_script(tmp_path):
    """With `manual` a step ends where `bisect_diverge.step()` is called, however many updates there are in it."""
    with recording(tmp_path / "run", step_on="manual"):
        accumulate()  # no call: two updates in one step
        bisect_diverge.step()
        accumulate(bisect_diverge.step)
    with Run(tmp_path / "run") as run:
        assert run.first.record.options.step_on == "manual"
        assert run.first.step_count == 3
    found = addresses(tmp_path / "run")
    assert [text for text in found if "opt" in text and ":0.weight#" in text and text.endswith(":param")] == [
        "0/-/optimizer/optimizer:0.weight#0:param",
        "0/-/optimizer/optimizer:0.weight#1:param",
        "1/-/optimizer/optimizer_1:0.weight#0:param",
        "2/-/optimizer/optimizer_1:0.weight#0:param",
    ]
    assert "0/3/forward/model:#0:output.0" in found


def test_steps_without_an_optimizer(tmp_path):
    """A loop without optimizer has its steps, and the generators' states at their ends, from the script too."""
    model = nn.Linear(4, 2)
    with recording(tmp_path / "run", step_on="manual"), torch.no_grad():
        bisect_diverge.step()  # before anything was called there is no step to end
        for _ in range(2):
            model(torch.randn(2, 4))
            model(torch.randn(2, 4))
            bisect_diverge.step()
    found = addresses(tmp_path / "run", without=("init",))
    assert [text for text in found if "output" in text] == [
        f"{step}/e{number}/forward/model:#0:output.0" for step in range(2) for number in range(2)
    ]
    assert found.count("0/-/rng/-:#0:python") == 2
    assert found.count("1/-/rng/-:#0:python") == 1


def test_window_of_manual_steps(tmp_path):
    """A window counts the script's steps."""
    with recording(tmp_path / "run", step_on="manual", steps=(1, 2)):
        accumulate(bisect_diverge.step)
    assert {text.partition("/")[0] for text in addresses(tmp_path / "run")} == {"1"}


def test_call_under_another_rule(tmp_path):
    """A call that the rule does not ask for moves nothing, and a note says so once."""
    for name, end in (("with", bisect_diverge.step), ("without", lambda: None)):
        seed_all()
        with recording(tmp_path / name):
            accumulate(end)
    assert addresses(tmp_path / "with") == addresses(tmp_path / "without")
    with Run(tmp_path / "with") as run:
        assert [note for note in run.first.record.notes if "step()" in note] == [
            "bisect_diverge.step() was called, but steps end with --step-on optimizer"
        ]


def test_call_without_a_recording():
    """Without a recording the call does nothing at all."""
    before = torch.get_rng_state()
    assert bisect_diverge.step() is None
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("rule", ["forward", "manual"])
def test_same_bits_and_rows(rule, tmp_path):
    """Whatever ends a step, the run has the same bits and the recording the same tensors."""
    results = []
    for step_on in ("optimizer", rule):
        seed_all()
        with recording(tmp_path / step_on, step_on=step_on):
            results.append(bits(accumulate(bisect_diverge.step)))
    assert results[0] == results[1]
    digests = [
        [record.digest for text, record in rows(tmp_path / name).items() if text.endswith(("output.0", ":param"))]
        for name in ("optimizer", rule)
    ]
    assert sorted(set(digests[0])) == sorted(set(digests[1]))


def test_unknown_rule(tmp_path):
    """A rule that there is not is refused before anything is made."""
    with pytest.raises(UsageError, match="'optimizer', 'forward' or 'manual'"):
        bisect_diverge.record(tmp_path / "run", step_on="epoch").__enter__()
    assert not (tmp_path / "run").exists()


SCRIPT = """
import torch
import bisect_diverge

model = torch.nn.Linear(4, 2)
for _ in range(3):
    model(torch.ones(1, 4))
    model(torch.ones(1, 4))
    bisect_diverge.step()
print("done")
"""


@pytest.mark.slow
def test_from_the_command_line(tmp_path):
    """`bd record --step-on manual` counts the script's calls, and `bd show` says that it was asked to."""
    Path("script.py").write_text(SCRIPT)
    done = bd("record", "-o", "run", "--step-on", "manual", "--", sys.executable, "script.py", cwd=tmp_path)
    assert done.stdout == "done\n"
    with Run(tmp_path / "run") as run:
        assert "--step-on manual" in run_text(run_overview(run))
    found = [text for text in addresses(tmp_path / "run") if "output" in text]
    assert found == [f"{step}/{number}/forward/model:#0:output.0" for step in range(3) for number in range(2)]


def test_unknown_rule_on_the_command_line(tmp_path):
    """A rule that there is not is one message and status 2."""
    done = bd("record", "--step-on", "epoch", "--", "true", cwd=tmp_path, status=2)
    assert "'epoch' is not one of 'optimizer', 'forward', 'manual'" in done.stderr
