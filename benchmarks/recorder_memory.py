"""What recording costs in memory: peak of a whole process with and without it, three processes each, in turn.

python benchmarks/recorder_memory.py
"""

from __future__ import annotations

import contextlib
import resource
import statistics
import subprocess
import sys
import tempfile

from transformer import step, training

import bisect_diverge

STEPS = 25


def child(capture: str) -> None:
    """Train and print the peak resident size in MiB."""
    model, optimizer, ids = training()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        if capture != "none":
            stack.enter_context(bisect_diverge.record(f"{folder}/run", capture=capture, keep="64G"))
        for _ in range(STEPS):
            step(model, optimizer, ids)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    peaks: dict[str, list[float]] = {"none": [], "digest": [], "full": []}
    for _ in range(3):
        for capture, found in peaks.items():
            command = [sys.executable, __file__, capture]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            found.append(float(done.stdout))
    plain = statistics.median(peaks["none"])
    print(f"unrecorded      {plain:6.0f} MiB peak")
    for capture in ("digest", "full"):
        peak = statistics.median(peaks[capture])
        print(f"capture {capture:7} {peak:6.0f} MiB peak   {peak - plain:+.0f} MiB")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        child(sys.argv[1])
    else:
        main()
