"""A recorded run computes the same bits as an unrecorded one: parameters, gradients, losses, generators."""

# ruff: noqa: D102, D103 - the name of a scenario says what it is
from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.record.support import bits, everything, generator_states, grads, mlp, recording, seed_all, train

SCENARIOS = {}


def scenario(function):
    """Add a function to the table of runs that are made with and without the recorder."""
    SCENARIOS[function.__name__] = function
    return function


class Branching(nn.Module):
    """The net whose gradients a no-op full backward hook changes."""

    def __init__(self):
        super().__init__()
        self.net1 = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 16))
        self.net2 = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 16))

    def forward(self, x):
        y = self.net1(x)
        return y, self.net2(y)


class Residual(nn.Module):
    """Three blocks, each added to its input."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU()) for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


class Tied(nn.Module):
    """Embedding and output share their weight."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 8)
        self.mix = nn.Linear(8, 8)
        self.head = nn.Linear(8, 10, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(self.mix(self.embed(tokens)).relu())


@scenario
def branching():
    return train(Branching(), torch.randn(64, 16), loss=lambda out: out[0].sum() + out[1].sum())


@scenario
def residual():
    return train(Residual(), torch.randn(5, 8))


@scenario
def tied_weights():
    return train(Tied(), torch.randint(0, 10, (4, 6)))


@scenario
def batch_norm():
    return train(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()), torch.randn(4, 3, 6, 6))


@scenario
def inplace_relu():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 8), nn.Hardtanh(inplace=True))
    return train(model, torch.randn(5, 4))


@scenario
def dropout():
    return train(
        nn.Sequential(nn.Linear(4, 32), nn.Dropout(0.3), nn.Linear(32, 2), nn.AlphaDropout()), torch.randn(8, 4)
    )


@scenario
def lstm():
    return train(nn.LSTM(4, 6, 2, dropout=0.2), torch.randn(5, 3, 4), loss=lambda out: out[0].sum() + out[1][1].sum())


@scenario
def transformer_layer_training():
    return train(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), torch.randn(2, 5, 8))


@scenario
def transformer_layer_evaluation():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()
    with torch.no_grad():
        return [model(torch.randn(2, 5, 8)), everything(model)]


@scenario
def multihead_attention():
    model, x = nn.MultiheadAttention(8, 2, dropout=0.1), torch.randn(5, 3, 8)
    return train(model, x, x, x, loss=lambda out: out[0].square().sum() + out[1].sum())


class Checkpointed(nn.Module):
    """Two blocks that are run again in backward."""

    def __init__(self, reentrant):
        super().__init__()
        self.reentrant = reentrant
        self.first = nn.Linear(8, 8)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.2), nn.Tanh()) for _ in range(2))

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.reentrant)
        return x


@scenario
def checkpointing_reentrant():
    return train(Checkpointed(True), torch.randn(4, 8))


@scenario
def checkpointing_non_reentrant():
    return train(Checkpointed(False), torch.randn(4, 8))


class Sections(nn.Module):
    """A chain in sections, each run again in backward."""

    def __init__(self):
        super().__init__()
        self.chain = nn.Sequential(*[nn.Linear(8, 8) for _ in range(4)])

    def forward(self, x):
        return checkpoint_sequential(self.chain, 2, x, use_reentrant=False)


@scenario
def checkpointing_sequential():
    return train(Sections(), torch.randn(4, 8))


@scenario
def lbfgs():
    model, x = mlp(), torch.randn(6, 4)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, history_size=3)

    def closure():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    losses = [optimizer.step(closure).detach() for _ in range(2)]
    return everything(model, losses, optimizer.state_dict())


@scenario
def grad_scaler():
    model, x = mlp(), torch.randn(6, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)
    for step in range(4):
        optimizer.zero_grad()
        loss = model(x * (float("inf") if step == 1 else 1.0)).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    return everything(model, scaler.state_dict(), optimizer.state_dict())


@scenario
def autocast_bf16():
    model, x = Residual(), torch.randn(6, 8)
    optimizer = torch.optim.Adam(model.parameters(), amsgrad=True)
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
    return everything(model, loss, optimizer.state_dict())


@scenario
def sparse_embedding():
    model = nn.Embedding(20, 4, sparse=True)
    optimizer = torch.optim.SparseAdam(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randint(0, 20, (7,))).square().sum().backward()
        optimizer.step()
    return everything(model, optimizer.state_dict())


@scenario
def gradient_penalty():
    model, x = nn.Sequential(nn.Linear(4, 8), nn.Softplus(), nn.Linear(8, 1)), torch.randn(6, 4, requires_grad=True)
    optimizer = torch.optim.RMSprop(model.parameters(), momentum=0.5, centered=True)
    for _ in range(2):
        optimizer.zero_grad()
        output = model(x)
        (slope,) = torch.autograd.grad(output.sum(), x, create_graph=True)
        (output.mean() + (slope.norm(dim=1) - 1).square().mean()).backward()
        optimizer.step()
    return everything(model, slope, x.grad, optimizer.state_dict())


@scenario
def retained_graph():
    model, x = mlp(), torch.randn(6, 4)
    loss = model(x).square().mean()
    loss.backward(retain_graph=True)
    loss.backward(gradient=torch.tensor(0.5))
    torch.autograd.backward([model(x).sum(), model(x).prod()], inputs=list(model.parameters())[:2])
    return everything(model)


@scenario
def moving_average_by_deepcopy():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), torch.randn(6, 4)
    average = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    outputs = []
    for _ in range(2):
        model(x).square().mean().backward()
        optimizer.step()
        with torch.no_grad():
            for mine, other in zip(average.parameters(), model.parameters(), strict=True):
                mine.lerp_(other, 0.1)
            outputs.append(average(x))
    swa = torch.optim.swa_utils.AveragedModel(model)
    swa.update_parameters(model)
    return [everything(model), everything(average), outputs, swa(x)]


@scenario
def functional_transforms():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1)), torch.randn(5, 4)
    parameters = dict(model.named_parameters())

    def loss(parameters, sample):
        return torch.func.functional_call(model, parameters, (sample,)).square().sum()

    per_sample = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, x)
    jacobian = torch.func.jacrev(model)(x[0])
    forward = torch.func.jvp(model, (x,), (torch.ones_like(x),))
    hessian = torch.func.hessian(lambda sample: model(sample).sum())(x[0])
    random_vmap = torch.func.vmap(lambda y: model(nn.functional.dropout(y)), randomness="different")(x)
    return [per_sample, jacobian, forward, hessian, random_vmap]


@scenario
def batched_copies():
    models = [mlp() for _ in range(3)]
    x = torch.randn(5, 4)
    parameters, buffers = torch.func.stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")
    output = torch.func.vmap(lambda p, b: torch.func.functional_call(base, (p, b), (x,)))(parameters, buffers)
    output.sum().backward()
    return [output, [p.grad for p in parameters.values()]]


@scenario
def traced_and_scripted():
    model, x = mlp(), torch.randn(5, 4)
    traced = torch.jit.trace(model, x)
    scripted = torch.jit.script(mlp())
    graph = str(traced.inlined_graph).count("aten::")
    traced(x).sum().backward()
    scripted(x).sum().backward()
    return [graph, grads(model), grads(scripted), str(scripted.code)]


@scenario
def exported_and_symbolically_traced():
    model, x = mlp(), torch.randn(5, 4)
    program = torch.export.export(model, (x,))
    graph = torch.fx.symbolic_trace(model)
    return [
        [str(node) for node in program.graph.nodes],
        [f"{node.op} {node.target}" for node in graph.graph.nodes],
        program.module()(x),
        graph(x),
    ]


@scenario
def made_fx():
    from torch.fx.experimental.proxy_tensor import make_fx

    model, x = mlp(), torch.randn(5, 4)

    def call(parameters, x):
        return torch.func.functional_call(model, parameters, (x,))

    parameters = dict(model.named_parameters())
    graphs = [make_fx(call, tracing_mode=mode)(parameters, x) for mode in ("real", "fake", "symbolic")]
    return [[str(node.target) for node in graph.graph.nodes] for graph in graphs] + [graphs[0](parameters, x)]


@scenario
def meta_tensors():
    with torch.device("meta"):
        model = nn.TransformerEncoderLayer(8, 2)
    output = model(torch.empty(3, 2, 8, device="meta"))
    output.sum().backward()
    return [tuple(output.shape), output.dtype, grads(model)]


@scenario
def fake_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        model = mlp()
        output = model(torch.randn(5, 4))
    return [tuple(output.shape), str(output.dtype)]


@scenario
def inference_mode():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()
    with torch.inference_mode():
        return [model(torch.randn(5, 4)), everything(model)]


@scenario
def complex_numbers():
    class Spectral(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(5, dtype=torch.complex64))

        def forward(self, x):
            return (torch.fft.rfft(x) * self.weight.conj()).conj()

    return train(Spectral(), torch.randn(3, 8), loss=lambda out: out.abs().sum())


@scenario
def views_written_later():
    class Writes(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 8)

        def forward(self, x):
            base = self.a(x)
            base[:, :4].mul_(2)
            left, right = base.chunk(2, 1)
            return left * right

    return train(Writes(), torch.randn(3, 4))


@scenario
def several_optimizers():
    out = []
    for kind in ("Adadelta", "Adagrad", "Adamax", "ASGD", "NAdam", "RAdam", "Rprop", "Adafactor", "Muon"):
        model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 2, bias=False))
        optimizer = getattr(torch.optim, kind)(model.parameters())
        scheduler = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, 0.1, total_steps=4, cycle_momentum=kind in ("NAdam", "Adamax", "RAdam")
        )
        for _ in range(2):
            model(torch.randn(3, 4)).square().mean().backward()
            optimizer.step()
            scheduler.step()
        out.append(everything(model, optimizer.state_dict()))
    return out


@scenario
def optimizers_with_kernels():
    out = []
    for options in ({"fused": True}, {"foreach": True}, {"foreach": False, "capturable": False}):
        model = mlp()
        optimizer = torch.optim.AdamW(model.parameters(), **options)
        for _ in range(2):
            model(torch.randn(3, 4)).square().mean().backward()
            optimizer.step()
        out.append(everything(model, optimizer.state_dict()))
    return out


@scenario
def updates_inside_backward():
    model = mlp()
    optimizers = {parameter: torch.optim.SGD([parameter], 0.1) for parameter in model.parameters()}

    def update(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    for _ in range(2):
        model(torch.randn(3, 4)).square().mean().backward()
    return everything(model)


@scenario
def anomaly_detection():
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        return train(mlp(), torch.randn(5, 4))


@scenario
def saved_tensor_hooks():
    packed = []

    def pack(tensor):
        packed.append(tuple(tensor.shape))
        return tensor.clone()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        return [train(mlp(), torch.randn(5, 4)), packed]


@scenario
def dispatch_and_function_modes():
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Ops(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(getattr(func, "__name__", str(func)))
            return func(*args, **(kwargs or {}))

    with Ops(), Functions():
        return [train(mlp(), torch.randn(5, 4)), seen]


@scenario
def tensor_subclass_that_counts():
    seen = []

    class Counting(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(getattr(func, "__name__", str(func)))
            return super().__torch_function__(func, types, args, kwargs)

    model = mlp()
    output = model(torch.randn(5, 4).as_subclass(Counting))
    output.square().mean().backward()
    return [everything(model), type(output).__name__, seen]


@scenario
def tensor_subclass_that_computes():
    from torch.utils._pytree import tree_map_only

    seen = []

    class Logged(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(str(func))
            args, kwargs = tree_map_only(Logged, lambda t: t.inner, (args, kwargs or {}))
            return tree_map_only(torch.Tensor, Logged, func(*args, **kwargs))

    output = mlp()(Logged(torch.randn(5, 4)))
    return [output.inner, seen]


@scenario
def parametrizations():
    model = nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(4, 6)),
        nn.utils.parametrizations.spectral_norm(nn.Linear(6, 4)),
        nn.utils.parametrizations.orthogonal(nn.Linear(4, 4)),
    )
    return train(model, torch.randn(5, 4))


@scenario
def gradient_clipping_and_accumulation():
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    norms = []
    for step in range(6):
        (model(torch.randn(3, 4)).square().mean() / 3).backward()
        if step % 3 == 2:
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.1))
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
    return everything(model, norms)


@scenario
def data_loader():
    from torch.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(torch.randn(12, 4), torch.arange(12)), 5, shuffle=True)
    model, seen = mlp(), []
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        for x, index in loader:
            seen.append(index)
            model(x).square().mean().backward()
            optimizer.step()
    return everything(model, seen)


@scenario
def saved_and_loaded():
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters())
    output = model(torch.randn(5, 4))
    output.square().mean().backward()
    optimizer.step()
    buffer = io.BytesIO()
    torch.save((model, optimizer, output.detach()), buffer)
    buffer.seek(0)
    other, its_optimizer, _ = torch.load(buffer, weights_only=False)
    other(torch.randn(5, 4)).square().mean().backward()
    its_optimizer.step()
    return [everything(model, optimizer.state_dict()), everything(other, its_optimizer.state_dict())]


@scenario
def forward_derivatives():
    from torch.autograd import forward_ad

    model = mlp()
    with forward_ad.dual_level():
        out = forward_ad.unpack_dual(model(forward_ad.make_dual(torch.randn(2, 4), torch.randn(2, 4))))
        return [out.primal.detach().clone(), out.tangent.detach().clone()]


@scenario
def normalized_weights():
    from torch.nn.utils import parametrizations

    layers = (parametrizations.weight_norm, parametrizations.spectral_norm, parametrizations.orthogonal)
    return train(nn.Sequential(*(norm(nn.Linear(4, 4)) for norm in layers)), torch.randn(3, 4))


@scenario
def pruned_weights():
    from torch.nn.utils import prune

    model = mlp()
    prune.l1_unstructured(model[0], "weight", 0.5)
    return train(model, torch.randn(3, 4))


@scenario
def averaged_model():
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn

    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 4)).square().sum().backward()
        optimizer.step()
        average.update_parameters(model)
    update_bn([torch.randn(4, 4) for _ in range(2)], average)
    return [everything(model), dict(average.state_dict())]


@scenario
def activations_on_the_cpu():
    model = mlp()
    with torch.autograd.graph.save_on_cpu():
        loss = model(torch.randn(3, 4)).square().sum()
    loss.backward()
    return grads(model)


@scenario
def packed_sequences():
    model = nn.GRU(4, 3, 2, bidirectional=True)
    packed = nn.utils.rnn.pack_sequence([torch.randn(5, 4), torch.randn(2, 4)])
    out, hidden = model(packed)
    (out.data.sum() + hidden.sum()).backward()
    return [out.data, hidden, *grads(model)]


class Writes(nn.Module):
    """Writes into its layer's output, through views."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        y = self.layer(x)
        y[:, 0].mul_(2)
        y.view(-1)[3:].add_(1)
        return y


@scenario
def outputs_written_through_views():
    return train(nn.Sequential(Writes(), Writes()), torch.randn(3, 4))


@scenario
def selective_checkpointing():
    import functools

    from torch.utils.checkpoint import create_selective_checkpoint_contexts

    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    contexts = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default])
    checkpoint(model, torch.randn(3, 4), use_reentrant=False, context_fn=contexts).sum().backward()
    return grads(model)


class Holder(nn.Module):
    """A wrapper of the script's own, which passes everything on."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)


@scenario
def wrapper_of_the_script():
    return train(Holder(Holder(mlp())), torch.randn(3, 4))


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*Anomaly Detection:UserWarning")
def test_same_bits(name, tmp_path):
    """The run ends with the same bits and generator states without the recorder, with full and with digest capture."""
    results = {}
    for capture in ("none", "full", "digest", "none again"):
        seed_all()
        if capture.startswith("none"):
            outcome = bits(SCENARIOS[name]())
        else:
            with recording(tmp_path / capture, capture=capture):
                outcome = bits(SCENARIOS[name]())
        results[capture] = outcome, generator_states()
    assert results["none"] == results["none again"], "the run does not repeat itself, so nothing can be said"
    assert results["full"] == results["none"]
    assert results["digest"] == results["none"]
