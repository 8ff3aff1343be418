"""Names: roots after their variables, modules after their FQN, slots after their place in a structure."""

from __future__ import annotations

import collections
import dataclasses

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from bisect_diverge.model.address import Address
from bisect_diverge.record import names
from bisect_diverge.store.reader import Run
from tests.record.support import addresses, mlp, recording, rows

Pair = collections.namedtuple("Pair", ["left", "right"])


@dataclasses.dataclass
class Output:
    """An output with named parts."""

    logits: torch.Tensor
    loss: torch.Tensor | None = None
    parts: tuple = ()


@dataclasses.dataclass
class ModelOutput(collections.OrderedDict):
    """A model output object that is a dataclass and a mapping of its fields at once, as some libraries have it."""

    loss: torch.Tensor
    logits: torch.Tensor
    attentions: tuple | None = None

    def __post_init__(self):
        """Fill the mapping with the fields that have a value."""
        super().__init__()
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                self[field.name] = getattr(self, field.name)


class Returns(nn.Module):
    """Returns what it was made with, or what a function makes of its arguments."""

    def __init__(self, make):
        super().__init__()
        self.make = make

    def forward(self, *args, **kwargs):
        """Call the function."""
        return self.make(*args, **kwargs)


def forward_rows(run, *, slots=True):
    """Return the forward rows of a run, as ``root:fqn#call:slot``."""
    texts = [text.split("/forward/")[1] for text in addresses(run) if "/forward/" in text]
    return texts if slots else list(dict.fromkeys(text.rpartition(":")[0] for text in texts))


def aliases(run):
    """Return the aliases in a run record."""
    with Run(run) as opened:
        return opened.first.record.aliases


def test_shared_module_and_tied_parameter(tmp_path):
    """A module under two names is called by its first one, as is a tied parameter; the run record has the others."""
    model = nn.Module()
    model.a = nn.Linear(3, 3)
    model.b = model.a
    model.deep = nn.ModuleDict({"c": model.a, "head": nn.Linear(3, 3)})
    model.deep["head"].weight = model.a.weight
    model.forward = lambda x: model.deep["head"](model.deep["c"](model.b(model.a(x))))
    with recording(tmp_path / "run"):
        model(torch.ones(1, 3))
    run = tmp_path / "run"
    assert forward_rows(run, slots=False) == ["model:#0", "model:a#0", "model:a#1", "model:a#2", "model:deep.head#0"]
    assert aliases(run) == {
        "model:a": ["b", "deep.c"],
        "model:a.weight": ["b.weight", "deep.c.weight", "deep.head.weight"],
        "model:a.bias": ["b.bias", "deep.c.bias"],
    }
    initial = [text for text in addresses(run, without=()) if "/init/" in text]
    assert [text.split("/init/")[1] for text in initial] == [
        "model:a.weight#0:param",
        "model:a.bias#0:param",
        "model:deep.head.bias#0:param",
    ]


def test_odd_keys(tmp_path):
    """Keys with characters that an address uses itself, blanks and others round-trip through the text form."""
    keys = ["a/b", "x y", "ü", "a:b", "c#0", "%41", "-", "q%", "\n"]
    model = nn.ModuleDict({key: nn.Identity() for key in keys})
    model.forward = lambda x: [model[key](x) for key in keys]
    with recording(tmp_path / "run"):
        model(torch.ones(2))
    with Run(tmp_path / "run") as run:
        file = run.first
        found = [file.address(row) for row in range(len(file.events))]
        for address in found:
            assert Address.parse(str(address)) == address
            assert len(file.rows_at(address)) == 1
    assert [address.fqn for address in found if address.slot == "output.0" and address.fqn] == keys


def test_modules_in_a_plain_list(tmp_path):
    """Modules that are not registered are named by their class below the module that called them."""

    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(2, 2), nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2))]
            self.inner = nn.ModuleList([mlp()])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    model = Hidden()
    with recording(tmp_path / "run"):
        model(torch.ones(1, 2))
        model(torch.ones(1, 2))
    assert forward_rows(tmp_path / "run", slots=False) == [
        "model:#0",
        "model:(Linear)#0",
        "model:(Linear_1)#0",
        "model:(Sequential)#0",
        "model:(Sequential).(Linear)#0",
    ]


class Trainer:
    """Holds its network the way many frameworks do."""

    def __init__(self):
        self.network = mlp()
        self._modules = ["not", "a", "mapping"]

    def fit(self):
        """Call the network."""
        return self.network(torch.ones(1, 4))


def test_roots_are_named_after_variables(tmp_path):
    """Roots are found in local variables of any caller and in attributes of their ``self``."""

    def train(net):
        return net(torch.ones(1, 4))

    trainer = Trainer()
    local = mlp()
    with recording(tmp_path / "run"):
        trainer.fit()
        train(local)
    found = [name.partition(":")[0] for name in forward_rows(tmp_path / "run", slots=False)]
    assert list(dict.fromkeys(found)) == ["network", "net"]


def test_roots_of_the_main_module(tmp_path, monkeypatch):
    """A global variable of the script goes before a local one."""
    import __main__

    net = mlp()
    monkeypatch.setattr(__main__, "the_model", net, raising=False)
    with recording(tmp_path / "run"):
        net(torch.ones(1, 4))
    assert forward_rows(tmp_path / "run")[0] == "the_model:#0:input.0"


def test_roots_without_variable(tmp_path):
    """Roots that no variable holds are named after their class, and numbered."""
    models = {"a": mlp(), "b": mlp(), "c": nn.Linear(4, 2)}
    with recording(tmp_path / "run"):
        [models[key](torch.ones(1, 4)) for key in "abc"]
        nn.Tanh()(torch.ones(1))
    found = [name.partition(":")[0] for name in forward_rows(tmp_path / "run", slots=False)]
    assert list(dict.fromkeys(found)) == ["Sequential", "Sequential_1", "Linear", "Tanh"]


def test_two_roots_of_one_variable(tmp_path):
    """A variable that comes to hold another model gives a second, numbered name."""
    with recording(tmp_path / "run"):
        for _ in range(2):
            model = mlp()
            model(torch.ones(1, 4))
    found = [name.partition(":")[0] for name in forward_rows(tmp_path / "run", slots=False)]
    assert list(dict.fromkeys(found)) == ["model", "model_1"]


def test_variable_that_refuses_to_be_compared(tmp_path):
    """Objects in the script's variables whose operators or attributes raise do not disturb the search."""

    class Hostile:
        def __getattr__(self, name):
            raise RuntimeError("of the class")

        def __eq__(self, other):
            raise RuntimeError("of the class")

        __hash__ = None

    hostile, model = Hostile(), mlp()
    with recording(tmp_path / "run"):
        model(torch.ones(1, 4))
    assert forward_rows(tmp_path / "run")[0] == "model:#0:input.0"
    assert type(hostile) is Hostile


def test_criterion_is_a_root(tmp_path):
    """A criterion is a root of its own, with its target as data and the loss as what backward starts from."""
    model, criterion = mlp(), nn.MSELoss()
    with recording(tmp_path / "run"):
        torch.optim.SGD(model.parameters())
        criterion(model(torch.ones(1, 4)), torch.zeros(1, 2)).backward()
    found = [text for text in addresses(tmp_path / "run") if "criterion" in text]
    assert found == [
        "0/0/forward/criterion:#0:input.0",
        "0/0/forward/criterion:#0:input.1",
        "0/0/forward/criterion:#0:output.0",
        "0/0/forward/criterion:loss#0:value",
        "0/0/backward/criterion:#0:grad_output.0",
    ]


def test_kwargs_stand_before_outputs(tmp_path):
    """A module called with keywords alone has its inputs as ``kwarg`` rows, before what it returns."""
    model = Returns(lambda **kwargs: kwargs["x"] * 2)
    outer = Returns(lambda x, scale: model(x=x, mask={"a": x > 0}, flag=True, none=None))
    with recording(tmp_path / "run"):
        outer(scale=2.0, x=torch.ones(2))
    assert forward_rows(tmp_path / "run") == [
        "outer:#0:kwarg.scale",
        "outer:#0:kwarg.x",
        "outer:(Returns)#0:kwarg.x",
        "outer:(Returns)#0:kwarg.mask.a",
        "outer:(Returns)#0:kwarg.flag",
        "outer:(Returns)#0:output.0",
        "outer:#0:output.0",
    ]


@pytest.mark.parametrize(
    ("make", "slots"),
    [
        (lambda x: x, ["0"]),
        (lambda x: (x, x), ["0", "1"]),
        (lambda x: [x, [x, (x,)]], ["0", "1.0", "1.1.0"]),
        (
            lambda x: {"last_hidden_state": x, "hidden": [x, x], 3: x},
            ["last_hidden_state", "hidden.0", "hidden.1", "3"],
        ),
        (lambda x: Pair(x, Pair(x, None)), ["left", "right.left"]),
        (lambda x: Output(x, None, (x, x)), ["logits", "parts.0", "parts.1"]),
        (lambda x: ModelOutput(x, x), ["loss", "logits"]),
        (lambda x: collections.OrderedDict(b=x, a=x), ["b", "a"]),
        (lambda x: (x, "text", 3, None, object(), {x}), ["0", "1", "2"]),
        (lambda x: None, []),
        (torch.sort, ["0", "1"]),
        (lambda x: nn.utils.rnn.pack_sequence([x, x]), ["data", "batch_sizes"]),
    ],
    ids=[
        "tensor",
        "tuple",
        "list",
        "dict",
        "namedtuple",
        "dataclass",
        "mapping",
        "ordered",
        "mixed",
        "none",
        "sort",
        "packed",
    ],
)
def test_paths_of_outputs(make, slots, tmp_path):
    """Every leaf of an output has a slot after its place."""
    model = Returns(make)
    with recording(tmp_path / "run"):
        model(torch.arange(3.0))
    found = [text.rpartition(":")[2] for text in forward_rows(tmp_path / "run")]
    assert found == ["input.0", *(f"output.{slot}" for slot in slots)]


def test_outputs_that_are_not_looked_into(tmp_path):
    """An output of another kind has no rows: how many there were of which class is in the run record."""
    model = Returns(lambda x: torch.distributions.Normal(x, 1.0))
    with recording(tmp_path / "run"):
        for _ in range(2):
            model(torch.ones(2))
        Returns(lambda x: ())(torch.ones(2))
    assert "output" not in "".join(forward_rows(tmp_path / "run"))
    with Run(tmp_path / "run") as run:
        assert run.first.record.coverage == {"outputs of class Normal, which is not looked into": 2}


def test_structure_that_contains_itself(tmp_path):
    """A structure that contains itself ends at some depth."""
    circle = {"x": torch.ones(1)}
    circle["again"] = circle
    model = Returns(lambda: circle)
    with recording(tmp_path / "run"):
        model()
    assert 1 < len(forward_rows(tmp_path / "run")) < 30


def test_recurrent_output(tmp_path):
    """The nested tuple of an LSTM has three leaves, each with its gradient."""
    model = nn.LSTM(2, 3)
    with recording(tmp_path / "run"):
        out, (hidden, cell) = model(torch.ones(4, 1, 2))
        (out.sum() + hidden.sum() + cell.sum()).backward()
    found = addresses(tmp_path / "run")
    assert [text for text in found if "output" in text and "forward" in text] == [
        f"0/0/forward/model:#0:output.{slot}" for slot in ("0", "1.0", "1.1")
    ]
    assert sorted(text for text in found if "backward" in text) == [
        f"0/0/backward/model:#0:grad_output.{slot}" for slot in ("0", "1.0", "1.1")
    ]


class Sometimes(nn.Module):
    """Calls one of its modules every other time."""

    def __init__(self):
        super().__init__()
        self.always, self.sometimes = nn.Linear(2, 2), nn.Linear(2, 2)
        self.count = 0

    def forward(self, x):
        """Count."""
        self.count += 1
        x = self.always(self.always(x))
        return self.sometimes(x) if self.count % 2 else x


def test_conditional_and_repeated_calls(tmp_path):
    """Calls are numbered for each module in each pass, so that one more call elsewhere moves no number."""
    model = Sometimes()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with recording(tmp_path / "run"):
        for _ in range(2):
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    outputs = [text for text in addresses(tmp_path / "run") if "/forward/" in text and "output" in text]
    assert outputs == [
        "0/0/forward/model:always#0:output.0",
        "0/0/forward/model:always#1:output.0",
        "0/0/forward/model:sometimes#0:output.0",
        "0/0/forward/model:#0:output.0",
        "1/0/forward/model:always#0:output.0",
        "1/0/forward/model:always#1:output.0",
        "1/0/forward/model:#0:output.0",
    ]


def test_wrappers_are_looked_through(tmp_path):
    """DataParallel is recorded once, under the FQNs of the wrapped module."""
    model = nn.DataParallel(mlp())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with recording(tmp_path / "run"):
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
    names = forward_rows(tmp_path / "run", slots=False)
    assert names == ["model:#0", "model:0#0", "model:1#0", "model:2#0", "model:loss#0"]
    updated = [text for text in addresses(tmp_path / "run") if text.endswith(":param")]
    assert [text.split(":")[1] for text in updated] == ["0.weight#0", "0.bias#0", "2.weight#0", "2.bias#0"]
    assert not any("module." in text for text in addresses(tmp_path / "run", without=()))


@pytest.mark.parametrize("kind", names._WRAPPERS)
def test_every_wrapper(kind):
    """Wrappers of torch are looked through, in any nesting; a class of the script's own with such a name is not."""
    inner, attribute = nn.Linear(2, 2), names._WRAPPERS[kind]

    def wrap(module, place):
        made = type(kind, (nn.Module,), {"__module__": place})()
        setattr(made, attribute, module)
        return made

    assert names.unwrap(wrap(wrap(inner, "torch.one"), "torch.two")) is inner
    mine = wrap(inner, "my.module")
    assert names.unwrap(mine) is mine
    assert [fqn for fqn, _ in names.walk(nn.Sequential(wrap(nn.Sequential(inner), "torch.one")))] == ["", "0", "0.0"]


def test_parametrizations(tmp_path):
    """A parametrized weight has the FQNs that ``named_modules`` and ``named_parameters`` have."""

    class Doubled(nn.Module):
        def forward(self, x):
            return 2 * x

    model = nn.Sequential(nn.Linear(2, 2))
    parametrize.register_parametrization(model[0], "weight", Doubled())
    with recording(tmp_path / "run"):
        model(torch.ones(1, 2))
    names = forward_rows(tmp_path / "run", slots=False)
    known = {f"model:{name}#0" for name, _ in model.named_modules()}
    assert set(names) <= known
    assert "model:0.parametrizations.weight.0#0" in names
    initial = [text.split(":")[1] for text in addresses(tmp_path / "run", without=()) if "/init/" in text]
    assert initial == [f"{name}#0" for name, _ in model.named_parameters()]


def test_modules_added_later(tmp_path):
    """A module that is registered while recording goes on is called by its FQN."""
    model = nn.Sequential(nn.Linear(2, 2))
    with recording(tmp_path / "run"):
        model(torch.ones(1, 2))
        model.append(nn.Linear(2, 2))
        model(torch.ones(1, 2))
        model[0] = nn.Tanh()
        model(torch.ones(1, 2))
    found = [text for text in addresses(tmp_path / "run") if "output" in text]
    assert [text.partition("/0/forward/")[2] for text in found] == [
        "model:0#0:output.0",
        "model:#0:output.0",
        "model:0#0:output.0",
        "model:1#0:output.0",
        "model:#0:output.0",
        "model:0#0:output.0",
        "model:1#0:output.0",
        "model:#0:output.0",
    ]
    kinds = {text: record.module_type for text, record in rows(tmp_path / "run").items()}
    assert kinds["0/0/forward/model:0#0:output.0"] == "Linear"
    assert kinds["2/0/forward/model:0#0:output.0"] == "Tanh"


def test_lazy_modules(tmp_path):
    """A lazy module becomes what it is at its first call, and is recorded."""
    model = nn.Sequential(nn.LazyLinear(3), nn.ReLU())
    with recording(tmp_path / "run"):
        model(torch.ones(1, 2)).sum().backward()
    assert forward_rows(tmp_path / "run", slots=False)[:2] == ["model:#0", "model:0#0"]


def test_tracing_is_no_pass(tmp_path):
    """Symbolic tracing, scripting and exporting call modules without computing: they are no passes of the run."""

    class Inner(nn.Module):
        def forward(self, x):
            return x + 1

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.layer = Inner(), nn.Linear(4, 4)

        def forward(self, x):
            return self.layer(self.inner(x))

    model = Outer()
    with recording(tmp_path / "run"):
        graph = torch.fx.symbolic_trace(model)
        torch.export.export(model, (torch.ones(1, 4),))
        model(torch.ones(1, 4))
        graph(torch.ones(1, 4))
    names = forward_rows(tmp_path / "run", slots=False)
    assert names == ["model:#0", "model:inner#0", "model:layer#0", "graph:#0", "graph:layer#0"]
    assert addresses(tmp_path / "run")[0].startswith("0/0/")


class Interrupt(BaseException):
    """Not an Exception: torch calls no hook when it passes."""


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, Interrupt, SystemExit])
def test_calls_that_an_exception_ended(error, tmp_path):
    """After an exception inside a forward, whatever its kind, the next call is a root again."""
    model, other = nn.Sequential(nn.Linear(2, 2)), nn.Linear(2, 2)

    def fail(x):
        if x.shape[0] == 1:
            raise error
        return x

    model.append(Returns(fail))
    with recording(tmp_path / "run"):
        for inputs in (torch.ones(3, 2), torch.ones(1, 2), torch.ones(2, 2)):
            with pytest.raises(error) if len(inputs) == 1 else torch.no_grad():
                model(inputs)
        other(torch.ones(1, 2))
    found = [text for text in addresses(tmp_path / "run") if text.endswith("output.0")]
    assert [text.partition("/forward/")[2] for text in found] == [
        "model:0#0:output.0",
        "model:1#0:output.0",
        "model:#0:output.0",
        "model:0#0:output.0",
        "model:0#0:output.0",
        "model:1#0:output.0",
        "model:#0:output.0",
        "other:#0:output.0",
    ]
    assert {text.split("/")[0] for text in found[4:7]} != {found[0].split("/")[0]}


def test_recursive_module(tmp_path):
    """A module that calls itself is one module with several calls."""

    class Recursive(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x, depth=2):
            return self(self.layer(x), depth - 1) if depth else x

    model = Recursive()
    with recording(tmp_path / "run"):
        model(torch.ones(1, 2))
    names = forward_rows(tmp_path / "run", slots=False)
    assert names == ["model:#0", "model:layer#0", "model:#1", "model:layer#1", "model:#2"]


def test_call_sites(tmp_path):
    """A call's site is the user's line that led to it."""
    model = mlp()
    with recording(tmp_path / "run"):
        model(torch.ones(1, 4))
    site = rows(tmp_path / "run")["0/0/forward/model:0#0:output.0"].site
    assert site.rpartition(":")[0] == __file__
