"""Seeds of data loaders: their own generators, what workers are seeded from, and what workers seed themselves."""

import functools
import json
import sys

import pytest
import torch
from torch.utils.data import DataLoader, RandomSampler

from bisect_diverge.environment.knobs import name_of_callable
from bisect_diverge.environment.seeds import calls_in, is_told
from bisect_diverge.record import seeds, worker_threads
from bisect_diverge.record.generators import own_generators, text_of_generator
from bisect_diverge.record.worker_seeds import settings
from bisect_diverge.store.reader import Run
from tests.helpers.command import bd

SCRIPT = """
import random, sys, time
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler

def first(worker):
    np.random.seed(int(time.time()))
    if worker == 1:
        torch.set_num_threads(3)

class Data(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((4,), float(index)) + torch.rand(1).item()

torch.manual_seed(0)
own = torch.Generator().manual_seed(int(sys.argv[1]))
workers = DataLoader(Data(), 4, shuffle=True, num_workers=2, generator=own, worker_init_fn=first)
sampled = DataLoader(Data(), 4, sampler=RandomSampler(Data(), generator=torch.Generator().manual_seed(5)))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for loader in (workers, workers, sampled):
    for batch in loader:
        model(batch).sum().backward()
        optimizer.step()
print(own.initial_seed(), torch.rand(1, generator=own).item(), torch.rand(1).item())
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The settings of the layer, resolved or not, and what the script printed without us and with."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "t.py").write_text(SCRIPT)
    command = (sys.executable, "t.py", "3")
    said = bd("record", "-o", "run", "--", *command, cwd=folder).stdout
    with Run(folder / "run") as run:
        rows = run.first.record.environment.settings
    return {s.knob: (s.value, s.resolved) for s in rows if s.layer == "seeds" or s.knob.endswith("threads")}, said


def test_a_loaders_own_generator_is_a_seed(recorded):
    """By its seed, under the loader's name, whether the loader or its sampler has it."""
    rows, _ = recorded
    assert rows["loader.workers.generator"] == ("3", False)
    assert rows["loader.sampled.sampler.generator"] == ("5", False)


def test_what_workers_are_seeded_from_is_read(recorded):
    """A number for each iteration, as the generator gives them; no workers, no such row."""
    rows, said = recorded
    value, resolved = rows["loader.workers.base_seed"]
    generator = torch.Generator().manual_seed(3)
    first = torch.empty((), dtype=torch.int64).random_(generator=generator).item()
    assert resolved
    assert calls_in(value)[0] == str(first)
    assert len(calls_in(value)) == 2
    assert "loader.sampled.base_seed" not in rows
    assert rows["loader.workers.worker_init_fn"] == ("__main__.first", True)
    assert said.split()[0] == "3"


def test_what_workers_seed_themselves_is_told(recorded):
    """The time, of each worker and iteration; what torch gives in a worker is not the script's."""
    rows, _ = recorded
    told = {knob: value for knob, (value, _) in rows.items() if knob.endswith("numpy.random.seed")}
    assert sorted(told) == [f"loader.workers.worker{n}.numpy.random.seed" for n in (0, 1)]
    for value in told.values():
        assert [text.endswith("(the time)") for text in calls_in(value)] == [True, True]


def test_threads_where_samples_are_made(recorded):
    """Those of the process without workers; one in each worker, unless it tells another number."""
    rows, _ = recorded
    assert rows["loader.sampled.threads"] == (str(torch.get_num_threads()), True)
    assert rows["loader.workers.threads"] == ("3 in worker 1, 1", True)
    (row,) = worker_threads.settings(["sx", "tx\x1f1\x1f2\x1f4", "tx\x1f0\x1f2\x1f4"])
    assert (row.knob, row.value) == ("loader.x.threads", "4")


def test_a_generator_that_was_drawn_from_is_its_state():
    """Nothing is drawn to find that out; the state is given again as it was."""
    generator = torch.Generator().manual_seed(7)
    assert text_of_generator(generator) == ("7", "")
    torch.rand(1, generator=generator)
    text, state = text_of_generator(generator)
    assert text.startswith("drawn from: xxh3:")
    assert is_told(text)
    other = torch.Generator()
    other.set_state(torch.tensor(json.loads(state), dtype=torch.uint8))
    assert torch.rand(3, generator=other).tolist() == torch.rand(3, generator=generator).tolist()


def test_a_generator_is_held(tmp_path, monkeypatch):
    """At a seed or at a kept state, under its knob; others stay."""
    source = torch.Generator().manual_seed(1)
    torch.rand(1, generator=source)
    (tmp_path / "state").write_text(json.dumps(source.get_state().tolist()))
    held = {"loader.a.generator": "9", "loader.b.generator": f"state:{tmp_path / 'state'}"}
    monkeypatch.setattr(seeds, "generators", held)
    a, b, c = (torch.Generator().manual_seed(2) for _ in range(3))
    for name, generator in zip("abc", (a, b, c), strict=True):
        seeds.hold_generator(f"loader.{name}.generator", generator)
    assert [a.initial_seed(), c.initial_seed()] == [9, 2]
    assert torch.equal(b.get_state(), source.get_state())


def test_generators_of_a_loader_are_found_once():
    """The sampler that a loader makes shares the loader's generator."""
    one, other = torch.Generator(), torch.Generator()
    data = list(range(4))
    assert [name for name, _ in own_generators(DataLoader(data, shuffle=True, generator=one))] == ["generator"]
    loader = DataLoader(data, sampler=RandomSampler(data, generator=other), generator=one)
    assert [name for name, _ in own_generators(loader)] == ["generator", "sampler.generator"]
    assert list(own_generators(DataLoader(data))) == []


def test_lines_of_workers_are_put_in_order():
    """By iteration and call, whichever process wrote first; other lines are no seeds."""
    lines = ["r/data/x", "sk\x1f000000001.001\x1f8", "sk\x1f000000000.002\x1f7", "sk\x1f000000000.001\x1f6"]
    (row,) = settings(lines)
    assert (row.knob, row.value) == ("k", "6, 7, 8 (3 calls)")
    assert name_of_callable(functools.partial(json.dumps, indent=1)) == "json.dumps"


@pytest.mark.matrix
def test_a_generator_seeded_otherwise_is_the_cause(tmp_path):
    """Found by name, with the workers' seeds as its consequence."""
    script = SCRIPT.replace("np.random.seed(int(time.time()))", "pass").replace("sys.argv[1]", "open('seed').read()")
    (tmp_path / "t.py").write_text(script)
    for name, seed in (("a", "3"), ("b", "4")):
        (tmp_path / "seed").write_text(seed)
        bd("record", "-o", name, "--", sys.executable, "t.py", cwd=tmp_path)
    words = ("bisect", "a", "b", "--no-observer-check", "--skip", "dataset", "--format", "json")
    (cause,) = json.loads(bd(*words, cwd=tmp_path).stdout)["causes"]
    assert [(u["knob"], u["a"], u["b"]) for u in cause["units"]] == [("loader.workers.generator", "3", "4")]
    assert [c["knob"] for c in cause["consequences"]] == ["loader.workers.base_seed"]


@pytest.mark.matrix
def test_workers_seeded_with_the_time_arename_of_callable(tmp_path):
    """A does not repeat itself, and the note says which setter in which worker got another seed."""
    (tmp_path / "t.py").write_text(SCRIPT.replace("torch.rand(1).item()", "np.random.rand()"))
    for name in "ab":
        bd("record", "-o", name, "--", sys.executable, "t.py", "3", cwd=tmp_path)
    words = ("bisect", "a", "b", "--no-observer-check", "--format", "json")
    found = json.loads(bd(*words, cwd=tmp_path, status=4).stdout)
    assert found["verdict"] == "baseline-not-repeatable"
    assert any("gives loader.workers.worker0.numpy.random.seed another seed each time" in n for n in found["notes"])
    assert not any("never calls numpy.random.seed" in note for note in found["notes"])
