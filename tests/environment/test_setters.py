"""Seed setters are watched without being changed."""

import copy
import inspect
import json
import os
import pickle
import random
import subprocess
import sys

import numpy as np
import pytest
import torch

from bisect_diverge.environment.setters import (
    NUMPY_SETTERS,
    SETTERS,
    layout_setting,
    loader_setting,
    optimizer_setting,
    seed_settings,
    watch_numpy,
    watch_setters,
)


@pytest.fixture
def notes():
    """The calls noted while the setters are watched."""
    found = []
    unwatch = watch_setters(lambda knob, seed: found.append((knob, seed)))
    yield found
    unwatch()


def test_the_layout_of_convolutions_is_told():
    """Where both orders are one, and where there is no convolution, nothing is said."""
    conv, thin = torch.nn.Conv2d(3, 4, 3), torch.nn.Conv2d(1, 4, 3)
    assert [s.value for s in layout_setting("model", conv.parameters())] == ["contiguous"]
    conv.to(memory_format=torch.channels_last)
    (row,) = layout_setting("model", [*conv.parameters(), *thin.parameters()])
    assert (row.knob, row.value, row.resolved) == ("model.model.layout", "channels_last", True)
    assert layout_setting("model", thin.parameters()) == ()


def held():
    """Return every function that may be replaced."""
    modules = {name for setter in (*SETTERS, *NUMPY_SETTERS) for name in setter.modules if name in sys.modules}
    names = {setter.name for setter in (*SETTERS, *NUMPY_SETTERS)}
    return {(m, n): getattr(sys.modules[m], n) for m in modules for n in names if hasattr(sys.modules[m], n)}


def test_every_setter_notes_its_seed(notes):
    """Each call is noted once, under the name that the script called."""
    random.seed(1)
    random.seed("word")
    np.random.seed(2)
    np.random.default_rng(3)
    np.random.default_rng(np.random.SeedSequence(4))
    torch.manual_seed(seed=5)
    torch.random.manual_seed(np.int64(6))
    torch.cuda.manual_seed_all(7)
    random.seed()

    assert notes == [
        ("random.seed", "1"),
        ("random.seed", "'word'"),
        ("numpy.random.seed", "2"),
        ("numpy.random.default_rng", "3"),
        ("numpy.random.default_rng", "SeedSequence(4)"),
        ("torch.manual_seed", "5"),
        ("torch.manual_seed", "6"),
        ("torch.cuda.manual_seed_all", "7"),
        ("random.seed", "fresh entropy"),
    ]


def test_results_and_generators_are_those_of_the_originals(notes):
    """What a setter returns and does to its generator is unchanged, and nothing is drawn."""
    assert torch.manual_seed(3) is torch.default_generator
    assert torch.equal(torch.get_rng_state(), torch.Generator().manual_seed(3).get_state())
    assert random.seed(3) is None
    assert random.getstate() == random.Random(3).getstate()
    assert np.random.seed(3) is None
    assert np.random.RandomState(3).randint(1 << 30) == np.random.randint(1 << 30)
    assert np.random.default_rng(3).random() == np.random.Generator(np.random.PCG64(3)).random()


@pytest.mark.parametrize(
    "call", [lambda: torch.manual_seed("x"), lambda: np.random.seed(-1), lambda: random.seed(1, 2, 3)]
)
def test_exceptions_pass_and_nothing_is_noted(notes, call):
    """A call that fails fails as before."""
    with pytest.raises((TypeError, ValueError)):
        call()
    torch.manual_seed(1)

    assert notes == [("torch.manual_seed", "1")]


def test_signatures_and_names_are_those_of_the_originals(notes):
    """Tools that look at a setter see the original."""
    unwatched = {"seed": random.Random().seed, "manual_seed": torch.manual_seed.__wrapped__}

    assert inspect.signature(unwatched["seed"]) == inspect.signature(random.seed)
    assert inspect.signature(unwatched["manual_seed"]) == inspect.signature(torch.manual_seed)
    assert np.random.seed.__name__ == "seed"
    if "torch._dynamo" not in sys.modules:  # which puts a function of its own into one of the two places
        assert torch.manual_seed is torch.random.manual_seed


def test_setters_and_generators_can_be_pickled(notes):
    """A setter is pickled by its name, and generators are what they were."""
    for setter in (random.seed, np.random.seed, np.random.default_rng, torch.random.manual_seed):
        assert pickle.loads(pickle.dumps(setter)) is setter
    for generator in (np.random.default_rng(1), np.random.RandomState(1), random.Random(1)):
        assert type(generator) is type(pickle.loads(pickle.dumps(generator)))
        assert type(generator) is type(copy.deepcopy(generator))
    assert isinstance(np.random.default_rng(1), np.random.Generator)


def test_unwatching_puts_everything_back():
    """Afterwards every attribute holds the object that it held before."""
    before = held()
    unwatch = watch_setters(lambda *_: None)
    during = held()
    unwatch()
    unwatch()

    assert before == held()
    assert before != during


def test_watching_twice_notes_once(notes):
    """A second recorder in one process does not wrap the wrapper."""
    more = []
    unwatch = watch_numpy(lambda *call: more.append(call))
    np.random.seed(1)
    unwatch()

    assert (notes, more) == ([("numpy.random.seed", "1")], [])


def test_a_failing_note_is_no_concern_of_the_script():
    """What our own function raises never reaches the caller."""

    def fail(*_):
        raise RuntimeError("ours")

    unwatch = watch_setters(fail)
    try:
        assert torch.manual_seed(2) is torch.default_generator
    finally:
        unwatch()


def test_a_forked_child_notes_nothing(notes):
    """A loader's workers seed themselves; that is not the script's doing."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        random.seed(9)
        os.write(write, str(len(notes)).encode())
        os._exit(0)
    os.waitpid(pid, 0)

    assert os.read(read, 9) == b"0"
    os.close(read)
    os.close(write)


COMPILED = """
import json, random, sys, warnings
warnings.simplefilter("ignore")
import torch
from bisect_diverge.environment.setters import watch_setters
when, found = sys.argv[1], []
def watch():
    return watch_setters(lambda *call: found.append(call))
def step(x, seed):
    y = x.sin()
    torch.manual_seed(seed)
    random.seed(seed)
    return y + torch.rand(4)
unwatch = watch() if when == "before" else None
import torch._dynamo
from torch._dynamo.utils import counters
if when == "after":
    torch.compile(step, backend="eager")(torch.ones(4), 1)
    torch._dynamo.reset()
    counters.clear()
    unwatch = watch()
compiled = torch.compile(step, backend="eager")
values = [compiled(torch.ones(4), 3).tolist(), compiled(torch.ones(4), 4).tolist()]
breaks, graphs = sum(counters["graph_break"].values()), counters["stats"]["unique_graphs"]
@torch.jit.script
def scripted(x: torch.Tensor):
    torch.manual_seed(3)
    return torch.rand(2)
values.append(scripted(torch.ones(1)).tolist())
noted = len(found)
if unwatch:
    unwatch()
    torch.manual_seed(1)
    unwatch = watch()
    torch.manual_seed(2)
    unwatch()
print(json.dumps({"values": values, "breaks": breaks, "graphs": graphs, "noted": noted, "again": found[noted:]}))
"""


@pytest.mark.slow
def test_compiled_code_behaves_as_without_us(tmp_path):
    """Compiled and scripted code gives the same values, graphs and breaks, whenever the setters were wrapped."""
    script = tmp_path / "compiled.py"
    script.write_text(COMPILED)
    processes = {
        when: subprocess.Popen([sys.executable, script, when], stdout=subprocess.PIPE)
        for when in ("never", "before", "after")
    }
    found = {when: json.loads(process.communicate()[0]) for when, process in processes.items()}

    for when in ("before", "after"):
        assert all(found["never"][key] == found[when][key] for key in ("values", "breaks", "graphs"))
        assert found[when]["noted"] == 4
        assert found[when]["again"] == [["torch.manual_seed", "2"]]


def test_seeds_are_told_in_the_order_of_the_calls():
    """One call is its seed; of many the first are written out, and all of them count."""
    many = [str(n) for n in range(100)]
    rows = {s.knob: s.value for s in seed_settings({"a": ["0"], "b": ["0", "7"], "c": many, "d": many[:-1]})}

    assert (rows["a"], rows["b"]) == ("0", "0, 7 (2 calls)")
    assert rows["c"].startswith("0, 1, 2, 3, 4, 5, 6, 7, 8, ")
    assert ", 63, ... xxh3:" in rows["c"]
    assert rows["c"].endswith("(100 calls)")
    assert rows["c"] != rows["d"].replace("99 calls", "100 calls")


def test_a_loader_without_workers_has_no_worker_knobs():
    """What only workers have is not recorded without them."""
    assert {s.knob: s.value for s in loader_setting("train", 0, prefetch_factor=None)} == {
        "loader.train.num_workers": "0",
        "loader.train.pin_memory": "False",
    }


def test_a_loader_tells_its_start_method_without_fixing_it():
    """The default start method is named; the script can still choose another."""
    code = """
import multiprocessing
from bisect_diverge.environment.setters import loader_setting
rows = {s.knob: s.value for s in loader_setting("train", 2, prefetch_factor=2)}
assert rows["loader.train.start_method"] == multiprocessing.get_all_start_methods()[0], rows
multiprocessing.set_start_method("spawn")
fork = multiprocessing.get_context("fork")
rows = {s.knob: s.value for s in loader_setting("train", 2, multiprocessing_context=fork)}
assert rows["loader.train.start_method"] == "fork", rows
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_optimizer_tells_its_kernels():
    """Only the values that choose a kernel are settings; None is the library's own choice."""
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.ones(2))], lr=0.1, fused=True)

    assert {s.knob: s.value for s in optimizer_setting("opt", optimizer.param_groups[0])} == {
        "optimizer.opt.foreach": "default",
        "optimizer.opt.fused": "True",
        "optimizer.opt.capturable": "False",
        "optimizer.opt.differentiable": "False",
    }


def test_what_a_library_seeds_when_it_is_imported_is_not_the_scripts(notes, tmp_path, monkeypatch):
    """An installed module that makes a generator at import is no input; a module of the user's, or a later call, is."""
    places = {"site-packages/of_a_library": 11, "of_the_user": 22}
    for name, seed in places.items():
        module = tmp_path / f"{name}.py"
        module.parent.mkdir(exist_ok=True)
        module.write_text(f"import random\nrandom.seed({seed})\ndef later(): random.seed({seed + 1})\n")
        monkeypatch.syspath_prepend(module.parent)
    import of_a_library
    import of_the_user

    of_a_library.later()
    of_the_user.later()
    assert [seed for _, seed in notes] == ["22", "12", "23"]
