"""The recorder keeps nothing of the user's alive, and shows nothing of its own to the user's code."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import warnings
import weakref

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

import bisect_diverge
from bisect_diverge.model.record import Flag
from tests.record.support import addresses, mlp, recording, rows, value_of


class Watching(nn.Module):
    """Keeps weak references to what passes through it."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.seen = []

    def forward(self, x):
        """Note what is made."""
        y = self.inner(x)
        self.seen += [weakref.ref(y), StorageWeakRef(y.untyped_storage())]
        return y * 2


def gone(references):
    """Whether everything that the references point to has been freed."""
    return all(ref.expired() if isinstance(ref, StorageWeakRef) else ref() is None for ref in references)


def test_activations_die_as_without_us(tmp_path):
    """Tensor and storage of an activation, an input and a loss are freed as soon as the script lets go of them."""
    gc.disable()
    try:
        with recording(tmp_path / "run"):
            model = Watching()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for _ in range(2):
                x = torch.randn(3, 4)
                out = model(x)
                loss = out.sum()
                loss.backward()
                grad = weakref.ref(model.inner.weight.grad)
                optimizer.step()
                refs = [weakref.ref(t) for t in (x, out, loss)] + [StorageWeakRef(out.untyped_storage())]
                del x, out, loss
                assert gone(refs)
                assert gone(model.seen)
                optimizer.zero_grad()
                assert grad() is None
    finally:
        gc.enable()


def test_locals_of_callers_die(tmp_path):
    """Looking for variable names leaves no snapshot of the callers' variables behind."""

    def outer():
        held = torch.ones(3)
        model = nn.Linear(3, 2)
        model(held)
        died = weakref.ref(held)
        del held
        return died()

    with recording(tmp_path / "run"):
        assert outer() is None


def test_locals_that_the_script_holds(tmp_path):
    """A dict that the script got from ``locals()``, and what ``exec`` defined, are still there after a call."""

    def settings(lr=0.1, width=3):
        config = locals()
        exec("momentum = 0.9")
        model = nn.Linear(width, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr)
        model(torch.ones(1, width)).sum().backward()
        optimizer.step()
        return config["lr"], config["width"], locals()["momentum"]

    def executed():
        exec("momentum = 0.9")
        model = nn.Linear(3, 2)
        model(torch.ones(1, 3))
        return locals()["momentum"]

    with recording(tmp_path / "run"):
        assert settings() == (0.1, 3, 0.9)
        assert executed() == 0.9


def test_modules_and_optimizers_die(tmp_path):
    """A model and an optimizer that the script drops are freed while recording goes on."""
    with recording(tmp_path / "run"):
        model = mlp()
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()
        refs = [weakref.ref(model), weakref.ref(optimizer), weakref.ref(model[0].weight)]
        del model, optimizer
        gc.collect()
        assert gone(refs)


def test_modules_die_without_a_collection(tmp_path):
    """No cycle of ours holds a model: it is freed when the script drops it, not when garbage is next collected."""
    gc.disable()
    try:
        with recording(tmp_path / "run"):
            model = mlp()
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            model(torch.randn(2, 4)).sum().backward()
            optimizer.step()
            gone = weakref.ref(model)
            del model
            assert gone() is None
    finally:
        gc.enable()


def test_recorder_dies_after_the_block(tmp_path):
    """Buffers of a recording are freed when it has ended."""
    from bisect_diverge.record.install import current

    with bisect_diverge.record(tmp_path / "run"):
        mlp()(torch.randn(2, 4))
        recorder = weakref.ref(current())
    gc.collect()
    assert recorder() is None


def test_pickle_and_deepcopy(tmp_path):
    """Models, optimizers, outputs and parameters are saved and copied without hooks of ours and without warnings."""
    plain = mlp()
    plain_bytes = len(pickle.dumps(plain))
    with recording(tmp_path / "run"), warnings.catch_warnings():
        warnings.simplefilter("error")
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        out = model(torch.randn(2, 4))
        out.sum().backward(retain_graph=True)
        optimizer.step()
        buffer = io.BytesIO()
        torch.save({"model": model, "opt": optimizer, "out": out, "state": model.state_dict()}, buffer)
        buffer.seek(0)
        loaded = torch.load(buffer, weights_only=False)
        assert abs(len(pickle.dumps(mlp())) - plain_bytes) < 200
        twin = copy.deepcopy(model)
        copy.deepcopy(optimizer)
    for copied in (model, loaded["model"], twin):
        for module in copied.modules():
            assert not module._forward_hooks
            assert not module._forward_pre_hooks
            assert not module._backward_hooks
        assert all(not parameter._backward_hooks for parameter in copied.parameters())
    assert not loaded["out"]._backward_hooks
    assert torch.equal(loaded["out"], out)


def test_forward_of_a_copy_has_a_name_of_its_own(tmp_path):
    """The forward of a deep copy (a moving average, say) is recorded as another root."""
    with recording(tmp_path / "run"):
        model = mlp()
        model(torch.randn(2, 4))
        average = copy.deepcopy(model)
        average(torch.randn(2, 4))
    found = {text.split("/")[3].partition(":")[0] for text in addresses(tmp_path / "run")}
    assert found == {"model", "average"}


def test_user_hook_that_replaces_an_output(tmp_path):
    """A row whose output the user's own hook replaced says so, and the next module's input shows what it got."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    model[0].register_forward_hook(lambda _module, _args, output: output + 1)
    with recording(tmp_path / "run"):
        model(torch.randn(2, 4))
    run = tmp_path / "run"
    found = rows(run)
    made, taken = found["0/0/forward/model:0#0:output.0"], found["0/0/forward/model:1#0:input.0"]
    assert made.flags & Flag.HOOKED
    assert not found["0/0/forward/model:1#0:output.0"].flags & Flag.HOOKED
    assert made.digest != taken.digest
    assert taken.source == -1
    assert torch.equal(
        torch.from_numpy(value_of(run, "0/0/forward/model:0#0:output.0")) + 1,
        torch.from_numpy(value_of(run, "0/0/forward/model:1#0:input.0")),
    )


def test_user_hooks_are_called_as_before(tmp_path):
    """Hooks of the user's own, global ones too, are called as often and with the same values as without us."""

    def run():
        torch.manual_seed(0)
        seen = []
        model = mlp()
        model[0].register_forward_pre_hook(lambda _m, args: seen.append(args[0].sum().item()))
        model[2].register_full_backward_hook(lambda _m, _i, grads: seen.append(grads[0].sum().item()))
        model[0].weight.register_hook(lambda grad: seen.append(grad.sum().item()))
        handle = nn.modules.module.register_module_forward_hook(lambda m, _a, _o: seen.append(type(m).__name__))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        optimizer.register_step_post_hook(lambda *_: seen.append("step"))
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()
        handle.remove()
        return seen

    plain = run()
    with recording(tmp_path / "run"):
        recorded = run()
    assert recorded == plain
    assert plain.count("step") == 1
