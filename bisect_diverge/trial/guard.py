"""Runs a command so that nothing of it outlives the trial; a program of its own, of the standard library only.

    guard.py LIFELINE SCRATCH INHERITED COMMAND...

Whoever starts it holds the other end of the pipe LIFELINE: when that is closed, on purpose or because its process was
killed, the command ends with everything that it started, and SCRATCH is removed. On purpose it says so by a byte;
otherwise the directory of the search above SCRATCH is removed too, unless something is left in it. INHERITED is what
the command gets from us beside its variables: ``processors=0,1 umask=63 nofile=512``, any of them. The exit status is
the command's, 128+n for a signal.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
GRACE_SECONDS = 1.0
"""Between the polite and the other signal; what holds shared memory cleans up in it."""
SEARCH = "bd-"
"""Begins the name of the temporary directory of a search."""
KILLED, STOPPED = -1000, -1001
"""Instead of a status: the lifeline was cut because our parent was killed, or on purpose."""


def main() -> int:
    """Run the command; return its status."""
    lifeline, scratch, inherited, *command = sys.argv[1:]
    # Processes in sessions of their own (torchrun's workers) come to us when their parent has gone.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    child = os.fork()
    if not child:
        _become(command, dict(word.split("=") for word in inherited.split()))
    status = _wait(child, int(lifeline), woken)
    _end_all()
    if status in (KILLED, STOPPED):
        shutil.rmtree(scratch, ignore_errors=True)
        search = os.path.dirname(scratch)  # noqa: PTH120 - pathlib would double the start-up time
        if status == KILLED and os.path.basename(search).startswith(SEARCH):  # noqa: PTH119
            with contextlib.suppress(OSError):  # another trial of it is not removed yet
                os.rmdir(search)  # noqa: PTH106
        return 128 + signal.SIGKILL
    return 128 - status if status < 0 else status


def _become(command: list[str], inherited: dict[str, str]) -> None:
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.setpgid(0, 0)
        for name, value in inherited.items():
            _inherit(name, value)
        os.execvp(command[0], command)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"cannot start {command[0]}: {error}\n")
    os._exit(127)


def _inherit(name: str, value: str) -> None:
    if name == "processors":
        os.sched_setaffinity(0, [int(number) for number in value.split(",")])
    elif name == "umask":
        os.umask(int(value))
    else:
        import resource

        kind = getattr(resource, f"RLIMIT_{name.upper()}")
        resource.setrlimit(kind, (int(value), resource.getrlimit(kind)[1]))


def _wait(child: int, lifeline: int, woken: int) -> int:
    """Return how the command ended; `KILLED` or `STOPPED` when the lifeline was cut first."""
    while True:
        ready, _, _ = select.select([lifeline, woken], [], [])
        if woken in ready:
            os.read(woken, 512)
        status = _reap(child)
        if status is not None:
            return status
        if lifeline in ready:
            return STOPPED if os.read(lifeline, 1) else KILLED


def _reap(child: int) -> int | None:
    """Take leave of every process that has ended; return the status of the command if it is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == child:
            found = os.waitstatus_to_exitcode(status)


def _end_all() -> None:
    """End everything below us."""
    deadline = time.monotonic() + GRACE_SECONDS
    number = signal.SIGTERM
    while below := _descendants():
        if time.monotonic() > deadline:
            number = signal.SIGKILL
        for pid in below:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        time.sleep(0.02)
        _reap(0)


def _descendants() -> list[int]:
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib would double the start-up time
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents[int(name)] = int(fields[1])
    ours, found = {os.getpid()}, []
    while more := [pid for pid, parent in parents.items() if parent in ours and pid not in ours]:
        ours.update(more)
        found += more
    return found


if __name__ == "__main__":
    sys.exit(main())
