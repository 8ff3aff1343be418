"""Every way in which a tensor reaches a module, recorded from real training: where the difference begins, and why."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from bisect_diverge.diff.compare import compare
from bisect_diverge.diff.comparison import Comparison
from bisect_diverge.diff.edges import StepView
from bisect_diverge.diff.options import DiffOptions
from bisect_diverge.diff.origin import Judge, Origin, Ranks
from bisect_diverge.diff.places import address_at
from bisect_diverge.model.address import Address
from bisect_diverge.model.divergence import DivergenceKind
from bisect_diverge.model.findings import BatchRelation
from bisect_diverge.store.reader import Run
from tests.record.support import recording

MORE = 1.001


class Scaled(nn.Linear):
    """A layer with a kernel of its own: it may compute something else from the same inputs."""

    factor = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the layer's output, scaled."""
        return super().forward(x) * self.factor if self.factor != 1 else super().forward(x)


class Block(nn.Module):
    """Modules that are given an object, a view, what functions made, a sum, and draws."""

    def __init__(self, knob: str) -> None:
        super().__init__()
        self.first = Scaled(8, 8)
        self.same = nn.Linear(8, 8)
        self.viewed = nn.Linear(4, 4)
        self.made = nn.Linear(8, 8)
        self.drop = nn.Dropout(0.5)
        self.summed = nn.Linear(8, 8)
        self.register_buffer("shift", torch.zeros(8))
        self.knob = knob

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output of all of them."""
        h = self.first(x)
        h = self.same(h)
        h = self.viewed(h.view(-1, 4)).view(-1, 8)
        h = functional.gelu(h) * (MORE if self.knob == "between" else 1)
        h = self.made(h)
        if self.knob == "draw":
            torch.rand(1)
        h = self.drop(h)
        h = self.summed(x + h * (MORE if self.knob == "sum" else 1))
        return h * (MORE if self.knob == "end" else 1) + self.shift


class Net(nn.Module):
    """A block, and a head."""

    def __init__(self, knob: str) -> None:
        super().__init__()
        self.block = Block(knob)
        self.head = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the head's output."""
        return self.head(self.block(x))


def train(knob: str) -> None:
    """Train two steps, with one thing otherwise."""
    torch.manual_seed(0)
    x, y = torch.randn(8, 8), torch.randn(8, 2)
    model = Net(knob)
    if knob == "kernel":
        model.block.first.factor = MORE
    with torch.no_grad():
        if knob == "parameter":
            model.block.same.weight[0, 0] += 1
        if knob == "buffer":
            model.block.shift[0] += 1
    if knob == "order":
        x, y = x.flip(0), y.flip(0)
    samples = torch.utils.data.TensorDataset(x * MORE if knob == "batch" else x, y)
    loader = torch.utils.data.DataLoader(samples, batch_size=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    torch.manual_seed(1 if knob == "seed" else 0)
    for inputs, wanted in loader:
        optimizer.zero_grad()
        loss = functional.mse_loss(model(inputs), wanted * (MORE if knob == "loss" else 1))
        loss = loss * (MORE if knob == "scaled" else 1)
        loss.backward()
        optimizer.step()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that records a training with one thing otherwise, once."""
    folder = tmp_path_factory.mktemp("reached")
    updates = importlib.import_module("bisect_diverge.record.updates")

    def record(knob: str) -> Path:
        path = folder / (knob or "base")
        if not path.exists():
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(updates, "constructed_before", lambda: False)
                with recording(path):
                    train(knob)
        return path

    return record


@dataclass(frozen=True)
class Case:
    """One thing that differs, and what is to be found."""

    knob: str
    first: str
    kind: DivergenceKind
    reason: str
    origin: bool | None = True
    ignore: tuple[str, ...] = ()
    stretch: str = ""


BLOCK = "r0/0/0/forward/model:block"
CASES = {
    "a kernel": Case(
        "kernel",
        f"{BLOCK}.first#0:output.0",
        DivergenceKind.COMPUTATION,
        "its 1 input and everything recorded inside that call are equal",
    ),
    "the same object": Case(
        "kernel",
        f"{BLOCK}.same#0:input.0",
        DivergenceKind.COMPUTATION,
        f"it comes from {BLOCK}.first#0:output.0, which differs",
        origin=False,
        ignore=("*first*",),
    ),
    "a view": Case(
        "kernel",
        f"{BLOCK}.viewed#0:input.0",
        DivergenceKind.COMPUTATION,
        f"it comes from {BLOCK}.same#0:output.0, which differs",
        origin=False,
        ignore=("*first*", "*same*"),
    ),
    "functional code between modules": Case(
        "between",
        f"{BLOCK}.made#0:input.0",
        DivergenceKind.COMPUTATION,
        "it is made in model:block#0, whose inputs and modules called before it are equal",
        stretch="in Block.forward, at the latest between viewed and made",
    ),
    "functional code behind a module that differs": Case(
        "kernel",
        f"{BLOCK}.made#0:input.0",
        DivergenceKind.COMPUTATION,
        f"it may have been made from {BLOCK}.first#0:output.0, which differs",
        origin=None,
        ignore=("*first*", "*same*", "*viewed*"),
        stretch="in Block.forward, at the latest between viewed and made",
    ),
    "a residual sum": Case(
        "sum",
        f"{BLOCK}.summed#0:input.0",
        DivergenceKind.COMPUTATION,
        "it is made in model:block#0, whose inputs and modules called before it are equal",
        stretch="in Block.forward, at the latest between drop and summed",
    ),
    "code at the end of a forward": Case(
        "end",
        f"{BLOCK}#0:output.0",
        DivergenceKind.COMPUTATION,
        "its 1 input and everything recorded inside that call are equal",
        stretch="in Block.forward, after summed",
    ),
    "an initial parameter": Case(
        "parameter",
        "r0/0/-/init/model:block.same.weight#0:param",
        DivergenceKind.INITIALIZATION,
        "nothing is recorded before the initial values",
    ),
    "a parameter": Case(
        "parameter",
        f"{BLOCK}.same#0:output.0",
        DivergenceKind.COMPUTATION,
        "its parameter or buffer block.same.weight differs",
        origin=False,
        ignore=("*/init/*",),
    ),
    "a buffer": Case(
        "buffer",
        f"{BLOCK}#0:output.0",
        DivergenceKind.COMPUTATION,
        "its parameter or buffer block.shift differs",
        origin=False,
        ignore=("*/init/*",),
    ),
    "a seed": Case(
        "seed",
        "r0/0/-/rng/-:#0:torch.cpu",
        DivergenceKind.RNG,
        "no earlier state of that generator is recorded: it was seeded differently, or by nobody",
    ),
    "a draw": Case(
        "seed",
        f"{BLOCK}.drop#0:output.0",
        DivergenceKind.COMPUTATION,
        "it draws from torch.cpu, whose state differed before",
        origin=False,
        ignore=("*/rng/*",),
    ),
    "a draw too many": Case(
        "draw",
        "r0/0/0/rng/model:block#0:torch.cpu",
        DivergenceKind.RNG,
        "only B draws there: the state before is equal",
        stretch="in Block.forward, between made and drop",
    ),
    "a batch": Case(
        "batch",
        "r0/0/-/data/loader:#0:batch.0",
        DivergenceKind.DATA,
        "it is handed out by a loader: no recorded tensor goes into it",
    ),
    "an input that was a batch": Case(
        "batch",
        "r0/0/0/forward/model:#0:input.0",
        DivergenceKind.COMPUTATION,
        "it comes from r0/0/-/data/loader:#0:batch.0, which differs",
        origin=False,
        ignore=("*/data/*",),
    ),
    "a functional loss": Case(
        "loss",
        "r0/0/0/data/model:loss#0:input.target",
        DivergenceKind.DATA,
        "labels that the loss function was given: no recorded tensor is known to have gone in",
    ),
    "a weight of a loss": Case(
        "scaled",
        "r0/0/0/forward/model:loss#0:value",
        DivergenceKind.COMPUTATION,
        "no recorded tensor is known to have gone into the loss, and none before it in that step differs: labels, "
        "weights and options of a loss function enter no module",
        origin=None,
    ),
}


@pytest.mark.parametrize("name", list(CASES))
def test_where_a_difference_begins_and_why(recorded: Callable[[str], Path], name: str):
    """First, kind, origin with its reason, and the stretch of code where no module call shows it."""
    case = CASES[name]
    with compare(Run(recorded("")), Run(recorded(case.knob)), DiffOptions(ignore=case.ignore)) as result:
        found = result.divergence

    assert found.first is not None
    assert str(found.first.address) == case.first
    assert found.kind is case.kind
    assert (found.is_origin, found.origin_reason.partition(", whose state differed before")[0]) == (
        case.origin,
        case.reason.partition(", whose state differed before")[0],
    )
    where = "" if found.stretch is None else found.stretch.sentence
    assert where.partition(" (")[0] == case.stretch
    assert not where or Path(__file__).name in where


def test_samples_in_another_order_are_recognised(recorded: Callable[[str], Path]):
    """Also where a batch has none of the samples of the other."""
    with compare(Run(recorded("")), Run(recorded("order"))) as result:
        found = result.divergence.batches

    assert found is not None
    assert found.relation is BatchRelation.REORDERED
    assert found.sentence.startswith("all 4 samples of B's batch are in A's batches of steps 0 to 1")


@pytest.mark.parametrize("knob", sorted({case.knob for case in CASES.values()}))
def test_what_follows_is_counted_and_not_listed(recorded: Callable[[str], Path], knob: str):
    """One thing differs, so one place is an origin; all else of the step is counted as following from it."""
    with compare(Run(recorded("")), Run(recorded(knob))) as result:
        found = result.divergence
        differing = [i for i in range(len(result.state)) if result.state[i] == 1 and result.step[i] == 0]

    first = [] if found.is_origin is None else [found.first and found.first.address]
    paired = [address for address in found.origins_in_first_step if knob != "draw"]
    assert list(found.origins_in_first_step) == first
    assert found.propagated == len(differing) - len(paired)


def origin_of(result: Comparison, address: str) -> Origin:
    """Return what is said of any row of step 0."""
    trace = result._traces[0]
    view = StepView(trace, 0)
    wanted = Address.parse(address)
    row = next(row for row in range(len(view)) if address_at(trace, int(view.index[row])) == wanted)
    return Judge(view, Ranks()).judge(row)


@pytest.mark.parametrize("slot", ["output.0", "input.0"])
def test_the_rows_behind_an_origin_are_none(recorded: Callable[[str], Path], slot: str):
    """Modules behind the first that differs follow from it, or are not known to be origins."""
    with compare(Run(recorded("")), Run(recorded("kernel"))) as result:
        for module in ("same", "viewed", "made", "drop", "summed"):
            assert origin_of(result, f"{BLOCK}.{module}#0:{slot}").holds is not True
        assert origin_of(result, "r0/0/-/optimizer/optimizer:block.made.weight#0:grad").holds is False
        assert origin_of(result, "r0/0/-/optimizer/optimizer:block.made.weight#0:param").holds is False


def test_only_tensors_of_the_first_divergence_are_read(
    recorded: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
):
    """Finding it takes digests; bytes are read for the statistics of that one record alone."""
    read = set()

    def watched(name: str, real: Callable[[int], object]) -> Callable[[int], object]:
        return lambda row: (read.add((name, row)), real(row))[1]

    with Run(recorded("")) as a, Run(recorded("kernel")) as b:
        for name, run in (("a", a), ("b", b)):
            monkeypatch.setattr(run.first, "tensor", watched(name, run.first.tensor))
        result = compare(a, b)
        at = result.first

        assert read == {("a", int(result.row_a[at])), ("b", int(result.row_b[at]))}
