"""Times `bd diff` of two runs of a million records each, in a cold process.

Two runs of 549 records a step are written block by block through the file's own layout; from step `--at` on B
differs. Beyond two million records the rows stay in the files. Prints the time of each of some fresh processes, what
a bare `python -c "import h5py"` takes here, and the largest resident memory.

    python benchmarks/diff_million.py
    python benchmarks/diff_million.py --records 200000 --shape skipped
    python benchmarks/diff_million.py --records 5000000 --at 9000 --repeats 1
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

from bisect_diverge.model.address import NO_PASS, PHASE_CODE, Phase
from bisect_diverge.model.elements import BY_NAME
from bisect_diverge.model.record import Flag
from bisect_diverge.model.run import RunRecord, State
from bisect_diverge.numerics.digest import ALGORITHM
from bisect_diverge.store import schema
from bisect_diverge.store.writer import RunWriter

MODULES = 137
"""Modules of the network: 4 records each and one for the generator make 549 records a step."""
ROWS_PER_STEP = 4 * MODULES + 1
CALLS = {"same": (0,), "skipped": (0,), "called-twice": (0, 1)}
"""Shape of B to the calls of each module in a step; A has one call."""


def step_rows(writer: RunWriter, shape: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of one step, digests and step left 0, and a number for each address that both runs share."""
    last = MODULES - 1
    phases = [(Phase.FORWARD, "input.0"), (Phase.FORWARD, "output.0"), (Phase.BACKWARD, "grad_output.0")]
    plan = [(phase, slot, module, call) for phase, slot in phases for module in range(MODULES) for call in CALLS[shape]]
    if shape == "skipped":
        plan = [entry for entry in plan if entry[2] != last]
    rows = [(PHASE_CODE[p], writer.name("model", f"blocks.{m}", "Linear"), 0, writer.slot(s), c) for p, s, m, c in plan]
    numbers = [(list(Phase).index(p) * 10 + len(s)) * 1000 + m for p, s, m, _ in plan]
    optimizer, rng = PHASE_CODE[Phase.OPTIMIZER], PHASE_CODE[Phase.RNG]
    for module in range(MODULES):
        name = writer.name("opt", f"blocks.{module}.weight", "AdamW")
        rows.append((optimizer, name, NO_PASS, writer.slot("param"), 0))
        numbers.append(900_000 + module)
    rows.append((rng, writer.name("-", "", ""), NO_PASS, writer.slot("torch.cpu"), 0))
    numbers.append(999_999)
    out = np.zeros(len(rows), schema.EVENT)
    for column, values in zip(("phase", "name", "micro_batch", "slot", "call"), zip(*rows, strict=True), strict=True):
        out[column] = values
    out["shape"], out["site"] = writer.shape((64, 64)), writer.site("train.py:1")
    out["dtype"], out["flags"] = BY_NAME["float32"].code, int(Flag.DIGEST_ONLY)
    out["offset"] = out["source"] = -1
    out["value"] = np.nan
    return out, np.array(numbers, np.uint64)


def write(path: Path, records: int, changed_from: int | None, shape: str) -> None:
    """Write a run; digests are numbers of the row, other ones from step `changed_from` on."""
    path.mkdir()
    writer = RunWriter(schema.rank_path(path, 0), RunRecord(), keep_bytes=0, digest_algorithm=ALGORITHM)
    of_step, numbers = step_rows(writer, shape if changed_from is not None else "same")
    writer.update(RunRecord())  # the names above are written together with it, there being no rows yet
    writer.close(State.COMPLETE, 0)
    with h5py.File(schema.rank_path(path, 0), "r+", libver=("v110", "v110")) as file:
        events = file["events"]
        per_block = max(schema.EVENT_CHUNK * 16 // len(of_step), 1)
        steps = records // ROWS_PER_STEP
        for start in range(0, steps, per_block):
            count = min(per_block, steps - start)
            block = np.tile(of_step, count)
            block["step"] = np.repeat(np.arange(start, start + count), len(of_step))
            number = block["step"].astype(np.uint64) * np.uint64(1_000_000) + np.tile(numbers, count)
            differs = block["step"] >= changed_from if changed_from is not None else np.zeros(len(block), bool)
            block["digest0"] = number * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1)
            block["digest1"] = number + np.where(differs, np.uint64(7), np.uint64(3))
            events.resize((events.shape[0] + len(block),))
            events[-len(block) :] = block


def seconds(command: tuple[str, ...], status: int, forget: tuple[Path, ...] = ()) -> float:
    """Return how long a command takes, in seconds, with some files out of the page cache at its start."""
    for path in forget:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    start = time.perf_counter()
    found = subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode
    if found != status:
        raise SystemExit(f"{' '.join(command)} ended with status {found}")
    return time.perf_counter() - start


def main() -> None:
    """Write the runs, time the command, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--at", type=int, default=900, help="step from which B differs")
    parser.add_argument("--shape", choices=list(CALLS), default="same", help="how B's structure differs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        a, b = Path(folder, "a"), Path(folder, "b")
        write(a, options.records, None, options.shape)
        write(b, options.records, options.at, options.shape)
        diff = (sys.executable, "-m", "bisect_diverge", "diff", str(a), str(b))
        files = (schema.rank_path(a, 0), schema.rank_path(b, 0))
        times = sorted(seconds(diff, 1, files) for _ in range(options.repeats))
        imports = (sys.executable, "-c", "import click, h5py, numpy")
        base = min(seconds(imports, 0) for _ in range(options.repeats))
        print(subprocess.run(diff, capture_output=True, text=True, check=False).stdout)
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"records per run    {options.records}")
    print(f"bd diff, cold      {times[0]:.2f} s best, {times[len(times) // 2]:.2f} s median of {options.repeats}")
    print(f"imports alone      {base:.2f} s")
    print(f"largest memory     {memory:.0f} MiB")


if __name__ == "__main__":
    main()
