"""torch.compile: the compiled program stays what it is, and the compiled module is still seen from outside."""

from __future__ import annotations

import shutil

import pytest
import torch
from torch import nn

import bisect_diverge
from bisect_diverge.model.coverage import COMPILED, INSIDE_COMPILED, NO_MODULE, UNCALLED
from bisect_diverge.store.reader import Run
from tests.record.support import addresses, bits, everything, recording, seed_all

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),  # torch's own modules
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),  # dynamo looks at it, not we
]

BACKENDS = ["eager", "aot_eager_decomp_partition"]


class Net(nn.Module):
    """Two levels of modules, a functional stretch and dropout."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Dropout(0.1)) for _ in range(2))
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        """Run the blocks and the head."""
        for block in self.blocks:
            x = x + block(x).tanh()
        return self.head(x)


def steps_of(model, call, number=2):
    """Train for some steps through `call`; return the model's tensors, losses and what dynamo counted."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for _ in range(number):
        optimizer.zero_grad()
        loss = call(torch.randn(4, 8)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    counters = torch._dynamo.utils.counters
    counted = (
        dict(counters["graph_break"]),
        counters["stats"]["unique_graphs"],
        counters["frames"]["total"],
        counters["recompiles"].total() if hasattr(counters["recompiles"], "total") else 0,
    )
    return bits(everything(model, losses)), counted


@pytest.fixture(autouse=True)
def fresh_compiler():
    """Forget all compiled code and all counts."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def compiled_function(backend):
    """Compile the module into another."""
    model = Net()
    return steps_of(model, torch.compile(model, backend=backend))


def compiled_in_place(backend):
    """Compile the module itself."""
    model = Net()
    model.compile(backend=backend)
    return steps_of(model, model)


def compiled_child(backend):
    """Compile one block; the rest runs eagerly and hands it tensors that have hooks of ours."""
    model = Net()
    model.blocks[1] = torch.compile(model.blocks[1], backend=backend)
    return steps_of(model, model)


def compiled_step(backend):
    """Compile a function that calls the module, and the update."""
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    @torch.compile(backend=backend)
    def loss_of(x):
        return model(x).square().mean()

    update = torch.compile(optimizer.step, backend="eager")
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = loss_of(torch.randn(4, 8))
        loss.backward()
        update()
        losses.append(loss.detach())
    counters = torch._dynamo.utils.counters
    return bits(everything(model, losses)), (dict(counters["graph_break"]), counters["stats"]["unique_graphs"])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("way", [compiled_function, compiled_in_place, compiled_child, compiled_step])
def test_same_program(way, backend, tmp_path):
    """Same bits, no graph break, as many graphs and frames as without us, and no warning."""
    seed_all()
    plain, counted = way(backend)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    seed_all()
    with recording(tmp_path / "run"):
        recorded, counted_recorded = way(backend)
    if way is not compiled_step:
        assert counted[0] == {}
    assert counted_recorded == counted
    assert recorded == plain


@pytest.mark.matrix
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor compiles with g++")
@pytest.mark.parametrize("way", [compiled_function, compiled_in_place, compiled_child])
def test_same_program_from_inductor(way, tmp_path):
    """The same with the compiler that people use, whose programs are not Python."""
    test_same_program(way, "inductor", tmp_path)


@pytest.mark.parametrize("way", [compiled_function, compiled_in_place])
def test_compiled_module_is_one_call(way, tmp_path):
    """A compiled module is recorded from outside: inputs, outputs and gradients of the root, nothing inside."""
    with recording(tmp_path / "run"):
        way("aot_eager_decomp_partition")
    found = [text for text in addresses(tmp_path / "run") if "/optimizer/" not in text]
    assert found == [
        line
        for step in range(2)
        for line in (
            f"{step}/0/forward/model:#0:input.0",
            f"{step}/0/forward/model:#0:output.0",
            f"{step}/0/forward/model:loss#0:value",
            f"{step}/0/backward/model:#0:grad_output.0",
        )
    ]


def test_compiled_in_place_before_recording(tmp_path):
    """A module compiled in place before the recording began is seen, or it is said that it is not."""
    model = Net()
    model.compile(backend="eager")
    model(torch.randn(4, 8))
    with recording(tmp_path / "run"):
        steps_of(model, model)
    found = addresses(tmp_path / "run") if list((tmp_path / "run").glob("*.h5")) else []
    assert "0/0/forward/model:#0:output.0" in found


def test_compiled_before_recording(tmp_path):
    """A module compiled by torch.compile before the recording began is seen from outside."""
    model = Net()
    compiled = torch.compile(model, backend="eager")
    compiled(torch.randn(4, 8))
    with recording(tmp_path / "run"):
        steps_of(model, compiled)
    assert "0/0/forward/model:#0:output.0" in addresses(tmp_path / "run")


class Inner(nn.Module):
    """A module of the user's own, which is compiled by itself."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        """Run the layer and functional code."""
        return self.layer(x).tanh() * 2


class Outer(nn.Module):
    """Calls a module that is compiled."""

    def __init__(self):
        super().__init__()
        self.inner, self.head = Inner(), nn.Linear(8, 2)

    def forward(self, x):
        """Run both."""
        return self.head(self.inner(x))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("way", ["in place", "wrapped"])
def test_child_compiled_before_recording(way, backend, tmp_path):
    """A child that was compiled, and run, before the recording began is one call; its inside is said to be opaque."""
    seed_all()
    model = Outer()
    if way == "in place":
        model.inner.compile(backend=backend)
    else:
        model.inner = torch.compile(model.inner, backend=backend)
    steps_of(model, model, 1)
    with recording(tmp_path / "run"):
        steps_of(model, model)
    found = [text for text in addresses(tmp_path / "run") if text.startswith("0/0/forward")]
    assert found == [
        f"0/0/forward/model:{place}"
        for place in (
            "#0:input.0",
            "inner#0:input.0",
            "inner#0:output.0",
            "head#0:input.0",
            "head#0:output.0",
            "#0:output.0",
            "loss#0:value",
        )
    ]
    with Run(tmp_path / "run") as run:
        coverage = run.first.record.coverage
    assert coverage[COMPILED] >= 1
    assert coverage[INSIDE_COMPILED] == 1
    assert UNCALLED not in coverage


def test_function_compiled_before_recording(tmp_path, capfd):
    """A compiled function hides the modules that it calls: what is left of the run says so aloud."""
    model, criterion = Net(), nn.MSELoss()
    function = torch.compile(lambda x: model(x) * 2, backend="aot_eager_decomp_partition")
    criterion(function(torch.randn(4, 8)), torch.zeros(4, 2)).backward()
    with recording(tmp_path / "run"):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        criterion(function(torch.randn(4, 8)), torch.zeros(4, 2)).backward()
        optimizer.step()
    assert "none of the 6 parameters of optimizer is in a module that was called" in capfd.readouterr().err
    with Run(tmp_path / "run") as run:
        coverage = run.first.record.coverage
    assert coverage[COMPILED] == 1
    assert coverage[NO_MODULE] == 6


def test_nothing_but_a_compiled_function(tmp_path, capfd):
    """A run in which no module call was seen says what may be behind that."""
    model = Net()
    function = torch.compile(lambda x: model(x) * 2, backend="eager")
    function(torch.randn(4, 8))
    with recording(tmp_path / "run"):
        function(torch.randn(4, 8))
    said = capfd.readouterr().err
    assert "nothing was recorded" in said
    assert "torch.compile" in said


def test_module_stays_compiled_after_recording(tmp_path):
    """A module compiled in place under a recording works after it, and in a second one."""
    model = Net()
    with recording(tmp_path / "one"):
        model.compile(backend="eager")
        model(torch.randn(4, 8))
    x = torch.randn(4, 8)
    model.eval()
    assert torch.equal(model(x), model.forward(x))
    with recording(tmp_path / "two"):
        model(torch.randn(4, 8))
    assert addresses(tmp_path / "two") == [f"0/e0/forward/model:#0:{slot}" for slot in ("input.0", "output.0")]


def test_error_in_compiled_module_passes(tmp_path):
    """An error in a module compiled in place reaches the script, and the next call is recorded as usual."""
    model = nn.Linear(4, 2)
    with bisect_diverge.record(tmp_path / "run"):
        model.compile(backend="eager")
        with pytest.raises(Exception, match=r"shape|size"):
            model(torch.randn(3, 5))
        model(torch.randn(3, 4))
    assert addresses(tmp_path / "run")[-1].endswith("forward/model:#0:output.0")
