"""What the recorder takes for granted about torch, one small test for each fact.

When a new torch release fails one of these, the recorder leans on something that has changed; the docstring
says on what. Nothing of this package is used here.
"""

import copy
import gc
import inspect
import io
import itertools
import multiprocessing as mp
import os
import random
import sys
import warnings
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
import torch
import torch.nn.modules.module as module_hooks
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

BACKEND = "aot_eager_decomp_partition"
COMPILED_UNDER_HOOKS = "Using `torch.compile\\(module\\)` when there are global hooks on modules"


FORKS = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
"""Python 3.12 and later warn of what data loaders do by default."""


def compiles(test):
    """Mark a test that compiles: the compiler warns inside itself, hidden unless warnings are errors."""
    ignore = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not:UserWarning")
    return ignore(pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")(test))


def compiles_under_hooks(test):
    """Mark a test that calls a compiled module under global hooks, which torch warns of."""
    return pytest.mark.filterwarnings(f"ignore:{COMPILED_UNDER_HOOKS}:UserWarning")(compiles(test))


@pytest.fixture(autouse=True)
def forget_hooks():
    """Take away what a removed handle leaves in torch's tables: torch.compile warns of it ever after."""
    tables = [module_hooks._global_forward_hooks_with_kwargs, module_hooks._global_forward_hooks_always_called]
    before = [dict(table) for table in tables]
    yield
    for table, old in zip(tables, before, strict=True):
        table.clear()
        table.update(old)


@contextmanager
def hooks(pre=None, post=None, **how):
    """Set a global pre-hook and a global hook on all modules, and take them off again."""
    handles = []
    if pre is not None:
        handles.append(module_hooks.register_module_forward_pre_hook(pre))
    if post is not None:
        handles.append(module_hooks.register_module_forward_hook(post, **how))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def optimizer_hooks(pre=None, post=None):
    """Set hooks on the steps of all optimizers, and take them off again."""
    handles = []
    if pre is not None:
        handles.append(register_optimizer_step_pre_hook(pre))
    if post is not None:
        handles.append(register_optimizer_step_post_hook(post))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class Named(nn.Module):
    """Adds one to what it gets, by position or by name."""

    def forward(self, x, *, gain=1):
        """Return the input plus a gain."""
        return x + gain


class Failing(nn.Module):
    """Raises in its forward."""

    def forward(self, x):
        """Raise."""
        raise ValueError(f"no forward for {x.shape}")


# Module hooks


def test_global_hooks_run_before_those_of_the_module():
    """Global pre-hooks and hooks run before the module's own, which may replace what ours saw."""
    seen = []
    net = Named()
    net.register_forward_pre_hook(lambda *_: seen.append("own pre"))
    net.register_forward_hook(lambda *_: seen.append("own post"))
    with hooks(lambda *_: seen.append("global pre"), lambda *_: seen.append("global post")):
        net(torch.ones(1))
    assert seen == ["global pre", "own pre", "global post", "own post"]


def test_own_hook_replaces_an_output_unseen_by_a_global_hook():
    """A global hook gets the output that forward returned, not what the module's own hook makes of it."""
    seen = []
    net = Named()
    net.register_forward_hook(lambda module, args, output: output * 10)
    with hooks(post=lambda module, args, output: seen.append(output)):
        out = net(torch.ones(1))
    assert (seen[0].item(), out.item()) == (2, 20)


def test_global_pre_hook_gets_no_keyword_arguments():
    """A global pre-hook cannot ask for keyword arguments and gets positional ones only."""
    assert list(inspect.signature(module_hooks.register_module_forward_pre_hook).parameters) == ["hook"]
    seen = []
    with hooks(lambda module, args: seen.append(args)):
        Named()(x=torch.ones(1), gain=2)
    assert seen == [()]


def test_keyword_arguments_are_in_the_frame_that_calls_a_global_pre_hook():
    """The frame above a global pre-hook has the call's `args` and `kwargs`, and the module as `self`."""
    seen = []
    with hooks(lambda module, args: seen.append(sys._getframe(1).f_locals.copy())):
        net = Named()
        net(torch.ones(1), gain=2)
    assert seen[0]["kwargs"] == {"gain": 2}
    assert seen[0]["self"] is net
    assert len(seen[0]["args"]) == 1


def test_global_hook_gets_keyword_arguments_when_it_asks():
    """`with_kwargs=True` of a global hook puts the keyword arguments before the output."""
    seen = []
    with hooks(post=lambda module, args, kwargs, output: seen.append(kwargs), with_kwargs=True):
        Named()(torch.ones(1), gain=2)
    assert seen == [{"gain": 2}]


def test_hook_is_not_called_after_an_exception():
    """Without `always_call` a forward that raises has a pre-hook call and no hook call."""
    seen = []
    with (
        hooks(lambda *_: seen.append("pre"), lambda *_: seen.append("post")),
        pytest.raises(ValueError, match="no"),
    ):
        Failing()(torch.ones(1))
    assert seen == ["pre"]


def test_hook_with_always_call_gets_none_after_an_exception():
    """With `always_call=True` the hook is called after an exception too, with output None."""
    seen = []

    def post(module, args, output):
        seen.append(output)

    with hooks(post=post, always_call=True), pytest.raises(ValueError, match="no"):
        Failing()(torch.ones(1))
    assert seen == [None]


def test_always_call_forgets_keyword_arguments():
    """After an exception a *global* hook is called without keyword arguments even if it asked for them."""
    counts = []
    with (
        hooks(post=lambda *given: counts.append(len(given)), with_kwargs=True, always_call=True),
        pytest.raises(ValueError, match="no"),
    ):
        Failing()(torch.ones(1))
    Named()(torch.ones(1))
    assert counts == [3]


def test_error_of_an_always_called_hook_becomes_a_warning():
    """An exception inside an always-called hook is silenced with a UserWarning when forward raised too."""

    def post(module, args, kwargs, output):
        raise AssertionError

    with (
        hooks(post=post, with_kwargs=True, always_call=True),
        pytest.warns(UserWarning, match="that was silenced"),
        pytest.raises(ValueError, match="no"),
    ):
        Failing()(torch.ones(1))


def test_always_call_does_not_cover_base_exceptions():
    """A KeyboardInterrupt in forward reaches the caller without a hook call, even with `always_call=True`."""
    seen = []

    class Interrupted(nn.Module):
        def forward(self, x):
            raise KeyboardInterrupt

    with hooks(post=lambda *_: seen.append("post"), always_call=True), pytest.raises(KeyboardInterrupt):
        Interrupted()(torch.ones(1))
    assert seen == []


def test_module_without_any_hook_calls_forward_directly():
    """Without hooks `_call_impl` calls `forward` at once; with a global hook there is a frame between."""
    depth = []

    class Deep(nn.Module):
        def forward(self, x):
            depth.append(sys._getframe(1).f_code.co_name)
            return x

    Deep()(torch.ones(1))
    with hooks(lambda *_: None):
        Deep()(torch.ones(1))
    assert depth == ["_call_impl", "inner"]


def test_forward_called_directly_has_no_hook_calls():
    """`module.forward(x)` bypasses every hook."""
    seen = []
    with hooks(lambda *_: seen.append("pre"), lambda *_: seen.append("post")):
        Named().forward(torch.ones(1))
    assert seen == []


def test_attention_never_calls_its_output_projection():
    """`nn.MultiheadAttention` reads the weights of `out_proj` and does not call it."""
    seen = []
    net = nn.MultiheadAttention(4, 2)
    with hooks(lambda module, args: seen.append(module)):
        net(*[torch.ones(3, 1, 4)] * 3)
    assert seen == [net]


def encoder_layer():
    """Return a transformer layer in evaluation mode and an input, for which torch has a fast path."""
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).eval(), torch.randn(2, 3, 8)


def test_global_hooks_leave_the_fast_path_of_a_transformer_layer():
    """The fast path asks for hooks of modules only: under global hooks it is taken, no sub-module called."""
    layer, x = encoder_layer()
    seen = []
    with torch.no_grad():
        plain = layer(x)
        with hooks(lambda module, args: seen.append(module)):
            hooked = layer(x)
    assert seen == [layer]
    assert torch.equal(plain, hooked)


def test_own_hooks_disable_the_fast_path_of_a_transformer_layer():
    """A hook on any sub-module makes a transformer layer call its sub-modules."""
    layer, x = encoder_layer()
    seen = []
    layer.linear1.register_forward_hook(lambda *_: seen.append("linear1"))
    with torch.no_grad():
        layer(x)
    assert seen == ["linear1"]


def test_copies_and_files_of_a_model_do_not_hold_global_hooks():
    """`deepcopy`, `torch.save` and `state_dict` of a model are the same with and without global hooks."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def saved():
        buffer = io.BytesIO()
        torch.save(net, buffer)
        return buffer.getvalue()

    plain = saved()
    with hooks(lambda *_: None, lambda *_: None):
        net(torch.ones(1, 2))
        assert saved() == plain
        twin = copy.deepcopy(net)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in twin.modules())
    assert list(twin.state_dict()) == list(net.state_dict())


# Checkpointing


def checkpoint_log(net, x, **how):
    """Run a checkpointed module and its backward; return what pre-hooks and hooks saw in backward."""
    names = {module: name for name, module in net.named_modules()}
    log = []

    def pre(module, args):
        log.append(("pre", names[module], torch._C._current_graph_task_id() >= 0))

    def post(module, args, output):
        log.append(("post", names[module], output is None))

    with hooks(pre, post, **how):
        out = checkpoint(net, x, use_reentrant=False)
        log.clear()
        out.sum().backward()
    return log


def test_recompute_stops_early():
    """Recomputation leaves its last module by an exception: no hook call for it and what encloses it."""
    net = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))
    log = checkpoint_log(net, torch.ones(1, 2))
    assert [entry[:2] for entry in log] == [
        ("pre", ""),
        ("pre", "0"),
        ("post", "0"),
        ("pre", "1"),
        ("post", "1"),
        ("pre", "2"),
    ]


def test_recompute_calls_always_called_hooks_with_none():
    """With `always_call=True` modules that recomputation leaves early get a hook call with output None."""
    net = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))
    log = checkpoint_log(net, torch.ones(1, 2), always_call=True)
    assert [entry for entry in log if entry[0] == "post"] == [
        ("post", "0", False),
        ("post", "1", False),
        ("post", "2", True),
        ("post", "", True),
    ]


def test_recompute_runs_inside_backward():
    """`torch._C._current_graph_task_id()` tells backward, and so recomputation, from everything else."""
    ids = []
    assert torch._C._current_graph_task_id() == -1
    x = torch.ones(1, 2, requires_grad=True)
    (x * 2).register_hook(lambda grad: ids.append(torch._C._current_graph_task_id()))
    y = x * 2
    y.register_hook(lambda grad: ids.append(torch._C._current_graph_task_id()))
    y.sum().backward()
    assert torch._C._current_graph_task_id() == -1
    assert len(ids) == 1
    assert ids[0] >= 0
    assert all(inside for kind, _, inside in checkpoint_log(nn.Linear(2, 2), x) if kind == "pre")


def test_gradients_do_not_reach_recomputed_tensors():
    """A hook on the output of a recomputed module never fires: autograd walks the graph of the first run."""
    fired = []
    net = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))

    def post(module, args, output):
        inside = torch._C._current_graph_task_id() >= 0
        if output.requires_grad:
            output.register_hook(lambda grad: fired.append(inside))

    with hooks(post=post):
        checkpoint(net, torch.ones(1, 2), use_reentrant=False).sum().backward()
    assert fired == [False] * 4


def test_reentrant_checkpoint_first_runs_without_grad():
    """With `use_reentrant=True` the first run makes tensors without grad, and the whole module runs again."""
    seen = []
    net = nn.Linear(2, 2)
    x = torch.ones(1, 2, requires_grad=True)
    with hooks(post=lambda module, args, output: seen.append(output.requires_grad)):
        checkpoint(net, x, use_reentrant=True).sum().backward()
    assert seen == [False, True]


# Tensor hooks


def test_tensor_hook_on_a_leaf_fires_once_with_the_sum_of_one_backward():
    """A hook on a leaf fires once per backward with the accumulated gradient of all its uses."""
    grads = []
    w = torch.ones(1, requires_grad=True)
    w.register_hook(lambda grad: grads.append(grad.item()))
    (w * 2 + w * 3).backward()
    assert grads == [5]


def test_tensor_hook_on_a_non_leaf_fires_once_with_the_sum():
    """A hook on a tensor that was used twice fires once, with the sum of both gradients."""
    grads = []
    h = torch.ones(1, requires_grad=True) * 1
    h.register_hook(lambda grad: grads.append(grad.item()))
    (h * 2 + h * 3).backward()
    assert grads == [5]


def test_tensor_hooks_run_in_order_of_registration():
    """Several hooks on one tensor run in the order in which they were registered."""
    order = []
    h = torch.ones(1, requires_grad=True) * 1
    for number in range(3):
        h.register_hook(lambda grad, number=number: order.append(number))
    h.backward()
    assert order == [0, 1, 2]


def test_tensor_hook_on_a_view_whose_base_is_written_never_fires():
    """When the base of a view is written in place, hooks set on the view before are lost without a word."""
    fired = []
    base = torch.ones(2, requires_grad=True) * 1
    view = base[:1]
    view.register_hook(lambda grad: fired.append("view"))
    base.mul_(2)
    (view.sum() + base.sum()).backward()
    assert fired == []


def test_one_tensor_has_two_gradients_around_an_in_place_operation():
    """A hook set before an in-place ReLU gets the gradient before it, one set after it the other one."""
    grads = []
    layer = nn.Linear(3, 3, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.diag(torch.tensor([1.0, -1.0, -1.0])))
    h = layer(torch.ones(3))
    h.register_hook(lambda grad: grads.append(grad.tolist()))
    same = nn.ReLU(inplace=True)(h)
    assert same is h
    h.register_hook(lambda grad: grads.append(grad.tolist()))
    h.sum().backward()
    assert grads == [[1, 1, 1], [1, 0, 0]]


def test_no_op_full_backward_hook_changes_gradients():
    """A full backward hook that does nothing changes gradients where a tensor has several uses: set none."""

    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 16)

        def forward(self, x):
            return self.a(x) + self.b(x)

    def gradients(hooked):
        torch.manual_seed(0)
        first, second = nn.Linear(16, 16), Branches()
        if hooked:
            second.register_full_backward_hook(lambda *_: None)
        out = first(torch.randn(8, 16))
        (second(out).square().sum() + out.square().sum()).backward()
        return [p.grad for net in (first, second) for p in net.parameters()]

    same = [torch.equal(a, b) for a, b in zip(gradients(False), gradients(True), strict=True)]
    assert not all(same)


def test_autograd_numbers_its_nodes_in_the_order_in_which_they_are_made():
    """A node's number lies between those that the next node would have had before and after the operation."""
    x = torch.ones(3, requires_grad=True)
    numbers = []
    for _ in range(3):
        before = torch.autograd._get_sequence_nr()
        x = x * 2
        numbers.append((before, x.grad_fn._sequence_nr(), torch.autograd._get_sequence_nr()))
    assert all(before == number < after for before, number, after in numbers)
    with torch.no_grad():
        x * 2
    assert torch.autograd._get_sequence_nr() == numbers[-1][2]


def test_reading_a_graph_leaves_it_alone():
    """Walking a graph from a loss keeps nothing, and the gradients are those of a graph that nobody looked at."""
    torch.manual_seed(0)
    layer, x = nn.Linear(4, 4), torch.randn(3, 4)
    plain = torch.autograd.grad(layer(x).tanh().sum(), list(layer.parameters()))
    loss = layer(x).tanh().sum()
    waiting = [loss.grad_fn]
    while waiting:
        waiting += [before for before, _ in waiting.pop().next_functions if before is not None]
    walked = torch.autograd.grad(loss, list(layer.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(plain, walked, strict=True))


class NoOpMode(TorchDispatchMode):
    """Runs every operation as it is."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Call it."""
        return func(*args, **(kwargs or {}))


def test_no_op_dispatch_mode_changes_gradients():
    """Under a dispatch mode some formulas of backward take another way, with other bits: count without one."""

    def gradient(mode):
        torch.manual_seed(0)
        x = (torch.randn(64, 33).abs() + 0.1).requires_grad_()
        with mode:
            x.prod(1).sum().backward()
        return x.grad

    assert torch.equal(gradient(nullcontext()), gradient(nullcontext()))
    assert not torch.equal(gradient(nullcontext()), gradient(NoOpMode()))


def test_full_backward_hook_breaks_in_place_activations():
    """A full backward hook makes an in-place activation on the module's output raise."""
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True))
    net[0].register_full_backward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="modified inplace"):
        net(torch.ones(1, 2)).sum().backward()


def test_backward_is_looked_up_as_an_attribute(monkeypatch):
    """`Tensor.backward` calls `torch.autograd.backward` through its module, so that a replacement is seen."""
    seen = []
    original = torch.autograd.backward

    def replacement(tensors, *args, **kwargs):
        seen.append(tensors)
        return original(tensors, *args, **kwargs)

    monkeypatch.setattr(torch.autograd, "backward", replacement)
    x = torch.ones(1, requires_grad=True)
    loss = x * 2
    loss.backward()
    assert seen == [loss]
    assert x.grad.item() == 2


def test_autograd_grad_does_not_go_through_backward(monkeypatch):
    """`torch.autograd.grad` makes no call of `torch.autograd.backward`."""
    monkeypatch.setattr(torch.autograd, "backward", None)
    x = torch.ones(1, requires_grad=True)
    assert torch.autograd.grad(x * 2, x)[0].item() == 2


# Tensors


def test_versions_count_writes_and_are_shared_by_views():
    """`_version` grows with every in-place operation, and is one number for a tensor and its views."""
    base = torch.zeros(4)
    view = base[1:3]
    assert (base._version, view._version) == (0, 0)
    view.add_(1)
    assert (base._version, view._version) == (1, 1)
    base[0] = 2
    assert view._version == 2


def test_versions_miss_writes_through_data_and_numpy():
    """Writes through `.data` or a numpy array leave `_version` as it was."""
    base = torch.zeros(4)
    base.data.add_(1)
    base.numpy()[0] = 5
    assert base._version == 0
    assert base[0] == 5


def test_detach_shares_the_version():
    """`.detach()`, unlike `.data`, counts writes together with the tensor it came from."""
    base = torch.zeros(4)
    base.detach().add_(1)
    assert base._version == 1


def test_storage_reference_expires_without_holding_memory():
    """A `StorageWeakRef` does not keep a storage alive and says when the last tensor on it is gone."""
    tensor = torch.zeros(1 << 20)
    view = tensor[1:]
    reference = StorageWeakRef(tensor.untyped_storage())
    assert reference == StorageWeakRef(view.untyped_storage())
    del tensor
    assert not reference.expired()
    del view
    assert reference.expired()


def test_zero_dimensional_tensor_has_no_byte_view():
    """`view(torch.uint8)` of a 0-d tensor raises; reshaped to one element it works."""
    scalar = torch.tensor(1.5)
    with pytest.raises(RuntimeError):
        scalar.view(torch.uint8)
    assert scalar.reshape(1).view(torch.uint8).tolist() == [0, 0, 192, 63]


def test_expanded_tensor_is_larger_than_its_storage():
    """An expanded tensor has more logical bytes than its storage: the logical ones are recorded."""
    wide = torch.arange(4.0).expand(3, 4)
    assert wide.untyped_storage().nbytes() == 16
    assert wide.contiguous().numpy().nbytes == 48


def test_cpu_contiguous_and_numpy_are_the_same_memory():
    """On the CPU `.cpu()`, `.contiguous()` and `.numpy()` of a contiguous tensor copy nothing."""
    tensor = torch.zeros(4)
    others = tensor.cpu(), tensor.contiguous(), torch.from_numpy(tensor.numpy())
    assert {other.data_ptr() for other in others} == {tensor.data_ptr()}


def test_equality_of_values_is_not_equality_of_bits():
    """`torch.equal` calls a NaN unequal to itself and -0.0 equal to 0.0; integer views do neither."""
    nan, zero = torch.tensor([float("nan")]), torch.tensor([0.0])
    assert not torch.equal(nan, nan.clone())
    assert torch.equal(nan.view(torch.int32), nan.clone().view(torch.int32))
    assert torch.equal(zero, -zero)
    assert not torch.equal(zero.view(torch.int32), (-zero).view(torch.int32))


# Optimizers


def one_parameter(optimizer=torch.optim.SGD, **how):
    """Return a parameter with a gradient and an optimizer for it."""
    parameter = nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    return parameter, optimizer([parameter], lr=0.5, **how)


def test_optimizer_hooks_enclose_every_step():
    """Global optimizer hooks run before and after the update and get optimizer and arguments."""
    seen = []
    parameter, optimizer = one_parameter()

    def note(kind):
        return lambda opt, args, kwargs: seen.append((kind, opt is optimizer, args, kwargs, parameter[0].item()))

    with optimizer_hooks(note("pre"), note("post")):
        optimizer.step()
    assert seen == [("pre", True, (optimizer,), {}, 1), ("post", True, (optimizer,), {}, 0.5)]


def test_global_optimizer_hooks_run_outermost():
    """The global pre-hook runs before the optimizer's own, the global post-hook after it."""
    seen = []
    _, optimizer = one_parameter()
    optimizer.register_step_pre_hook(lambda *_: seen.append("own pre"))
    optimizer.register_step_post_hook(lambda *_: seen.append("own post"))
    with optimizer_hooks(lambda *_: seen.append("pre"), lambda *_: seen.append("post")):
        optimizer.step()
    assert seen == ["pre", "own pre", "own post", "post"]


def test_closure_is_visible_to_the_pre_hook():
    """A closure is the second positional argument (after the optimizer) or the keyword `closure`."""
    seen = []
    parameter, optimizer = one_parameter()

    def closure():
        return parameter.sum()

    with optimizer_hooks(lambda opt, args, kwargs: seen.append((args, kwargs))):
        optimizer.step(closure)
        optimizer.step(closure=closure)
    assert seen == [((optimizer, closure), {}), ((optimizer,), {"closure": closure})]


def test_post_hook_is_not_called_when_the_update_raises():
    """An exception in the update leaves a pre-hook call without its post-hook call."""
    seen = []
    _, optimizer = one_parameter()

    def closure():
        raise ValueError("no closure")

    with (
        optimizer_hooks(lambda *_: seen.append("pre"), lambda *_: seen.append("post")),
        pytest.raises(ValueError, match="no closure"),
    ):
        optimizer.step(closure)
    assert seen == ["pre"]


def skipped_step(**how):
    """Let GradScaler skip an update; return the hook calls."""
    seen = []
    parameter, optimizer = one_parameter(**how)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    parameter.grad = None
    scaler.scale((parameter * float("inf")).sum()).backward()

    def note(kind):
        return lambda opt, *_: seen.append((kind, getattr(opt, "found_inf", None)))

    with optimizer_hooks(note("pre"), note("post")):
        scaler.step(optimizer)
    assert parameter.tolist() == [1, 1]
    return seen


def test_skipped_update_calls_no_hook():
    """When GradScaler skips an update it does not call `step` at all: no hook is called."""
    assert skipped_step() == []


def test_skipped_fused_update_calls_hooks_and_tells_found_inf():
    """A fused optimizer skips by itself: both hooks are called, and its `found_inf` is one."""
    assert skipped_step(fused=True) == [("pre", 1), ("post", 1)]


def test_scaler_step_is_looked_up_on_the_class(monkeypatch):
    """`GradScaler.step` is an ordinary method: a replacement on the class sees each attempted update."""
    seen = []
    original = torch.amp.GradScaler.step

    def step(self, optimizer, *args, **kwargs):
        seen.append(optimizer)
        return original(self, optimizer, *args, **kwargs)

    monkeypatch.setattr(torch.amp.GradScaler, "step", step)
    assert skipped_step() == []
    assert len(seen) == 1
    assert issubclass(torch.cuda.amp.GradScaler, torch.amp.GradScaler)


def test_every_optimizer_runs_the_base_constructor(monkeypatch):
    """`Optimizer.__init__` replaced on the base class sees every optimizer of torch that is made."""
    seen = []
    original = torch.optim.Optimizer.__init__

    def init(self, *args, **kwargs):
        seen.append(type(self).__name__)
        original(self, *args, **kwargs)

    monkeypatch.setattr(torch.optim.Optimizer, "__init__", init)
    made = []
    for name in torch.optim.__all__:
        kind = getattr(torch.optim, name)
        if inspect.isclass(kind) and issubclass(kind, torch.optim.Optimizer) and kind is not torch.optim.Optimizer:
            kind([nn.Parameter(torch.ones(2, 2))], lr=0.1)
            made.append(name)
    assert len(made) >= 13
    assert seen == made


def test_group_values_have_a_fixed_order():
    """The values of a parameter group come in the order of the optimizer's defaults, after `params`."""
    keys = {
        torch.optim.SGD: "lr momentum dampening weight_decay nesterov maximize foreach differentiable fused",
        torch.optim.Adam: "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused"
        " decoupled_weight_decay",
        torch.optim.LBFGS: "lr max_iter max_eval tolerance_grad tolerance_change history_size line_search_fn",
    }
    for kind, text in keys.items():
        _, optimizer = one_parameter(kind)
        assert list(optimizer.param_groups[0]) == ["params", *text.split()]


def test_no_state_before_the_first_update():
    """State of a parameter exists from its first update on: SGD without momentum never has any."""
    parameter, optimizer = one_parameter(torch.optim.Adam)
    assert not optimizer.state
    optimizer.step()
    assert list(optimizer.state[parameter]) == ["step", "exp_avg", "exp_avg_sq"]
    parameter, optimizer = one_parameter()
    optimizer.step()
    assert not optimizer.state.get(parameter)


# Data loaders


@contextmanager
def watched_loaders(monkeypatch):
    """Replace construction and `__next__` of loader iterators on their base class; yield what was seen."""
    seen = []
    init, following = _BaseDataLoaderIter.__init__, _BaseDataLoaderIter.__next__

    def new_init(self, loader):
        seen.append(("init", loader))
        init(self, loader)

    def new_next(self):
        try:
            batch = following(self)
        except StopIteration:
            seen.append(("end", self))
            raise
        seen.append(("batch", batch))
        return batch

    with monkeypatch.context() as patch:
        patch.setattr(_BaseDataLoaderIter, "__init__", new_init)
        patch.setattr(_BaseDataLoaderIter, "__next__", new_next)
        yield seen


@FORKS
@pytest.mark.parametrize("workers", [0, 1])
def test_loader_iterators_are_seen_through_their_base_class(workers, monkeypatch):
    """A loop over a loader, with workers or not, goes through `__init__` and `__next__` of the base class."""
    data = TensorDataset(torch.arange(4))
    loader = DataLoader(data, batch_size=2, num_workers=workers, multiprocessing_context="fork" if workers else None)
    with watched_loaders(monkeypatch) as seen:
        batches = list(loader)
    assert [kind for kind, _ in seen] == ["init", "batch", "batch", "end"]
    assert seen[0][1] is loader
    assert all(given is batch for (_, given), batch in zip(seen[1:3], batches, strict=True))


def test_making_a_loader_iterator_draws_from_torchs_generator():
    """An iterator draws its base seed when it is made, a shuffling sampler one more at the first batch."""
    loader = DataLoader(TensorDataset(torch.arange(4)), shuffle=True)
    states = [torch.get_rng_state()]
    iterator = iter(loader)
    states.append(torch.get_rng_state())
    next(iterator)
    states.append(torch.get_rng_state())
    next(iterator)
    states.append(torch.get_rng_state())
    moved = [not torch.equal(a, b) for a, b in itertools.pairwise(states)]
    assert moved == [True, True, False]


# Compilation


class Recorder:
    """Counts what global hooks see outside of compilation; its hooks begin with the guard."""

    def __init__(self):
        self.pre, self.post = [], []

        def pre(module, args):
            if torch.compiler.is_compiling():
                return
            self.pre.append(type(module).__name__)

        def post(module, args, output):
            if torch.compiler.is_compiling():
                return
            self.post.append((type(module).__name__, module, output))

        self.hooks = (pre, post)


class Net(nn.Module):
    """Two layers of its own forward."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        """Return the second layer of the first."""
        return self.second(self.first(x).relu())


class Broken(nn.Module):
    """A layer with a graph break behind it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        """Return the layer's output, uncompiled from there on."""
        x = self.layer(x)
        torch._dynamo.graph_break()
        return x


@pytest.fixture
def fresh_dynamo():
    """Forget compiled code and counters before and after a test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # importing the compiler calls deprecated functions of torch.jit
        import torch._dynamo
        import torch._dynamo.backends.debugging
        import torch._inductor.decomposition
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield torch._dynamo.utils.counters
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def trained(compiled, net):
    """Take three steps with a compiled module and return the final weights."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        compiled(torch.linspace(-1, 1, 12).reshape(3, 4)).square().sum().backward()
        optimizer.step()
    return [p.detach().clone() for p in net.parameters()]


def seeded(kind):
    """Return a module with weights from a fixed seed."""
    torch.manual_seed(0)
    return kind()


@compiles
def test_nothing_is_compiled_under_a_dispatch_mode(fresh_dynamo):
    """A compiled module that is first called under a dispatch mode runs eagerly, then and afterwards."""
    for mode, graphs in ((nullcontext(), 1), (NoOpMode(), 0)):
        torch._dynamo.reset()
        fresh_dynamo.clear()
        compiled = torch.compile(seeded(Net), backend="eager")
        with mode:
            compiled(torch.ones(3, 4))
        compiled(torch.ones(3, 4))
        assert fresh_dynamo["stats"]["unique_graphs"] == graphs


@compiles_under_hooks
def test_guarded_hooks_are_traced_away(fresh_dynamo):
    """Global hooks that return at once while compiling leave one graph, no breaks and equal bits."""
    net = seeded(Net)
    plain = trained(torch.compile(net, backend=BACKEND), net)
    torch._dynamo.reset()
    fresh_dynamo.clear()
    net = seeded(Net)
    with hooks(*Recorder().hooks):
        hooked = trained(torch.compile(net, backend=BACKEND), net)
    assert all(torch.equal(a, b) for a, b in zip(plain, hooked, strict=True))
    assert not fresh_dynamo["graph_break"]
    assert fresh_dynamo["stats"]["unique_graphs"] == 1


@compiles_under_hooks
def test_compiled_module_is_seen_as_wrapper_and_internal_graph(fresh_dynamo):
    """Hooks see the wrapper and a GraphModule that the compiler made: its graph has no tracer class."""
    recorder = Recorder()
    net = seeded(Net)
    with hooks(*recorder.hooks):
        compiled = torch.compile(net, backend=BACKEND)
        compiled(torch.ones(3, 4))
    assert recorder.pre == ["OptimizedModule", "GraphModule"]
    (_, graph, returned), (wrapper, _, output) = recorder.post
    assert wrapper == "OptimizedModule"
    assert compiled._orig_mod is net
    assert isinstance(output, torch.Tensor)
    assert isinstance(returned, tuple | list)
    assert graph.graph._tracer_cls is None


@compiles_under_hooks
def test_eager_backend_shows_no_internal_graph(fresh_dynamo):
    """With the backend `eager` hooks see the wrapper only."""
    recorder = Recorder()
    with hooks(*recorder.hooks):
        torch.compile(seeded(Net), backend="eager")(torch.ones(3, 4))
    assert recorder.pre == ["OptimizedModule"]


def test_users_graph_module_has_a_tracer_class():
    """A GraphModule of `torch.fx.symbolic_trace`, which is the user's, has a tracer class."""
    assert torch.fx.symbolic_trace(seeded(Net)).graph._tracer_cls is torch.fx.Tracer


@compiles
def test_calling_a_compiled_module_under_global_hooks_warns(fresh_dynamo):
    """Each *call* of an OptimizedModule, not `torch.compile`, gives a UserWarning at the caller's line."""
    with hooks(*Recorder().hooks):
        with warnings.catch_warnings(record=True) as none:
            warnings.simplefilter("always")
            compiled = torch.compile(seeded(Net), backend="eager")
        for _ in range(2):
            with pytest.warns(UserWarning, match=COMPILED_UNDER_HOOKS) as caught:
                compiled(torch.ones(3, 4))
            mine = [w for w in caught if "global hooks" in str(w.message)]
            assert [(w.category, w.filename) for w in mine] == [(UserWarning, __file__)]
    assert not [w for w in none if "global hooks" in str(w.message)]


@compiles
def test_the_warning_asks_a_function_that_can_be_replaced(fresh_dynamo, monkeypatch):
    """The warning depends on `torch.nn.modules.module._has_any_global_hook`, looked up as an attribute."""
    monkeypatch.setattr(module_hooks, "_has_any_global_hook", lambda: False)
    with hooks(*Recorder().hooks), warnings.catch_warnings():
        compiled = torch.compile(seeded(Net), backend="eager")
        compiled(torch.ones(3, 4))


@compiles
def test_module_compiled_in_place_hides_from_hooks(fresh_dynamo):
    """`module.compile()` runs `_compiled_call_impl`: no warning, and guarded hooks never see the module."""
    recorder = Recorder()
    net = seeded(Net)
    net.compile(backend=BACKEND)
    seen = []
    inner = net._compiled_call_impl
    net._compiled_call_impl = lambda *args, **kwargs: seen.append("compiled") or inner(*args, **kwargs)
    with hooks(*recorder.hooks):
        net(torch.ones(3, 4))
    assert fresh_dynamo["stats"]["unique_graphs"] == 1
    assert seen == ["compiled"]
    assert recorder.pre == ["GraphModule"]


@compiles
def test_torchs_own_containers_are_not_compiled_in_place(fresh_dynamo):
    """`nn.Sequential.compile()` of torch's layers compiles nothing, and still guarded hooks see nothing."""
    recorder = Recorder()
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    net.compile(backend=BACKEND)
    with hooks(*recorder.hooks):
        net(torch.ones(3, 4))
    assert "unique_graphs" not in fresh_dynamo["stats"]
    assert recorder.pre == []


@compiles_under_hooks
def test_guarded_hooks_are_silent_in_uncompiled_parts_of_a_compiled_module(fresh_dynamo):
    """Where a graph break leaves modules uncompiled, the hook itself is compiled: its guard folds to true."""
    recorder = Recorder()
    net = nn.Sequential(seeded(Broken), nn.Linear(4, 2))
    with hooks(*recorder.hooks):
        torch.compile(net, backend="eager")(torch.ones(3, 4))
    assert len(fresh_dynamo["graph_break"]) == 1
    assert recorder.pre == ["OptimizedModule"]


@compiles_under_hooks
def test_hooks_that_dynamo_skips_see_uncompiled_parts(fresh_dynamo):
    """With their code marked as skipped, guarded hooks see those modules too, and add no graph break."""
    from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy

    recorder = Recorder()
    for hook in recorder.hooks:
        strategy = _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)
        set_code_exec_strategy(hook.__code__, strategy)
    net = nn.Sequential(seeded(Broken), nn.Linear(4, 2))
    with hooks(*recorder.hooks):
        torch.compile(net, backend="eager")(torch.ones(3, 4))
        assert len(fresh_dynamo["graph_break"]) == 1
        assert recorder.pre == ["OptimizedModule", "Sequential", "Broken", "Linear"]
        torch._dynamo.reset()
        fresh_dynamo.clear()
        torch.compile(seeded(Net), backend="eager")(torch.ones(3, 4))
    assert not fresh_dynamo["graph_break"]
    assert fresh_dynamo["stats"]["unique_graphs"] == 1


# Processes and generators


@FORKS
def test_hooks_survive_a_fork():
    """A forked child has the parent's global hooks: they have to look at the process they run in."""
    seen = []

    def child(sender):
        nn.Identity()(torch.ones(1))
        sender.send(seen)

    context = mp.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    with hooks(lambda *_: seen.append(os.getpid())):
        process = context.Process(target=child, args=(sender,))
        process.start()
        assert receiver.poll(30)
        assert receiver.recv() == [process.pid]
        process.join(30)
    assert process.exitcode == 0
    assert seen == []


@FORKS
def test_loader_workers_have_the_hooks_of_their_parent():
    """A module called inside a forked loader worker runs the parent's global hooks there."""

    class Data(TensorDataset):
        def __getitem__(self, index):
            return nn.Identity()(super().__getitem__(index)[0])

    seen = mp.get_context("fork").Value("i", 0)

    def pre(module, args):
        seen.value = os.getpid()

    loader = DataLoader(Data(torch.arange(2)), num_workers=1, multiprocessing_context="fork")
    with hooks(pre):
        list(loader)
    assert seen.value not in (0, os.getpid())


def test_reading_generators_does_not_move_them():
    """`getstate`, `get_state` and `get_rng_state` read a generator and draw nothing."""

    def draws(read):
        random.seed(0)
        np.random.seed(0)
        torch.manual_seed(0)
        out = []
        for _ in range(3):
            if read:
                random.getstate()
                np.random.get_state()
                torch.get_rng_state()
                torch.default_generator.get_state()
            out += [random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn()]
            out += [torch.rand(1).item(), torch.randn(1).item()]
        return out

    assert draws(True) == draws(False)


def test_half_used_normal_draws_are_part_of_the_state():
    """The state of numpy has the second half of a pair of normal draws; torch's changes with every draw."""
    np.random.seed(0)
    before = np.random.get_state()
    np.random.randn()
    half = np.random.get_state()
    assert (before[3], half[3]) == (0, 1)
    torch.manual_seed(0)
    first = torch.get_rng_state()
    torch.randn(1)
    assert not torch.equal(first, torch.get_rng_state())


def test_importing_torch_imports_numpy():
    """`import torch` imports numpy where it is installed: its generator is always among the rows."""
    code = "import sys, torch; sys.exit('numpy' not in sys.modules)"
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", code]) == 0


def test_garbage_collection_is_not_needed_to_free_outputs():
    """Outputs and graphs are freed by reference counts alone: a recorder that holds none adds no memory."""
    net = seeded(Net)
    gc.collect()
    gc.disable()
    try:
        out = net(torch.ones(3, 4))
        reference = StorageWeakRef(out.untyped_storage())
        out.sum().backward()
        del out
        assert reference.expired()
    finally:
        gc.enable()
