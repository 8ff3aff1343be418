"""What a record costs in the training thread where there is next to nothing to hash: 2,000 small modules.

    python benchmarks/small_modules.py

Unrecorded and recorded blocks of steps alternate in one process; the difference is divided by the number of records.
The wall clock also sees the writing thread, which takes turns with the training thread; the time of the training
thread alone is what the target (15 us) is about.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

import bisect_diverge
from bisect_diverge.store.reader import Run


class Chain(nn.Module):
    """Modules one after the other, each with a scale and a shift of a few numbers."""

    def __init__(self, modules: int, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.LayerNorm(width) for _ in range(modules))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2, help="steps per block")
    parser.add_argument("--full", action="store_true", help="keep tensors, not only digests")
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Chain(args.modules, 16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randn(8, 16)
    for _ in range(2):
        _step(model, optimizer, x)
    wall, thread, first = [], [], []
    capture = "full" if args.full else "digest"
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.rounds):
            plain = _time(model, optimizer, x, args.steps)
            run = Path(folder) / f"{number}"
            with bisect_diverge.record(run, capture=capture, keep="64G"):
                started = time.perf_counter()
                _step(model, optimizer, x)  # the first one opens the file and reads the environment
                first.append(time.perf_counter() - started)
                recorded = _time(model, optimizer, x, args.steps)
            with Run(run) as opened:
                rows = int((opened.first.events["step"] == 1).sum())
            wall.append((recorded[0] - plain[0]) / rows)
            thread.append((recorded[1] - plain[1]) / rows)
    print(f"{args.modules} modules, {rows} records a step, capture {capture}")
    print(f"unrecorded {plain[0] * 1e3:8.1f} ms a step, recorded {recorded[0] * 1e3:8.1f} ms (last round)")
    print(f"first step {statistics.median(first) * 1e3:8.1f} ms (opens the file, names everything)")
    print(f"a record   {statistics.median(thread) * 1e6:8.2f} us of the training thread")
    print(f"           {statistics.median(wall) * 1e6:8.2f} us on the clock")


def _step(model: Chain, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()


def _time(model: Chain, optimizer: torch.optim.Optimizer, x: torch.Tensor, steps: int) -> tuple[float, float]:
    """Return seconds a step: on the clock, and of this thread."""
    wall, thread = time.perf_counter(), time.thread_time()
    for _ in range(steps):
        _step(model, optimizer, x)
    return (time.perf_counter() - wall) / steps, (time.thread_time() - thread) / steps


if __name__ == "__main__":
    main()
