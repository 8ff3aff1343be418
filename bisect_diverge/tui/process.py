"""``bd bisect`` as a process of its own: its progress is read, and it never outlives whoever watches it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

from bisect_diverge.tui.bisection import Ended, Event, event_of

PATIENCE = 5.0
"""Seconds between the polite and the other signal."""
_KEPT = 20
"""Lines of other output that are kept to say why it failed."""


class Process:
    """A search in a session of its own.

    The process watches the pipe that it reports to: when the reader has gone, however that came, it ends its trial
    and itself.

    Args:
        arguments: Words after ``bd``.
    """

    def __init__(self, arguments: tuple[str, ...]) -> None:
        self._arguments = arguments
        self._process: subprocess.Popen[str] | None = None

    def start(self, tell: Callable[[Event], None]) -> None:
        """Begin; `tell` is called from a thread that does nothing but read."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bisect_diverge", *self._arguments, "--progress", "json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        threading.Thread(target=self._read, args=(self._process, tell), daemon=True).start()

    def stop(self) -> None:
        """End after the running trial."""
        self._send(signal.SIGUSR1)

    def stop_now(self) -> None:
        """End now, with a partial report."""
        self._send(signal.SIGINT)

    def close(self) -> None:
        """End now if it is not over, and wait until it is."""
        process = self._process
        if process is None:
            return
        self._send(signal.SIGINT)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._send(signal.SIGKILL)  # the trials' guard ends the rest
            process.wait()

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, number)

    @staticmethod
    def _read(process: subprocess.Popen[str], tell: Callable[[Event], None]) -> None:
        other: list[str] = []
        assert process.stderr is not None
        with process.stderr as lines:
            for line in lines:
                event = event_of(line)
                if event is not None:
                    tell(event)
                elif line.strip():
                    other = [*other, line.rstrip()][-_KEPT:]
        tell(Ended(process.wait(), "\n".join(other)))
