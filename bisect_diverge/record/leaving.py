"""How a process of a trial ends once it has shown what it was started for."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

WAIT_SECONDS = 20.0
"""How long a rank waits for the others: one that leaves earlier could break a collective of the same step."""


def leave_together(run: Path, rank: int, world_size: int) -> None:
    """Leave at once, when every rank of the trial is ready to."""
    with contextlib.suppress(OSError):
        (run / f"left-{rank:05d}").touch()
        deadline = time.monotonic() + WAIT_SECONDS
        while len(list(run.glob("left-*"))) < world_size and time.monotonic() < deadline:
            time.sleep(0.02)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(0)
