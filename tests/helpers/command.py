"""Starts commands in processes of their own, the way a user starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]

BD = [sys.executable, "-m", "bisect_diverge"]
"""``bd`` with the Python of this test."""

MOVES_BITS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "MKL_CBWR", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA")
"""Variables that a test sets itself where it means them."""


def surroundings(**variables: str) -> dict[str, str]:
    """Return our environment without what moves bits, with `variables`."""
    return {name: value for name, value in os.environ.items() if name not in MOVES_BITS} | variables


def run(
    *command: str | Path, cwd: Path = REPOSITORY, status: int = 0, timeout: float = 240, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command; its exit status must be `status`."""
    env = surroundings(**variables)
    return finished(command, status, cwd=cwd, env=env, stdin=subprocess.DEVNULL, text=True, timeout=timeout)


def finished(command: Iterable[str | Path], status: int, **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run a command to its end, with options of `subprocess.run`; its exit status must be `status`."""
    done = subprocess.run([str(part) for part in command], capture_output=True, check=False, **options)
    assert done.returncode == status, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def bd(*arguments: str | Path, **options) -> subprocess.CompletedProcess[str]:
    """Run ``bd`` with the Python of this test."""
    return run(*BD, *arguments, **options)
