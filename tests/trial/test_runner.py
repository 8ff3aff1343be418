"""Nothing that a trial started outlives it."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bisect_diverge.trial.runner import Launch, last_words, run
from tests.helpers.command import REPOSITORY

FAMILY = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
print(os.getpid(), child.pid, flush=True)
time.sleep(float(sys.argv[1]))
sys.exit(3)
"""
"""A process with a child in a session of its own, as torchrun has them."""

PARENT = """
import sys
from pathlib import Path
from bisect_diverge.trial.runner import Launch, run
import os
run(Launch(command=tuple(sys.argv[2:]), environment=dict(os.environ), cwd="."), Path(sys.argv[1]), 60)
"""


def family(folder, naps, **limits):
    """Run the family for some seconds; return how it ended and its process numbers."""
    command = (sys.executable, "-c", FAMILY, str(naps))
    ended = run(Launch(command=command, environment=dict(os.environ), cwd=str(folder)), folder, **limits)
    return ended, [int(number) for number in (ended.output.split() or ["0"])]


def processes():
    """Return the numbers of all processes."""
    return {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()}


def alive(number):
    """Whether a process is there and running."""
    try:
        with open(f"/proc/{number}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_status_and_the_output_are_the_commands(tmp_path):
    """A command that ends leaves its status and its last words; what it left behind is ended."""
    ended, numbers = family(tmp_path, 0, seconds=60)
    assert (ended.status, ended.timed_out, ended.stopped) == (3, False, False)
    assert len(numbers) == 2
    assert not any(map(alive, numbers))


@pytest.mark.parametrize("limits", [{"seconds": 1.0}, {"seconds": 60, "should_stop": lambda: True}])
def test_a_command_whose_time_is_up_ends_with_all_its_children(tmp_path, limits):
    """Too long, or not wanted any more: both end the whole family."""
    before = processes()
    folder = tmp_path / "bd-search" / "1"
    folder.mkdir(parents=True)
    ended, _ = family(folder, 60, **limits)
    assert ended.timed_out or ended.stopped
    assert ended.seconds < 20
    assert not folder.exists()
    assert folder.parent.exists()  # the search goes on
    new = [number for number in processes() - before if alive(number)]
    assert not [n for n in new if "time.sleep" in Path(f"/proc/{n}/cmdline").read_text()]


def test_nothing_survives_a_kill_of_its_parent(tmp_path):
    """After SIGKILL of whoever started it the command, its children and its folder are gone."""
    folder = tmp_path / "bd-search" / "1"
    folder.mkdir(parents=True)
    words = [sys.executable, "-c", PARENT, str(folder), sys.executable, "-c", FAMILY, "60"]
    parent = subprocess.Popen(words, cwd=REPOSITORY)
    numbers = []
    deadline = time.monotonic() + 60
    while len(numbers) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
        if (folder / "output.log").exists():
            numbers = [int(number) for number in (folder / "output.log").read_text().split()]
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    while (folder.parent.exists() or any(map(alive, numbers))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(numbers) == 2
    assert not any(map(alive, numbers))
    assert not folder.parent.exists()


def test_a_command_that_is_not_there_says_so(tmp_path):
    """The reason of a trial that could not be started is in its output."""
    launch = Launch(command=("no-such-program",), environment=dict(os.environ), cwd=str(tmp_path))
    ended = run(launch, tmp_path, 60)
    assert ended.status == 127
    assert "no-such-program" in ended.output


def test_what_a_shell_would_hand_down_is_handed_down(tmp_path):
    """The mask of new files and limits; what is not asked for is ours."""
    ask = "import os, resource as r; print(os.umask(0), r.getrlimit(r.RLIMIT_NOFILE)[0], r.getrlimit(r.RLIMIT_CORE)[0])"
    launch = Launch(
        command=(sys.executable, "-c", ask),
        environment=dict(os.environ),
        cwd=str(tmp_path),
        inherited={"umask": 0o77, "nofile": 64},
    )
    core = resource.getrlimit(resource.RLIMIT_CORE)[0]
    assert run(launch, tmp_path, 60).output.split() == [str(0o77), "64", str(core)]


def test_processors_are_those_that_were_asked_for(tmp_path):
    """A command runs on the processors of its configuration."""
    one = min(os.sched_getaffinity(0))
    ask = "import os; print(sorted(os.sched_getaffinity(0)))"
    launch = Launch(
        command=(sys.executable, "-c", ask), environment=dict(os.environ), cwd=str(tmp_path), processors=(one,)
    )
    assert run(launch, tmp_path, 60).output.strip() == str([one])


@pytest.mark.parametrize(
    ("output", "words", "expected"),
    [
        ("a\nValueError: b\n", ("Error",), "ValueError: b"),
        ("ValueError: b\nbye\n", ("Error",), "ValueError: b"),
        ("a\nb\n\n", ("Error",), "b"),
        ("", ("Error",), "it printed nothing"),
    ],
)
def test_the_last_words_are_those_that_say_why(output, words, expected):
    """A line with an error in it says more than the last one."""
    assert last_words(output, words) == expected
