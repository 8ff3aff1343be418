"""Tensors of every kind go through modules: bits stay, rows are there, and nothing of ours raises."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bisect_diverge.model.record import Flag
from bisect_diverge.store.reader import Run
from tests.record.support import everything, grads, mlp, recording, rows, same_with_us

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*prototype stage:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*beta state:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*quantize_per_tensor:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.ao.quantization is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*quantize_dynamic:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
]


class Passes(nn.Module):
    """Returns what a function makes of its input."""

    def __init__(self, function=lambda x: x):
        super().__init__()
        self.function = function

    def forward(self, x):
        """Call the function."""
        return self.function(x)


def types(run):
    """Return address to element type and whether it is typed as not hashable."""
    return {text: (record.dtype, bool(record.flags & Flag.UNHASHABLE)) for text, record in rows(run).items()}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast(dtype, tmp_path):
    """Under autocast a layer takes float32 and returns the lower precision, and its parameters stay float32."""

    def train():
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(2):
            with torch.autocast("cpu", dtype):
                loss = model(torch.randn(3, 4)).float().square().mean()
            loss.backward()
            optimizer.step()
        return everything(model)

    same_with_us(train, tmp_path / "run")
    found = types(tmp_path / "run")
    low = str(dtype).removeprefix("torch.")
    assert found["0/0/forward/model:0#0:input.0"] == ("float32", False)
    assert found["0/0/forward/model:0#0:output.0"] == (low, False)
    assert found["0/0/backward/model:0#0:grad_output.0"] == (low, False)
    assert found["1/-/optimizer/optimizer:0.weight#0:param"] == ("float32", False)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_models_of_another_precision(dtype, tmp_path):
    """A model of another type has rows of that type, its gradients and its state too."""

    def train():
        model = mlp().to(dtype)
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.randn(3, 4, dtype=dtype)).square().mean().backward()
        optimizer.step()
        return everything(model, optimizer.state_dict())

    same_with_us(train, tmp_path / "run")
    name = str(dtype).removeprefix("torch.")
    found = types(tmp_path / "run")
    for slot in ("grad", "param", "state.exp_avg"):
        assert found[f"0/-/optimizer/optimizer:0.weight#0:{slot}"] == (name, False)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("float8_e4m3fn", lambda x: x.to(torch.float8_e4m3fn)),
        ("float8_e5m2", lambda x: x.to(torch.float8_e5m2)),
        ("complex64", lambda x: torch.complex(x, -x)),
        ("complex64", lambda x: torch.complex(x, -x).conj()),
        ("bool", lambda x: x > 0),
        ("uint16", lambda x: x.abs().to(torch.uint16)),
        ("int8", lambda x: x.to(torch.int8)),
    ],
    ids=["e4m3", "e5m2", "complex", "conjugate", "bool", "uint16", "int8"],
)
def test_readable_types(name, make, tmp_path):
    """A module that returns a tensor of any plain type has a row with its bits."""
    with recording(tmp_path / "run"):
        Passes(make)(torch.linspace(-2, 2, 6))
    found = [record for text, record in rows(tmp_path / "run").items() if text.endswith("output.0")]
    assert [record.dtype for record in found] == [name]
    assert all(record.kept and not record.flags & Flag.UNHASHABLE for record in found)


def fake(x):
    """Return a tensor without memory, of torch's own class."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode().from_tensor(x)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.to_sparse(),
        lambda x: x.to_sparse_csr(),
        lambda x: torch.nested.nested_tensor([x[0], x[1, :2]]),
        lambda x: torch.nested.nested_tensor([x[0], x[1, :2]], layout=torch.jagged),
        lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
        lambda x: x.to("meta"),
        lambda x: x.to_mkldnn(),
        fake,
    ],
    ids=["sparse", "sparse rows", "nested", "jagged", "quantized", "meta", "mkldnn", "fake"],
)
def test_types_without_readable_bytes(make, tmp_path):
    """They are a typed row without bytes as input, output and batch, and the script goes on."""
    inner = Passes(lambda x: (x, {"again": x}))
    model = Passes(lambda x: inner(make(x)))
    with recording(tmp_path / "run"), torch.no_grad():
        out = model(torch.ones(2, 3))
        assert type(out[0]) is type(make(torch.ones(2, 3)))
    found = [record for text, record in rows(tmp_path / "run").items() if "(Passes)" in text]
    assert len(found) == 3
    for record in found:
        assert record.dtype == "unhashable"
        assert record.flags & Flag.UNHASHABLE
        assert not record.kept
    assert len({record.digest for record in found}) == 1


def test_quantized_model(tmp_path):
    """A dynamically quantized model computes and is recorded; its packed weights are no tensors."""
    model = torch.ao.quantization.quantize_dynamic(mlp(), {nn.Linear}, torch.qint8)

    def infer():
        with torch.no_grad():
            return model(torch.randn(2, 4))

    same_with_us(infer, tmp_path / "run")
    assert types(tmp_path / "run")["0/e0/forward/model:0#0:output.0"] == ("float32", False)


def test_training_on_sparse_gradients(tmp_path):
    """A sparse gradient is a typed row; the update that it makes is recorded in full."""

    def train():
        model = nn.Embedding(5, 3, sparse=True)
        optimizer = torch.optim.SparseAdam(model.parameters())
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.tensor([1, 3])).sum().backward()
            optimizer.step()
        return dict(model.state_dict())

    same_with_us(train, tmp_path / "run")
    found = types(tmp_path / "run")
    assert found["0/-/optimizer/optimizer:weight#0:grad"] == ("unhashable", True)
    assert found["1/-/optimizer/optimizer:weight#0:param"] == ("float32", False)


def test_nested_tensors_train(tmp_path):
    """A jagged batch goes through a layer and back; the layer's gradients are those without us."""

    def train():
        model = nn.Linear(3, 2)
        batch = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
        model(batch).values().sum().backward()
        return grads(model)

    same_with_us(train, tmp_path / "run")
    with Run(tmp_path / "run") as run:
        assert not [key for key in run.first.record.coverage if key.startswith("failures")]
    assert types(tmp_path / "run")["0/0/forward/model:#0:output.0"] == ("unhashable", True)


def test_model_on_meta(tmp_path):
    """A model without memory is called for its shapes, then made real: the second is another root's worth of rows."""
    with recording(tmp_path / "run"), torch.no_grad():
        model = mlp().to("meta")
        assert model(torch.ones(2, 4, device="meta")).shape == (2, 2)
        model = model.to_empty(device="cpu")
        for parameter in model.parameters():
            parameter.zero_()
        assert model(torch.ones(2, 4)).shape == (2, 2)
    found = types(tmp_path / "run")
    assert found["0/-/init/model:0.weight#0:param"] == ("unhashable", True)
    assert found["0/e0/forward/model:#0:output.0"] == ("unhashable", True)
    assert found["1/e0/forward/model:#0:output.0"] == ("float32", False)
