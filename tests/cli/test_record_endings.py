"""``bd record`` in real processes: however a script that trains ends, its run can be read and is marked."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bisect_diverge.model.run import State
from bisect_diverge.store.reader import Run
from tests.helpers.recordings import BD, RECORD, TRAIN, call, check_rows, record, script, status_of, steps_of

AFTER_TRAINING = """
import os, resource, signal, sys, time
train(3)
print("trained", flush=True)
time.sleep({quiet})


class Broken(torch.nn.Module):
    def forward(self, x):
        raise LookupError("of the script")


{end}
"""
OUT_OF_MEMORY = """
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (48 << 20), resource.RLIM_INFINITY))
kept = []
while True:
    kept.append(bytearray(1 << 20))
"""
TRAINED_ENDINGS = {
    "sys.exit": (0, "sys.exit(3)", 3, State.COMPLETE),
    "exception in forward": (0, "torch.nn.Sequential(model, Broken())(torch.ones(3, 4))", 1, State.INTERRUPTED),
    "out of memory": (0, OUT_OF_MEMORY, 1, State.INTERRUPTED),
    "Ctrl-C": (0, "os.kill(os.getpid(), signal.SIGINT); time.sleep(9)", 130, State.INTERRUPTED),
    "SIGTERM": (1.5, "os.kill(os.getpid(), signal.SIGTERM)", 143, State.INTERRUPTED),
    "SIGKILL": (1.5, "os.kill(os.getpid(), signal.SIGKILL)", 137, State.INTERRUPTED),
    "os._exit": (1.5, "os._exit(5)", 5, State.INTERRUPTED),
}
"""How a script ends after three steps: seconds before that, its code, exit status and what the run is marked with."""


@pytest.fixture(scope="module")
def endings(tmp_path_factory):
    """Folder with a recording of every ending, and what each said; made two at a time."""
    place = tmp_path_factory.mktemp("endings")

    def ended(name):
        quiet, end, status, _ = TRAINED_ENDINGS[name]
        file = place / f"{name}.py"
        file.write_text("import torch\ntorch.manual_seed(0)\n" + TRAIN + AFTER_TRAINING.format(quiet=quiet, end=end))
        return call([*BD, "record", "-o", str(place / name), "--", sys.executable, str(file)], status=status)

    with ThreadPoolExecutor(2) as pool:
        return place, dict(zip(TRAINED_ENDINGS, pool.map(ended, TRAINED_ENDINGS), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("ending", TRAINED_ENDINGS)
def test_state_of_the_run(ending, endings):
    """How the script ended is in the run, as is what it printed; every step flushed a second before is there."""
    place, said = endings
    run, done = place / ending, said[ending]
    _, _, status, state = TRAINED_ENDINGS[ending]
    assert status_of(run)[0] is state
    assert status_of(run)[1] in (status, None)
    assert list(steps_of(run))[:3] == [0, 1, 2]
    assert check_rows(run) > 30
    assert "trained\n" in (run / "stdout.log").read_text()
    assert "bisect_diverge" not in done.stderr
    assert "bd: recorded " in done.stderr


@pytest.mark.slow
def test_what_an_ending_leaves(endings):
    """A status that can be noted is noted, an error is the script's own, a partial step is marked, runs compare."""
    place, said = endings
    assert status_of(place / "sys.exit")[1] == 3
    error = said["exception in forward"].stderr
    assert "LookupError: of the script\n" in error
    assert 'File "' in error
    assert "LookupError: of the script\n" in (place / "exception in forward" / "stdout.log").read_text()
    with Run(place / "exception in forward") as run:
        begun = [str(run.first.address(row)) for row in range(len(run.first.events))]
    assert "r0/3/0/forward/Sequential:1#0:input.0" in begun
    assert "r0/3/0/forward/Sequential:1#0:output.0" not in begun
    assert "MemoryError" in said["out of memory"].stderr
    assert "the script ended with status 137" in said["SIGKILL"].stderr
    assert "interrupted" in call([*BD, "show", place / "SIGKILL"]).stdout
    assert "equal so far" in call([*BD, "diff", place / "SIGKILL", place / "SIGTERM"]).stdout


ENDLESS = (
    TRAIN
    + """
import os
print("pid", os.getpid(), flush=True)
step = 0
while True:
    train(1)
    print("done", step, flush=True)
    step += 1
"""
)


@pytest.mark.matrix
@pytest.mark.parametrize("seed", range(10))
def test_kill_in_mid_run(seed, folder):
    """After ``kill -9`` at random times the runs are readable and right, and can be compared."""
    name = script(folder, "import torch\ntorch.manual_seed(0)\n" + ENDLESS)
    chance = random.Random(seed)
    for run in ("a", "b"):
        command = [*BD, "record", "-o", run, "--", sys.executable, name]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            pid = int(process.stdout.readline().split()[1])
            seen = []
            end = None
            for line in process.stdout:
                seen.append((time.monotonic(), int(line.split()[1])))
                end = end or time.monotonic() + 1.0 + chance.random() * 1.5
                if time.monotonic() > end:
                    killed = time.monotonic()
                    os.kill(pid, signal.SIGKILL)
                    break
            process.stdout.read()
            err = process.stderr.read()
        assert process.returncode == 137
        assert "the script ended with status 137" in err
        assert status_of(run)[0] is State.INTERRUPTED
        counts = steps_of(run)
        assert list(counts) == list(range(len(counts)))
        assert len({counts[step] for step in range(1, len(counts) - 1)}) == 1
        promised = max((step for when, step in seen if when < killed - 1.0), default=-1)
        assert len(counts) > promised
        check_rows(run)
    assert "interrupted" in call([*BD, "show", "a"]).stdout
    compared = call([*BD, "diff", "a", "b"])
    assert "Traceback" not in compared.stderr


@pytest.mark.slow
def test_kill_of_the_recorder(folder):
    """When ``bd record`` itself is killed the script goes on, and its run is whole."""
    text = (
        TRAIN + "\nimport time\ntrain(2)\nprint('ready', flush=True)\ntime.sleep(1)\ntrain(2)\nopen('end', 'w').close()"
    )
    command = [*RECORD, sys.executable, script(folder, text)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout.readline() == b"ready\n"
        process.kill()
    for _ in range(100):
        if Path("end").exists() and status_of("run")[0] is State.COMPLETE:
            break
        time.sleep(0.1)
    assert status_of("run") == (State.COMPLETE, None)
    assert list(steps_of("run")) == [0, 1, 2, 3]


@contextlib.contextmanager
def small_disk(folder):
    """Mount a disk of 3 MB; skip where nobody lets us."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "none", folder], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


FULL = {
    "quota": ("resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))", "File too large"),
    "full disk": ("", "No space left on device"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", FULL)
def test_no_more_can_be_written(kind, folder):
    """When no more can be written to the file there is one message, and the script ends as it would."""
    limit, reason = FULL[kind]
    text = f"""
import resource, sys
{limit}
import torch
model = torch.nn.Linear(200, 200)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(40):
    model(torch.randn(50, 200)).square().mean().backward()
    optimizer.step()
print("trained")
sys.exit(6)
"""
    with small_disk(folder / "disk") if kind == "full disk" else contextlib.nullcontext():
        run = folder / "disk" / "run"
        done = call([*BD, "record", "-o", run, "--", sys.executable, script(folder, text)], status=6)
        assert done.stdout == "trained\n"
        assert len([line for line in done.stderr.splitlines() if reason in line or "write" in line]) == 1, done.stderr
        assert "Traceback" not in done.stderr
        assert "Exception ignored" not in done.stderr
        assert status_of(run)[0] is State.INTERRUPTED


@pytest.mark.slow
def test_hostile_script(folder):
    """A script that tears down what is around it is recorded all the same, and ends with its own status."""
    text = (
        TRAIN
        + """
import gc, os, sys, warnings
train(1)
os.makedirs("deep", exist_ok=True)
os.chdir("deep")
for name in [name for name in sys.modules if name.startswith("bisect_diverge")]:
    del sys.modules[name]
original = torch.nn.Module.__call__
torch.nn.Module.__call__ = lambda self, *args, **kwargs: original(self, *args, **kwargs)
os.environ.clear()
sys.path.clear()
sys.argv.clear()
gc.disable()
warnings.simplefilter("error")
sys.stderr.close()
sys.stdout.close()
os.close(2)
sys.setrecursionlimit(200)
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
train(2)
sys.exit(5)
"""
    )
    record([sys.executable, script(folder, text)], status=5)
    assert list(steps_of("run")) == [0, 1, 2]
    assert status_of("run") == (State.COMPLETE, 5)
    check_rows("run")


@pytest.mark.slow
def test_directory_that_vanishes(folder):
    """A script that removes the run's directory before it trains is told that nothing is recorded."""
    text = "import shutil\nshutil.rmtree('run')\n" + TRAIN + "\ntrain()\nprint('trained')"
    done = record([sys.executable, script(folder, text)])
    assert done.stdout == "trained\n"
    assert "bd: nothing is recorded: " in done.stderr
    assert "Traceback" not in done.stderr
