"""What the tests of ``bd record`` share: scripts, recordings of them, and looks at what came of it."""

from __future__ import annotations

import textwrap

from bisect_diverge.model.elements import ELEMENT_TYPES
from bisect_diverge.numerics.digest import digest, header
from bisect_diverge.store.reader import Run
from tests.helpers.command import BD, finished, surroundings

RECORD = [*BD, "record", "-o", "run", "--"]

TRAIN = """
import torch

model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def train(steps=2):
    for _ in range(steps):
        model(torch.randn(3, 4)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
"""Begin of most scripts that train."""


def script(folder, text, name="script.py"):
    """Write a script and return its name."""
    (folder / name).write_text(textwrap.dedent(text))
    return name


def call(command, *, status=0, timeout=120, text=True, stdin="", env=None, **variables):
    """Run a command; its exit status must be `status`."""
    return finished(
        command,
        status,
        input=stdin if text else stdin.encode(),
        env=(surroundings() if env is None else env) | variables,
        text=text,
        timeout=timeout,
    )


def record(command, **options):
    """Record a command as ``run``."""
    return call([*RECORD, *command], **options)


def steps_of(run):
    """Return the number of rows of each step, of a whole or broken run."""
    with Run(run) as opened:
        steps = opened.first.events["step"].tolist()
    return {step: steps.count(step) for step in sorted(set(steps))}


def status_of(run):
    """Return state and exit status of a run."""
    with Run(run) as opened:
        return opened.first.status.state, opened.first.status.exit_status


def check_rows(run):
    """Check that names, slots and bytes of every row are there and right; return the number of rows."""
    with Run(run) as opened:
        file = opened.first
        for row in range(len(file.events)):
            found = file.record_at(row)
            tensor = file.tensor(row)
            if tensor is not None and ELEMENT_TYPES[file.events[row]["dtype"]].name == found.dtype != "bytes":
                head = header(found.dtype, found.shape)
                assert digest(head, tensor.reshape(-1).view("u1") if tensor.size else b"").hex() == found.digest
        return len(file.events)
