"""What recording costs: step time against the unrecorded step, in one process.

    python benchmarks/recorder_overhead.py [--full]

Unrecorded and recorded blocks of steps alternate, so that a drift of the machine's speed hits both alike.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from transformer import step, training

import bisect_diverge


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="keep tensors, not only digests")
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


def _time(model, optimizer, ids, steps: int) -> float:
    started = time.perf_counter()
    for _ in range(steps):
        step(model, optimizer, ids)
    return (time.perf_counter() - started) / steps


def _size(run: Path) -> tuple[int, int]:
    from bisect_diverge.store.reader import Run

    with Run(run) as opened:
        return len(opened.first.events), opened.first.path.stat().st_size


if __name__ == "__main__":
    main()
