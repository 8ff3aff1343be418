"""What recording costs: step time against the unrecorded step, in one process.

    python benchmarks/recorder_overhead.py [--full] [--others]

Unrecorded and recorded blocks of steps alternate, so that a drift of the machine's speed hits both alike. ``--others``
puts other ways of seeing the same step beside it: reading the bytes once (what no recorder of everything can go
below), cloning all outputs, torch's DebugMode with hashes, and msprobe where it is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import xxhash
from hook_digest_row import Probe
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only
from transformer import step, training

import bisect_diverge


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="keep tensors, not only digests")
    parser.add_argument("--others", action="store_true", help="measure other ways of looking, too")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=4, help="steps per block")
    args = parser.parse_args()
    model, optimizer, ids = training()
    for _ in range(3):
        step(model, optimizer, ids)
    capture = "full" if args.full else "digest"
    plain, recorded, closing = [], [], []
    rows = size = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.rounds):
            plain.append(_time(model, optimizer, ids, args.steps))
            run = Path(folder) / f"{number}"
            with bisect_diverge.record(run, capture=capture, keep="64G"):
                step(model, optimizer, ids)  # the first one opens the file and reads the environment
                recorded.append(_time(model, optimizer, ids, args.steps))
                ended = time.perf_counter()
            closing.append(time.perf_counter() - ended)
            rows, size = _size(run)
    ratio = statistics.median(r / p for r, p in zip(recorded, plain, strict=True))
    steps = args.steps + 1
    print(f"capture {capture}: {rows // steps} records a step, {size / steps / 1e6:.1f} MB a step on disk")
    print(f"unrecorded {statistics.median(plain) * 1e3:8.1f} ms a step")
    print(f"recorded   {statistics.median(recorded) * 1e3:8.1f} ms a step   {ratio:5.3f} x unrecorded")
    print(f"closing    {statistics.median(closing) * 1e3:8.1f} ms")
    if args.others:
        for name, watch in OTHERS.items():
            _other(name, watch, model, optimizer, ids, args)


def _time(model, optimizer, ids, steps: int) -> float:
    started = time.perf_counter()
    for _ in range(steps):
        step(model, optimizer, ids)
    return (time.perf_counter() - started) / steps


def _size(run: Path) -> tuple[int, int]:
    from bisect_diverge.store.reader import Run

    with Run(run) as opened:
        return len(opened.first.events), opened.first.path.stat().st_size


# -- other ways of looking ------------------------------------------------------------------------------------------

Watch = Callable[[Any], contextlib.AbstractContextManager[Any]]
"""Makes, for a model, what a step is run in."""


@contextlib.contextmanager
def _reading_bytes(model) -> Iterator[None]:
    """Hash the bytes of everything that the recorder records, and do nothing else."""
    probe = Probe(lambda tensor: xxhash.xxh3_128(tensor.detach().contiguous().numpy()))
    probe.install()
    yield
    probe.remove()


class _Cloning(TorchDispatchMode):
    """Clones what every operation returns, for the step."""

    def __init__(self) -> None:
        super().__init__()
        self.clones: list[torch.Tensor] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        tree_map_only(torch.Tensor, lambda tensor: self.clones.append(tensor.clone()), out)
        return out


@contextlib.contextmanager
def _debug_mode(model) -> Iterator[None]:
    from torch.utils._debug_mode import DebugMode

    with DebugMode() as mode, mode.log_tensor_hashes(hash_fn="hash_tensor", hash_inputs=False):
        yield


@contextlib.contextmanager
def _msprobe(model) -> Iterator[None]:
    """Statistics of the inputs and outputs of every module."""
    from msprobe.pytorch import PrecisionDebugger

    with tempfile.TemporaryDirectory() as folder:
        config = {"task": "statistics", "dump_path": folder, "level": "L0", "rank": [], "step": []}
        config["statistics"] = {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "md5"}
        Path(folder, "config.json").write_text(json.dumps(config))
        debugger = PrecisionDebugger(config_path=f"{folder}/config.json")
        debugger.start(model=model)
        yield
        debugger.stop()
        debugger.step()


OTHERS: dict[str, Watch] = {
    "reading the bytes once": _reading_bytes,
    "cloning all outputs": lambda _: _Cloning(),
    "DebugMode with hashes": _debug_mode,
    "msprobe, modules": _msprobe,
}
_PART_OF = {"DebugMode with hashes": "torch.utils._debug_mode", "msprobe, modules": "msprobe"}


def _other(name: str, watch: Watch, model, optimizer, ids, args) -> None:
    needed = _PART_OF.get(name)
    if needed and importlib.util.find_spec(needed) is None:
        print(f"{name:24} not measured: {needed} is not installed here")
        return
    ratios, times = [], []
    for number in range(max(3, args.rounds // 2)):
        plain = _time(model, optimizer, ids, 2)
        started = time.perf_counter()
        with watch(model):
            step(model, optimizer, ids)
        if number:  # the first one is for whatever is set up once
            times.append(time.perf_counter() - started)
            ratios.append(times[-1] / plain)
    print(f"{name:24} {statistics.median(times) * 1e3:8.1f} ms a step   {statistics.median(ratios):5.3f} x unrecorded")


if __name__ == "__main__":
    main()
