"""What starting under `bd record` costs: ``python -c "import torch"`` with and without, one after the other in turn.

    python benchmarks/start_up.py [ROUNDS]

Prints the middle of each and their ratio and difference; the difference is to be 0.3 s at most. Says where the time
goes as well: in `bd` before and after the command, and in the recorded process once torch is imported. Processor time
is what wall time is on a machine that does nothing else.
"""

from __future__ import annotations

import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 5
MOST_SECONDS = 0.3
IMPORT = [sys.executable, "-c", "import torch"]
NOTHING = [sys.executable, "-c", "pass"]
BD = [sys.executable, "-m", "bisect_diverge", "record", "-o", "run", "--"]


ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""An installed package has its byte code; the warm-up writes that of a checkout."""


def seconds(command: list[str], folder: str) -> tuple[float, float]:
    """Return wall and processor time of a command."""
    begin, before = time.perf_counter(), processor_time()
    subprocess.run(command, check=True, cwd=folder, env=ENVIRONMENT, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin, processor_time() - before


def processor_time() -> float:
    """Return what the processes that we started have used so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


COMMANDS = {
    "plain": IMPORT,
    "recorded": [*BD, *IMPORT],
    "nothing": NOTHING,
    "nothing recorded": [*BD, *NOTHING],
}


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        for warm_up in (True, *[False] * rounds):
            for name, command in COMMANDS.items():
                taken = seconds(command, folder)
                if not warm_up:
                    times[name].append(taken)
            assert not Path(folder, "run").exists()
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} processors, {rounds} rounds")
    print(f"{'':32}{'wall':>8}{'processor':>12}")
    wall, used = ({name: statistics.median(t[i] for t in taken) for name, taken in times.items()} for i in (0, 1))
    added = [m["recorded"] - m["plain"] for m in (wall, used)]
    of_bd = [m["nothing recorded"] - m["nothing"] for m in (wall, used)]
    line('python -c "import torch"', [m["plain"] for m in (wall, used)], "s")
    line("the same under bd record", [m["recorded"] for m in (wall, used)], "s")
    line("ratio", [m["recorded"] / m["plain"] for m in (wall, used)], "")
    line(f"difference (target {MOST_SECONDS} s)", added, "s")
    line("  of it in bd itself", of_bd, "s")
    line("  of it in the process", [a - b for a, b in zip(added, of_bd, strict=True)], "s")


def line(name: str, values: list[float], unit: str) -> None:
    print(f"{name:32}{values[0]:>6.2f} {unit:1}{values[1]:>10.2f} {unit}".rstrip())


if __name__ == "__main__":
    main()
