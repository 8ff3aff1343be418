"""Recording leaves the process as it was: settings, patched functions, hooks, environment, threads."""

from __future__ import annotations

import gc
import importlib
import inspect
import os
import random
import signal
import sys
import threading
import time
import tracemalloc
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.modules import module as nn_module
from torch.optim import optimizer as torch_optimizer
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

import bisect_diverge
from bisect_diverge.record.install import current
from tests.record.support import mlp, recording, seed_all, train

PATCHED = [
    (torch.autograd, "backward"),
    (nn.Module, "compile"),
    (nn.Module, "__call__"),
    (nn.Module, "_call_impl"),
    (nn_module, "_has_any_global_hook"),
    (torch.optim.Optimizer, "__init__"),
    (torch.optim.Optimizer, "step"),
    (torch.amp.GradScaler, "step"),
    (_BaseDataLoaderIter, "__init__"),
    (_BaseDataLoaderIter, "__next__"),
    (DataLoader, "__iter__"),
    (torch, "manual_seed"),
    (torch.random, "manual_seed"),
    (torch.cuda, "manual_seed_all"),
    (random, "seed"),
    (np.random, "seed"),
    (np.random, "default_rng"),
    (os, "fork"),
]
"""Attributes that the recorder replaces, and some that it must never replace."""


def patched():
    """Return what stands in every attribute of the table."""
    return {f"{owner.__name__}.{name}": inspect.getattr_static(owner, name) for owner, name in PATCHED}


def hooks():
    """Return every table of global hooks, as a copy."""
    modules = (nn_module, torch_optimizer)
    return {
        f"{module.__name__}.{name}": dict(getattr(module, name))
        for module in modules
        for name in vars(module)
        if name.startswith("_global_") and isinstance(getattr(module, name), dict)
    }


def state():
    """Return the settings of the process that a recorder might be tempted to change."""
    return {
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "print options": (str(torch._tensor_str.PRINT_OPTS), np.get_printoptions()),
        "threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "gc": (gc.isenabled(), gc.get_threshold(), len(gc.callbacks), gc.get_debug()),
        "grad mode": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "anomaly": (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        "deterministic": (torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark),
        "autocast": (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")),
        "precision": (torch.get_float32_matmul_precision(), torch.backends.mkldnn.enabled),
        "filters": (list(warnings.filters), warnings.showwarning),
        "environment": dict(os.environ),
        "path": list(sys.path),
        "meta path": list(sys.meta_path),
        "path hooks": list(sys.path_hooks),
        "cwd": os.getcwd(),  # noqa: PTH109
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "tracing": (sys.get_asyncgen_hooks(), tracemalloc.is_tracing()),
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "hooks of python": (sys.excepthook, sys.displayhook, sys.gettrace(), sys.getprofile(), threading.excepthook),
        "switch interval": sys.getswitchinterval(),
        "recursion limit": sys.getrecursionlimit(),
        "modes": (torch._C._len_torch_dispatch_stack(), torch._C._len_torch_function_stack()),
        "torch function": torch._C._is_torch_function_enabled(),
        "errors of numpy": np.geterr(),
        "fork": torch.multiprocessing.get_start_method(allow_none=True),
    }


def work():
    """Do a bit of everything that the recorder looks at."""
    seed_all()
    np.random.default_rng(1)
    loader = DataLoader(TensorDataset(torch.randn(6, 4)), 2, shuffle=True)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.2))
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cpu")
    for (x,) in loader:
        scaler.scale(model(x).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    return model


@pytest.fixture
def warmed_up():
    """Do the work and the recorder's own imports once, so that what imports change is changed already."""
    work()
    importlib.import_module("bisect_diverge.environment.read")


def test_settings_are_left_alone(warmed_up, tmp_path):
    """Settings of the process are the same before, inside and after the block."""
    before = state()
    with recording(tmp_path / "run"):
        work()
        inside = state()
    assert inside == before
    assert state() == before


def test_unusual_settings_are_left_alone(warmed_up, tmp_path):
    """Settings that differ from their defaults stay so too, and do not hinder the recording."""
    threads = torch.get_num_threads()
    try:
        torch.set_default_dtype(torch.float64)
        torch.set_printoptions(precision=2, sci_mode=True)
        torch.set_num_threads(1)
        np.set_printoptions(threshold=3)
        gc.disable()
        torch.use_deterministic_algorithms(True)
        before = state()
        with torch.no_grad(), recording(tmp_path / "run"):
            mlp()(torch.randn(2, 4))
        assert state() == before
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_printoptions(profile="default", sci_mode=None)
        torch.set_num_threads(threads)
        np.set_printoptions(threshold=1000)
        gc.enable()
        torch.use_deterministic_algorithms(False)


def test_everything_is_put_back(warmed_up, tmp_path):
    """Every replaced attribute is the same object again, every hook is gone, no thread is left."""
    before = patched(), hooks(), threading.enumerate()
    with recording(tmp_path / "run"):
        assert patched() != before[0]
        assert hooks() != before[1]
        work()
    assert (patched(), hooks(), threading.enumerate()) == before
    assert current() is None


def test_everything_is_put_back_after_an_error(warmed_up, tmp_path):
    """The same, when the block ends with an exception."""
    before = patched(), hooks(), threading.enumerate()

    def broken():
        with bisect_diverge.record(tmp_path / "run"):
            work()
            raise KeyError("of the script")

    with pytest.raises(KeyError):
        broken()
    assert (patched(), hooks(), threading.enumerate()) == before


def test_everything_is_put_back_when_closing_fails(warmed_up, tmp_path, monkeypatch):
    """The same, when our own closing of the file fails."""
    from bisect_diverge.record.recorder import Recorder

    def fail(*_):
        raise RuntimeError("ours")

    before = patched(), hooks()
    monkeypatch.setattr(Recorder, "_later", fail)
    with bisect_diverge.record(tmp_path / "run"):
        work()
    assert (patched(), hooks()) == before
    assert current() is None


def test_what_others_replaced_meanwhile_stays(tmp_path):
    """A function that the script replaced during the recording is not put back by us."""
    original = torch.autograd.backward

    def mine(*args, **kwargs):
        return original(*args, **kwargs)

    try:
        with recording(tmp_path / "run"):
            torch.autograd.backward = mine
            mlp()(torch.randn(2, 4)).sum().backward()
        assert torch.autograd.backward is mine
    finally:
        torch.autograd.backward = original


def test_replaced_functions_look_like_the_originals(tmp_path):
    """Name, documentation and signature of what is replaced are those of the original."""

    def looks():
        functions = {name: function for name, function in patched().items() if inspect.isfunction(function)}
        return {name: (f.__name__, f.__doc__, str(inspect.signature(f))) for name, f in functions.items()}

    before = looks()
    with recording(tmp_path / "run"):
        inside = looks()
    assert {name: inside[name] for name in before} == before


def test_a_step_is_not_slower_afterwards(tmp_path):
    """A step takes as long after a recording as before it (no hook, no graph hook is left)."""
    model, x = nn.Sequential(*[nn.Linear(16, 16) for _ in range(30)]), torch.randn(4, 16)

    def best():
        times = []
        for _ in range(7):
            begin = time.perf_counter()
            for _ in range(10):
                model(x).sum().backward()
            times.append(time.perf_counter() - begin)
        return min(times)

    best()
    before = best()
    with recording(tmp_path / "run", capture="digest"):
        train(model, x, steps=1)
    assert best() < 2 * before + 0.01


def test_errors_and_warnings_of_the_script_pass(tmp_path):
    """What torch says of the script's own mistakes is said as without us."""
    model = nn.Linear(4, 2)
    with recording(tmp_path / "run"):
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            model(torch.randn(2, 5))
        with pytest.raises(TypeError, match="forward"):
            model()
        loss = model(torch.randn(2, 4)).square().sum()
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
        with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar"):
            model(torch.randn(2, 4)).backward()
        with pytest.warns(UserWarning, match="target size"):
            nn.MSELoss()(torch.zeros(2, 1), torch.zeros(2))


def test_traceback_names_no_file_of_ours_in_forward(tmp_path):
    """An error in a module's forward has a traceback without frames of ours."""
    import traceback

    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("of the module")

    with recording(tmp_path / "run"):
        try:
            nn.Sequential(nn.Linear(4, 4), Broken())(torch.randn(2, 4))
        except ValueError as error:
            text = "".join(traceback.format_exception(error))
    assert "bisect_diverge" not in text
    assert "of the module" in text
