"""A witness tells the bits that a process ends with, and moves none of them."""

# ruff: noqa: D102, D103
from __future__ import annotations

import gc
import json
import os
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from torch import nn

from bisect_diverge.model.witness import Witness, read_witnesses, witness_path
from bisect_diverge.record.bootstrap import DIRECTORY, environment_for
from bisect_diverge.record.capture import capture
from bisect_diverge.record.settings import Settings, WitnessSettings
from bisect_diverge.record.witness import watch
from bisect_diverge.store.reader import Run
from bisect_diverge.trial.witnessed import witnessed
from tests.helpers.command import run
from tests.record.support import bits, mlp, recording, seed_all, train


class Watching:
    """Watches a block, and reads what was told of it."""

    def __init__(self, folder: Path, **options):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.settings = Settings(run=str(folder), witness=WitnessSettings(folder=str(folder), **options))

    def __enter__(self):
        self.watch, self.patches = watch(self.settings)
        return self

    def __exit__(self, *_):
        self.watch.finish()
        self.patches.undo()

    def told(self) -> Witness:
        return read_witnesses(self.folder)[0]


def of(tensor):
    return capture(tensor).digest.hex()


def trained(optimizer, model, x, steps=2):
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


def test_parameters_state_buffers_generators_and_losses(tmp_path):
    model, x = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), torch.randn(5, 4)
    optimizer = torch.optim.Adam(model.parameters())
    with Watching(tmp_path, losses=True) as watching:
        trained(optimizer, model, x)
    told = watching.told()
    assert told.updates == 2
    assert told.notes == ()
    assert told.parameters == {f"opt0:{i}": of(p) for i, p in enumerate(model.parameters())}
    assert told.state["opt0:1.state.exp_avg"] == of(optimizer.state[model[0].bias]["exp_avg"])
    assert told.buffers["Sequential:1.running_mean"] == of(model[1].running_mean)
    assert told.generators["torch.cpu"] == of(torch.get_rng_state())
    assert set(told.untouched) == set(told.generators)
    assert len(told.losses) == 2
    assert told.process["threads"] == str(torch.get_num_threads())


def test_a_generator_that_was_drawn_from_is_not_untouched(tmp_path):
    with Watching(tmp_path) as watching:
        torch.rand(1)
    assert "torch.cpu" not in watching.told().untouched
    assert "python" in watching.told().untouched
    assert watching.told().losses is None


@pytest.mark.parametrize("cycle", [False, True])
def test_an_optimizer_that_dies_before_the_end_is_read_as_it_dies(tmp_path, cycle):
    ends = []

    def training():
        model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        if cycle:
            optimizer.myself = optimizer
        trained(optimizer, model, torch.randn(5, 4))
        ends.extend(
            [{f"opt{len(ends) // 2}:{i}": of(p) for i, p in enumerate(model.parameters())}, of(model[1].running_var)]
        )

    with Watching(tmp_path) as watching:
        for _ in range(2):
            training()
            gc.collect()
    told = watching.told()
    assert told.parameters == ends[0] | ends[2]
    assert told.buffers["Sequential:1.running_var"] == ends[3]
    assert not any("gone" in note for note in told.notes)


def test_it_moves_no_bits(tmp_path):
    def training():
        seed_all()
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 2))
        return bits([train(model, torch.randn(6, 4)), torch.get_rng_state()])

    plain = training()
    with Watching(tmp_path, losses=True):
        assert training() == plain


def test_nothing_of_it_stays(tmp_path):
    before = torch.optim.Optimizer.__dict__.get("__del__"), torch.amp.GradScaler.step, torch.autograd.backward
    with Watching(tmp_path, losses=True):
        pass
    assert before == (torch.optim.Optimizer.__dict__.get("__del__"), torch.amp.GradScaler.step, torch.autograd.backward)


def gan():
    """Two optimizers in a step, one of them used twice."""
    one, two = mlp(), mlp(width=4)
    first, second = torch.optim.Adam(one.parameters()), torch.optim.SGD(two.parameters(), 0.1, momentum=0.5)
    for _ in range(3):
        x = torch.randn(5, 4)
        for _ in range(2):
            trained(second, two, x, 1)
        trained(first, one, x, 1)


def scaled():
    """GradScaler leaves the second update out."""
    model, optimizer = (m := mlp()), torch.optim.AdamW(m.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.randn(6, 4) * (float("inf") if step == 1 else 1.0)).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def lbfgs():
    model, x = mlp(), torch.randn(6, 4)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3, history_size=2)

    def closure():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)


@pytest.mark.parametrize("training", [gan, scaled, lbfgs], ids=lambda f: f.__name__)
def test_a_recording_tells_the_same_at_the_end_of_a_step(tmp_path, training):
    seed_all()
    with recording(tmp_path / "run", capture="digest"), Watching(tmp_path / "w") as watching:
        training()
    told = watching.told()
    with Run(tmp_path / "run") as recorded:
        last = witnessed(recorded.first, recorded.first.steps - 1)
        first = witnessed(recorded.first, 0)
    assert last.witness.updates == told.updates
    assert last.witness.parameters == told.parameters
    assert last.witness.state == told.state
    assert last.names.keys() == told.parameters.keys()
    assert 0 < first.witness.updates < told.updates


def test_it_leaves_after_the_last_update_that_is_wanted(tmp_path, monkeypatch):
    class LeftError(Exception):
        """Instead of the end of this process."""

    def leave(folder, rank, world):
        raise LeftError

    monkeypatch.setattr(sys.modules["bisect_diverge.record.witness"], "leave_together", leave)
    model, x = mlp(), torch.randn(5, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with Watching(tmp_path, stop_after=2) as watching, pytest.raises(LeftError):
        trained(optimizer, model, x, 5)
    assert watching.told().updates == 2
    assert watching.told().parameters["opt0:0"] == of(model[0].weight)


def test_a_forked_child_tells_nothing(tmp_path):
    with Watching(tmp_path) as watching:
        child = os.fork()
        if not child:
            watching.watch.finish()
            os._exit(0)
        os.waitpid(child, 0)
        assert list(tmp_path.iterdir()) == []
    assert watching.told().updates == 0


def test_of_several_processes_of_a_rank_the_one_that_trained_counts(tmp_path):
    for occurrence, updates in enumerate((0, 4, 0)):
        witness = Witness(rank=1, updates=updates, losses=("a",) * updates, notes=("x",))
        witness_path(tmp_path, 1, occurrence).write_text(json.dumps(witness.to_json()))
    witness_path(tmp_path, 2).write_text('{"rank": ')  # cut off
    assert read_witnesses(tmp_path) == {1: Witness(rank=1, updates=4, losses=("a",) * 4, notes=("x",))}


@pytest.mark.slow
def test_a_process_that_is_told_to_leave(tmp_path):
    """It leaves after the update that is wanted, without the script's ``finally``; what it starts is not watched."""
    text = """
        import os, subprocess, sys
        import torch

        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        try:
            for step in range(9):
                model(torch.ones(1, 4)).sum().backward()
                optimizer.step()
                ours = [name for name in os.environ if "BISECT" in name]
                print(step, ours, os.environ.get("PYTHONPATH"), "h5py" in sys.modules)
        finally:
            print("finally")
        """
    settings = Settings(
        run=str(tmp_path),
        bootstrap=str(DIRECTORY),
        witness=WitnessSettings(folder=str(tmp_path), stop_after=3),
    )
    variables = environment_for(settings, {"PYTHONPATH": "of-the-user"})
    done = run(sys.executable, "-c", textwrap.dedent(text), **variables)
    assert done.stdout.splitlines() == ["0 [] of-the-user False", "1 [] of-the-user False"]
    assert done.stderr == ""
    assert read_witnesses(tmp_path)[0].updates == 3
    assert len(read_witnesses(tmp_path)[0].parameters) == 2
