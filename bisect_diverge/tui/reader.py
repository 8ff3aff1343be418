"""The one thread that reads tensors.

h5py serialises its calls behind one lock, so more threads would gain nothing. A request whose asker was
cancelled before its turn is dropped; one that runs is told through `stopped` and ends at its next chunk.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
Stopped = Callable[[], bool]
"""Whether the asker no longer waits."""


class StoppedError(Exception):
    """The asker no longer waits; nobody sees this error."""


class Reader:
    """Runs jobs one after the other in a thread of its own."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="bd-reader")

    async def run(self, job: Callable[[Stopped], T]) -> T:
        """Return what the job returns; it is called with a function that says whether to stop."""
        stop = threading.Event()
        future = asyncio.wrap_future(self._thread.submit(job, stop.is_set))
        try:
            return await future
        except asyncio.CancelledError:
            stop.set()
            raise

    def close(self) -> None:
        """Drop what waits and return when the running job has ended: the files can be closed then."""
        self._thread.shutdown(wait=True, cancel_futures=True)
