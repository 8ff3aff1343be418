"""Full capture against raw ``write()`` of the same bytes, in one process, in turn.

    python benchmarks/store_throughput.py [--folder DIR]

Two shapes of load: many small tensors (600 of 8 KiB a step) and a few large ones (12 of 4 MiB a step).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from bisect_diverge.model.run import RunRecord, State
from bisect_diverge.numerics.digest import ALGORITHM, digest, header
from bisect_diverge.store.writer import RunWriter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", help="where to write; default: a temporary directory")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    for name, tensors, elements, steps in (("small", 600, 2048, 80), ("large", 12, 1 << 20, 8)):
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            _measure(name, tensors, elements, steps, args.rounds, Path(folder))


def _measure(name: str, tensors: int, elements: int, steps: int, rounds: int, folder: Path) -> None:
    data = np.random.default_rng(0).standard_normal((tensors, elements)).astype(np.float32)
    size = data.nbytes * steps
    raw, stored = [], []
    for number in range(rounds + 1):
        started = time.perf_counter()
        with (folder / "raw").open("wb", buffering=0) as file:
            for step in range(steps):
                for tensor in data:
                    tensor[0] = step  # other bytes each time, as in training
                    file.write(tensor)
        raw.append(time.perf_counter() - started)
        (folder / "raw").unlink()
        started = time.perf_counter()
        _record(folder / "run.h5", data, steps)
        stored.append(time.perf_counter() - started)
        (folder / "run.h5").unlink()
        if number == 0:
            raw.clear(), stored.clear()
    ratio = statistics.median(r / s for r, s in zip(raw, stored, strict=True))
    speeds = [size / statistics.median(times) / 1e9 for times in (raw, stored)]
    print(f"{name}: {tensors} tensors of {elements * 4 / 1024:.0f} KiB a step, {size / 1e6:.0f} MB")
    print(f"  write()       {speeds[0]:.2f} GB/s")
    print(f"  full capture  {speeds[1]:.2f} GB/s (digests included)   {ratio:.2f} x write()")


def _record(path: Path, data: np.ndarray, steps: int) -> None:
    writer = RunWriter(path, RunRecord(), keep_bytes=1 << 40, digest_algorithm=ALGORITHM)
    head, shape, slot = header("float32", data.shape[1:]), writer.shape(data.shape[1:]), writer.slot("output.0")
    names = [writer.name("model", f"layer.{i}", "Linear") for i in range(len(data))]
    writer.site("")
    for step in range(steps):
        with writer.lock:
            for name, tensor in zip(names, data, strict=True):
                tensor[0] = step
                writer.add(digest(head, tensor), step, 0, 2, name, 0, slot, 4, shape, data=tensor.view(np.uint8))
            writer.hand_over()
    writer.close(State.COMPLETE)


if __name__ == "__main__":
    main()
