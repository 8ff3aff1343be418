"""Rows are added in the training thread and written in another: nothing is lost between the two."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from torch import nn

import bisect_diverge
from bisect_diverge.model.run import RunRecord, State
from bisect_diverge.store import writer as store_writer
from bisect_diverge.store.reader import Run, RunFile
from tests.record.support import addresses, recording, train


@pytest.fixture
def eager_writer(monkeypatch):
    """Let the writing thread flush all the time, and threads change places as often as they can."""
    monkeypatch.setattr(store_writer, "FLUSH_SECONDS", 0.0)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_no_name_is_lost(eager_writer, tmp_path):
    """Names that are added while the writing thread collects them are all in the file, in order."""
    for attempt in range(4):
        path = tmp_path / f"rank-{attempt:05d}.h5"
        writer = store_writer.RunWriter(path, RunRecord(), keep_bytes=1 << 20, digest_algorithm="x")
        count = 4000
        for number in range(count):
            with writer.lock:
                writer.add(
                    (number + 1).to_bytes(16, "little"),
                    number,
                    0,
                    2,
                    writer.name("root", f"n{number}", ""),
                    0,
                    writer.slot(f"s{number}"),
                    4,
                    writer.shape((number,)),
                )
            if number % 100 == 0:
                writer.update(RunRecord(notes=(f"note {number}",)))
        writer.update(RunRecord(notes=("last",)))
        writer.close(State.COMPLETE)
        file = RunFile(path)
        assert writer.error is None
        assert np.array_equal(file.events["step"], np.arange(count))
        assert [fqn for _, fqn, _ in file.names] == [f"n{number}" for number in range(count)]
        assert file.slots == [f"s{number}" for number in range(count)]
        assert file.shapes == [(number,) for number in range(count)]
        assert file.record.notes == ("last",)
        file.close()


def test_no_row_is_lost(eager_writer, tmp_path):
    """A recording has the same rows however often the writing thread takes what a step has gathered so far."""
    model, x = nn.Sequential(*[nn.Linear(4, 4) for _ in range(5)]), torch.randn(2, 4)
    with recording(tmp_path / "run"):
        train(model, x, steps=40)
    found = addresses(tmp_path / "run")
    per_step = len([text for text in found if text.startswith("1/")])
    assert len(found) == len(set(found))
    for step in range(1, 40):
        assert len([text for text in found if text.startswith(f"{step}/")]) == per_step
    with Run(tmp_path / "run") as run:
        assert run.first.status.state is State.COMPLETE


READ = """
import sys, time
from bisect_diverge.store.reader import Run
end = time.monotonic() + 10
while True:
    with Run("run") as run:
        found = [str(run.first.address(row)) for row in range(len(run.first.events))]
        if any("output.0" in text for text in found) or time.monotonic() > end:
            print(run.first.status.state, found[-1])
            break
    time.sleep(0.05)
"""


def test_rows_of_a_slow_step_reach_the_disk(tmp_path):
    """What a step has recorded is readable by another process, though the step has not ended."""
    model = nn.Linear(4, 4)
    with recording(tmp_path / "run"):
        torch.optim.SGD(model.parameters())
        model(torch.randn(2, 4))
        command = [sys.executable, "-c", READ]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "in progress r0/0/0/forward/model:#0:output.0\n"


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_children_of_a_busy_writer(eager_writer, tmp_path):
    """A child that is forked while the writing thread is at work ends, and writes nothing."""
    model, x = nn.Sequential(*[nn.Linear(4, 4) for _ in range(5)]), torch.randn(2, 4)
    with recording(tmp_path / "run"):
        train(model, x, steps=3)
        for _ in range(10):
            train(model, x, steps=1)
            child = os.fork()
            if child == 0:
                try:
                    model(x)
                finally:
                    os._exit(0)
            end = time.monotonic() + 20
            while os.waitpid(child, os.WNOHANG) == (0, 0):
                assert time.monotonic() < end, "the child hangs"
                time.sleep(0.002)
    with Run(tmp_path / "run") as run:
        assert run.first.status.state is State.COMPLETE
        assert run.first.steps == 13


def test_a_second_block_after_a_failed_writer(tmp_path, monkeypatch):
    """A recording whose writer failed leaves nothing behind that would hinder the next one."""

    def fail(*_):
        raise OSError(28, "No space left on device")

    model, x = nn.Linear(4, 4), torch.randn(2, 4)
    with monkeypatch.context() as patch:
        patch.setattr(store_writer.RunWriter, "_flush", lambda *_: None)
        with bisect_diverge.record(tmp_path / "one"):
            patch.setattr(store_writer.RunWriter, "_flush", fail)
            train(model, x, steps=5)
    with recording(tmp_path / "two"):
        train(model, x, steps=2)
    assert addresses(tmp_path / "two")
