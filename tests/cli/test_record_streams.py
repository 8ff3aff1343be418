"""``bd record`` in real processes: what the script prints, reads and is sent, and its exit status."""

from __future__ import annotations

import hashlib
import os
import pty
import random
import select
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.helpers.command import surroundings
from tests.helpers.recordings import RECORD, record, script

ENDINGS = {
    "nothing": ("", 0),
    "exit 3": ("sys.exit(3)", 3),
    "exit text": ("sys.exit('of the script')", 1),
    "exception": ("raise LookupError('of the script')", 1),
    "os._exit": ("os._exit(9)", 9),
    "SIGTERM": ("os.kill(os.getpid(), signal.SIGTERM)", 143),
    "SIGKILL": ("os.kill(os.getpid(), signal.SIGKILL)", 137),
    "abort": ("os.abort()", 134),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_exit_status_and_output(ending, folder):
    """Exit status and both outputs are the script's, byte for byte; without a module call that is said."""
    code, status = ENDINGS[ending]
    text = f"""
        import os, signal, sys
        print("on stdout", flush=True)
        print("on stderr", file=sys.stderr, flush=True)
        {code}
        """
    name = script(folder, text)
    plain = subprocess.run([sys.executable, name], capture_output=True, text=True, check=False)
    done = record([sys.executable, name], status=status)
    assert done.stdout == plain.stdout == "on stdout\n"
    assert done.stderr.startswith(plain.stderr)
    assert done.stderr.removeprefix(plain.stderr).startswith("bd: nothing was recorded")
    assert not Path("run").exists()


@pytest.mark.slow
def test_output_is_passed_byte_for_byte(folder):
    """Binary output, and much of it, arrives whole and is kept whole."""
    text = """
import os, random, sys, torch
block = random.Random(0).randbytes(1 << 20)
for _ in range(100):
    sys.stdout.buffer.write(block)
sys.stdout.buffer.write(b"no line end")
torch.nn.Identity()(torch.ones(1))
"""
    done = record([sys.executable, script(folder, text)], text=False)
    block = random.Random(0).randbytes(1 << 20)
    expected = hashlib.sha256(block * 100 + b"no line end").hexdigest()
    assert hashlib.sha256(done.stdout).hexdigest() == expected
    assert Path("run/stdout.log").read_bytes() == done.stdout


def test_slow_reader(folder):
    """Output that our reader takes slowly is not cut off when the script has ended."""
    name = script(folder, "print('x' * 300_000)")
    with subprocess.Popen(
        [*RECORD, sys.executable, name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        time.sleep(2.5)
        total = 0
        while data := process.stdout.read1(4096):
            total += len(data)
            if total < 40_000:
                time.sleep(0.15)
    assert total == 300_001


def test_reader_that_goes(folder):
    """When our reader goes the script learns of it, as it would without us."""
    name = script(folder, "while True:\n    print('y')")
    with subprocess.Popen([*RECORD, sys.executable, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"y\n"
        process.stdout.close()
        err = process.stderr.read()
        assert process.wait(30) in (1, 141)
    assert b"BrokenPipeError" in err or process.returncode == 141


def test_program_left_behind(folder):
    """A program that the script leaves running, with our output as its own, does not hold us up."""
    text = """
        import subprocess, sys
        subprocess.Popen(["sleep", "60"])
        print("done")
        """
    begin = time.monotonic()
    assert record([sys.executable, script(folder, text)]).stdout == "done\n"
    assert time.monotonic() - begin < 20


def test_standard_input(folder):
    """The script reads our standard input."""
    name = script(folder, "import sys\nprint(sys.stdin.read().upper())")
    assert record([sys.executable, name], stdin="typed\nby a user").stdout == "TYPED\nBY A USER\n"


def in_terminal(command, *, size=(40, 100), keys=b"", redirect=None):
    """Run a command in a terminal; return what it printed there and its status."""
    child, master = pty.fork()
    if child == 0:
        if redirect is not None:
            os.dup2(os.open(redirect, os.O_WRONLY | os.O_CREAT), 1)
        os.execvpe(command[0], command, surroundings())
    import fcntl
    import struct
    import termios

    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    output, sent = b"", False
    while True:
        ready, _, _ = select.select([master], [], [], 60)
        if not ready:
            os.kill(child, signal.SIGKILL)
            break
        try:
            data = os.read(master, 4096)
        except OSError:
            break
        if not data:
            break
        output += data
        if keys and not sent and b"ready" in output:
            os.write(master, keys)
            sent = True
    _, status = os.waitpid(child, 0)
    os.close(master)
    return output, os.waitstatus_to_exitcode(status)


TERMINAL = """
    import os, sys
    print("terminal", [os.isatty(fd) for fd in (0, 1, 2)], flush=True)
    print("size", tuple(os.get_terminal_size(1)) if os.isatty(1) else None, flush=True)
    print("columns\\r", end="", file=sys.stderr)
    """


def test_terminal(folder):
    """When ours is a terminal the script has one of the same size, and lines end as they do there."""
    name = script(folder, "import time; time.sleep(0.5)\n" + textwrap.dedent(TERMINAL))
    plain, _ = in_terminal([sys.executable, name])
    output, status = in_terminal([*RECORD, sys.executable, name])
    assert status == 0
    assert b"terminal [True, True, True]\r\n" in output
    assert b"size (100, 40)\r\n" in output
    assert output.startswith(plain)
    assert b"\r\r\n" not in output


def test_terminal_for_one_stream(folder):
    """A stream that is redirected is no terminal for the script, the other one is."""
    name = script(folder, TERMINAL)
    output, status = in_terminal([*RECORD, sys.executable, name], redirect=str(folder / "out.txt"))
    assert status == 0
    assert (folder / "out.txt").read_text() == "terminal [True, False, True]\nsize None\n"
    assert b"columns\r" in output


INTERRUPTED = """
    import sys, time
    try:
        print("ready", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        time.sleep(0.5)  # a second interrupt would end this
        print("saved", flush=True)
        sys.exit(7)
    """


def test_control_c_in_a_terminal(folder):
    """Ctrl-C reaches the script once, which ends in its own way."""
    output, status = in_terminal([*RECORD, sys.executable, script(folder, INTERRUPTED)], keys=b"\x03")
    assert status == 7
    assert b"saved" in output
    assert b"Traceback" not in output


@pytest.mark.parametrize(
    ("number", "to_group", "text", "expected"),
    [
        (signal.SIGINT, True, INTERRUPTED, 7),
        (signal.SIGINT, False, INTERRUPTED, 7),
        (signal.SIGINT, True, "import time; print('ready', flush=True); time.sleep(60)", 130),
        (signal.SIGTERM, False, "import time; print('ready', flush=True); time.sleep(60)", 143),
        (
            signal.SIGUSR1,
            False,
            """
            import signal, sys, time
            signal.signal(signal.SIGUSR1, lambda *_: sys.exit(8))
            print('ready', flush=True)
            time.sleep(60)
            """,
            8,
        ),
    ],
)
def test_signals(number, to_group, text, expected, folder):
    """A signal to our process or to our group reaches the script once; its status is ours."""
    command = [*RECORD, sys.executable, script(folder, text)]
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, start_new_session=True, **options) as process:
        assert process.stdout.readline() == b"ready\n"
        (os.killpg if to_group else os.kill)(process.pid, number)
        out, err = process.communicate(timeout=30)
    assert process.returncode == expected, err
    if expected == 7:
        assert out == b"saved\n"
