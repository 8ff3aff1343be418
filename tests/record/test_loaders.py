"""Batches of every kind of loader: what the script gets is what is recorded, and workers record nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info

from bisect_diverge.store.reader import Run
from tests.helpers.command import bd
from tests.record.support import addresses, everything, recording, same_with_us, value_of

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
]

TRANSFORM = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 4))


class Mapped(Dataset):
    """Six samples that a module transforms."""

    def __len__(self):
        return 6

    def __getitem__(self, index):
        with torch.no_grad():
            return {"x": TRANSFORM(torch.full((4,), float(index))), "index": index}


class Streamed(IterableDataset):
    """The same from an iterator that its workers share out."""

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return (Mapped()[index] for index in range(first, 6, step))


WAYS = {
    "map, none": (Mapped, {}),
    "map, 1 fork": (Mapped, {"num_workers": 1, "multiprocessing_context": "fork"}),
    "map, 2 fork": (Mapped, {"num_workers": 2, "multiprocessing_context": "fork"}),
    "map, persistent": (
        Mapped,
        {"num_workers": 2, "multiprocessing_context": "fork", "persistent_workers": True, "prefetch_factor": 1},
    ),
    "stream, none": (Streamed, {}),
    "stream, 2 fork": (Streamed, {"num_workers": 2, "multiprocessing_context": "fork"}),
    "stream, persistent": (
        Streamed,
        {"num_workers": 1, "multiprocessing_context": "fork", "persistent_workers": True},
    ),
}


def epochs(make, options, seen):
    """Train for two epochs; the transform is called outside of the loader too."""
    loader = DataLoader(make(), 2, **options)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        for batch in loader:
            seen.append(batch["x"].numpy().copy())
            model(batch["x"]).sum().backward()
            optimizer.step()
    with torch.no_grad():
        TRANSFORM(torch.ones(4))
    return everything(model, seen)


@pytest.mark.parametrize("way", WAYS)
def test_batches(way, tmp_path):
    """Batches are the script's, in its order; the transform is a root where the script calls it, and nowhere else."""
    seen = []

    def train():
        seen.clear()
        return epochs(*WAYS[way], seen)

    same_with_us(train, tmp_path / "run")
    found = addresses(tmp_path / "run")
    batches = [text for text in found if "/data/" in text]
    assert batches == [f"{step}/-/data/loader:#0:batch.{key}" for step in range(len(seen)) for key in ("x", "index")]
    for step, batch in enumerate(seen):
        assert (value_of(tmp_path / "run", f"{step}/-/data/loader:#0:batch.x") == batch).all()
    calls = [text for text in found if "TRANSFORM" in text or "Sequential" in text]
    assert {text.partition("/")[0] for text in calls} == {str(len(seen))}  # the one call after training
    assert len([text for text in calls if text.endswith(":#0:input.0")]) == 1
    assert [file.name for file in (tmp_path / "run").glob("*.h5")] == ["rank-00000.h5"]


def test_input_that_no_loader_handed_out(tmp_path):
    """A root's input that no recorded tensor produced has no source; a batch, and a part of one, has its row."""
    model = nn.Linear(4, 1)
    torch.optim.SGD(model.parameters())
    loader = DataLoader(TensorDataset(torch.arange(16.0).reshape(4, 4)), 2)
    with recording(tmp_path / "run"):
        torch.optim.SGD(model.parameters())
        (batch,) = next(iter(loader))
        for x in (torch.ones(2, 4), batch, batch[:1], batch * 2):
            model(x)
    with Run(tmp_path / "run") as opened:
        file = opened.first
        sources = [
            int(file.events["source"][row]) >= 0
            for row in range(len(file.events))
            if str(file.address(row)).endswith("model:#0:input.0")
        ]
    assert sources == [False, True, True, False]


SCRIPT = """
import torch
from torch.utils.data import DataLoader

class Data(torch.utils.data.Dataset):
    def __init__(self):
        self.transform = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
    def __len__(self):
        return 4
    def __getitem__(self, index):
        with torch.no_grad():
            return self.transform(torch.full((4,), float(index)))

def main():
    torch.manual_seed(0)
    data, model = Data(), torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = DataLoader(data, 2, num_workers=1, multiprocessing_context="spawn", persistent_workers=True)
    next(iter(loader))  # workers are started before the first call of a module
    for _ in range(2):
        for batch in loader:
            model(batch).sum().backward()
            optimizer.step()

if __name__ == "__main__":
    main()
"""


@pytest.mark.slow
def test_spawned_workers_that_start_first(tmp_path):
    """Spawned workers that call a module before the script does record nothing."""
    script = Path("script.py")
    script.write_text(SCRIPT)
    bd("record", "-o", "run", "--", sys.executable, script, cwd=tmp_path)
    assert [file.name for file in Path("run").glob("*.h5")] == ["rank-00000.h5"]
    found = addresses(tmp_path / "run")
    assert [text for text in found if "/data/" in text] == [
        *(f"0/-/data/loader:#{call}:batch.0" for call in range(2)),
        *(f"{step}/-/data/loader:#0:batch.0" for step in range(1, 4)),
    ]
    assert not [text for text in found if "transform" in text]


def test_what_a_loader_was_asked_for_is_noted(tmp_path):
    """Also what moves no bits by itself here: the order of the batches, and pinned memory."""
    data = TensorDataset(torch.ones(4, 4))
    loader = DataLoader(data, 2, num_workers=1, multiprocessing_context="fork", in_order=False)
    with recording(tmp_path / "run"):
        for (batch,) in loader:
            TRANSFORM(batch)
    with Run(tmp_path / "run") as run:
        environment = run.first.record.environment
    noted = {
        knob: environment.value("hardware", f"loader.loader.{knob}")
        for knob in ("num_workers", "in_order", "pin_memory", "start_method", "threads")
    }
    wanted = {"num_workers": "1", "in_order": "False", "pin_memory": "False", "start_method": "fork", "threads": "1"}
    assert noted == wanted
    assert environment.value("kernels", "model.Sequential.dtype") == "torch.float32"
    assert environment.value("hardware", "model.Sequential.device") == "cpu"
