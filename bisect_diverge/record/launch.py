"""Starts the command that is to be recorded, and passes its output through while keeping a copy.

Runs in the process of ``bd record``, never in the recorded one; needs no torch.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import os
import pty
import selectors
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from bisect_diverge.errors import CommandError, OutputExistsError

READ_BYTES = 1 << 16
QUIET_SECONDS = 1.0
"""Progress is shown once the script has said nothing for this long, and taken away before it speaks again."""
DRAIN_SECONDS = 1.0
"""How long a pipe that a left-over grandchild holds open is read after the script has ended."""


def run_command(
    command: Sequence[str],
    environment: dict[str, str],
    log: Path,
    progress: Callable[[], str] | None,
) -> int:
    """Run a command with its output passed through and kept; return its status, 128+n for a signal.

    Where our standard output or error is a terminal the command gets a terminal too, so that its progress bars look
    as always.

    Args:
        command: Program and arguments.
        environment: Its whole environment.
        log: File that gets a copy of what it prints on both streams; it must not exist.
        progress: Returns the text to show while the command is silent; None: show nothing.

    Raises:
        CommandError: if the command cannot be started.
        OutputExistsError: if another process records into the same directory.
    """
    program = find_program(command, environment.get("PATH"))
    with _claim(log) as copy, _streams() as streams:
        try:
            process = subprocess.Popen(
                [command[0], *command[1:]],
                executable=program,
                env=environment,
                stdout=streams.child_out,
                stderr=streams.child_err,
                # Without a terminal a signal to our group must not reach the command twice: it gets it from us.
                process_group=None if _has_terminal() else 0,
            )
        except OSError as error:
            raise CommandError(f"cannot start {command[0]}: {error.strerror or error}") from error
        streams.close_child_ends()
        with _signals(process, streams.resized):
            _relay(process, streams, copy, progress)
            status = process.wait()
    return 128 - status if status < 0 else status


def _claim(log: Path) -> IO[bytes]:
    """Open the log of a run: of two that were given the same empty directory, one is first here."""
    try:
        return log.open("xb", buffering=0)  # a full disk is met where it can be passed over, not when the log is closed
    except FileExistsError as error:
        raise OutputExistsError(
            f"another process is recording into {log.parent} at this moment", hint="choose another name with -o"
        ) from error


FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""What is sent to us is meant for the script: to end it, or (by a batch system) to make it save its state."""


def find_program(command: Sequence[str], path: str | None = None) -> str:
    """Return the file that a command runs.

    Args:
        command: Program and arguments.
        path: Where to look for it; None: this process's ``PATH``.

    Raises:
        CommandError: if there is none.
    """
    program = shutil.which(command[0], path=path)
    if program is None:
        raise CommandError(
            f"command not found: {command[0]}",
            hint="give the command after -- as you would type it: bd record -o RUN -- python train.py",
        )
    return program


class _Streams:
    """The two output streams of the command: where the command writes, and where we read."""

    def __init__(self) -> None:
        self.sources: dict[int, int] = {}
        """Our end of each stream to the descriptor it is passed on to."""
        self.resized: Callable[[], None] | None = None
        """Gives the command's terminal the size that ours has now; None where it has none."""
        terminal = None
        ends = []
        for target in (1, 2):
            if not os.isatty(target):
                read, write = os.pipe()
                self.sources[read] = target
            elif terminal is None:
                read, write = terminal = _open_terminal(target)
                self.sources[read] = target
                self.resized = functools.partial(_copy_size, target, read)
            else:  # one terminal for both keeps their order
                write = os.dup(terminal[1])
            ends.append(write)
        self.child_out, self.child_err = ends

    def close_child_ends(self) -> None:
        """Leave the command's ends to the command."""
        for end in (self.child_out, self.child_err):
            with contextlib.suppress(OSError):
                os.close(end)

    def close(self) -> None:
        """Close our ends."""
        for end in self.sources:
            with contextlib.suppress(OSError):
                os.close(end)


@contextmanager
def _streams() -> Iterator[_Streams]:
    streams = _Streams()
    try:
        yield streams
    finally:
        streams.close_child_ends()
        streams.close()


def _open_terminal(like: int) -> tuple[int, int]:
    """Open a terminal of the size of ours that leaves line ends alone, since ours will deal with them."""
    master, slave = pty.openpty()
    modes = termios.tcgetattr(slave)
    modes[1] &= ~termios.OPOST
    termios.tcsetattr(slave, termios.TCSANOW, modes)
    _copy_size(like, master)
    return master, slave


def _copy_size(source: int, target: int) -> None:
    with contextlib.suppress(OSError):
        size = fcntl.ioctl(source, termios.TIOCGWINSZ, b"\0" * 8)
        fcntl.ioctl(target, termios.TIOCSWINSZ, size)


def _has_terminal() -> bool:
    return any(os.isatty(fd) for fd in (0, 1, 2))


@contextmanager
def _signals(process: subprocess.Popen[bytes], resized: Callable[[], None] | None) -> Iterator[None]:
    """Let Ctrl-C be the script's business, and hand on what is sent to us alone."""
    from_terminal = {signal.SIGINT, signal.SIGQUIT} if _has_terminal() else set()

    def forward(number: int, _frame: object) -> None:
        if number in from_terminal:
            return  # the terminal has sent it to the script as well
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)

    # Handlers, not SIG_IGN: the command would inherit that, as would everything it starts.
    old = {number: signal.signal(number, forward) for number in FORWARDED}
    if resized is not None:  # the script has the signal from our terminal; what it asks for is the size of its own
        old[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, lambda *_: resized())
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _relay(
    process: subprocess.Popen[bytes], streams: _Streams, copy: IO[bytes], progress: Callable[[], str] | None
) -> None:
    line = _ProgressLine(progress)
    ended = 0.0
    with selectors.DefaultSelector() as selector:
        for source in streams.sources:
            selector.register(source, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(0.1)
            before = time.monotonic()
            for key, _ in ready:
                data = _read(key.fd)
                if not data or not _pass_on(data, streams.sources[key.fd], copy, line):
                    selector.unregister(key.fd)
                    os.close(key.fd)
            if not ready:
                line.silent()
            if process.poll() is not None:
                # Time that our own reader takes (a pager, say) does not count: what is in the pipe is not lost.
                ended = ended + time.monotonic() - before if ended else time.monotonic()
                if not ready or time.monotonic() - ended > DRAIN_SECONDS:
                    break
    line.clear()
    for source in list(streams.sources):
        with contextlib.suppress(OSError):
            os.close(source)
    streams.sources.clear()


def _read(source: int) -> bytes:
    try:
        return os.read(source, READ_BYTES)
    except OSError as error:
        if error.errno == errno.EIO:  # Linux: the last writer of a terminal has closed it
            return b""
        raise


def _pass_on(data: bytes, target: int, copy: IO[bytes], line: _ProgressLine) -> bool:
    """Write to our stream and to the log; False when our reader has gone, so that the script learns of it."""
    line.clear()
    with contextlib.suppress(OSError):  # a full disk must not stop the script's output
        copy.write(data)
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(target, view) :]
    except OSError:  # a pipe without reader, a terminal that has gone
        return False
    return True


class _ProgressLine:
    """One line on the terminal, there only while the script is silent."""

    def __init__(self, text: Callable[[], str] | None) -> None:
        self._text = text if os.isatty(2) else None
        self._spoken = time.monotonic()
        self._shown = False

    def silent(self) -> None:
        """Show or renew the line if it is time to."""
        now = time.monotonic()
        if self._text is None or now - self._spoken < QUIET_SECONDS:
            return
        text = self._text()
        if text:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            self._shown = True
        self._spoken = now

    def clear(self) -> None:
        """Take the line away."""
        self._spoken = time.monotonic()
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False
