"""``bd record`` in real processes: the script runs, prints and ends as without us, whatever it does."""

from __future__ import annotations

import hashlib
import os
import pty
import random
import re
import select
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from bisect_diverge.model.elements import ELEMENT_TYPES
from bisect_diverge.model.run import State
from bisect_diverge.numerics.digest import digest, header
from bisect_diverge.store.reader import Run
from tests.helpers.command import surroundings

BD = [sys.executable, "-m", "bisect_diverge"]
RECORD = [*BD, "record", "-o", "run", "--"]

TRAIN = """
import torch

model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def train(steps=2):
    for _ in range(steps):
        model(torch.randn(3, 4)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
"""Begin of most scripts that train."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder of its own, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def script(folder, text, name="script.py"):
    """Write a script and return its name."""
    (folder / name).write_text(textwrap.dedent(text))
    return name


def call(command, *, status=0, timeout=120, text=True, stdin="", env=None, **variables):
    """Run a command; its exit status must be `status`."""
    done = subprocess.run(
        [str(part) for part in command],
        input=stdin if text else stdin.encode(),
        env=(surroundings() if env is None else env) | variables,
        capture_output=True,
        text=text,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == status, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def record(command, **options):
    """Record a command as ``run``."""
    return call([*RECORD, *command], **options)


def steps_of(run):
    """Return the number of rows of each step, of a whole or broken run."""
    with Run(run) as opened:
        steps = opened.first.events["step"].tolist()
    return {step: steps.count(step) for step in sorted(set(steps))}


def status_of(run):
    """Return state and exit status of a run."""
    with Run(run) as opened:
        return opened.first.status.state, opened.first.status.exit_status


def check_rows(run):
    """Check that names, slots and bytes of every row are there and right; return the number of rows."""
    with Run(run) as opened:
        file = opened.first
        for row in range(len(file.events)):
            found = file.record_at(row)
            tensor = file.tensor(row)
            if tensor is not None and ELEMENT_TYPES[file.events[row]["dtype"]].name == found.dtype != "bytes":
                head = header(found.dtype, found.shape)
                assert digest(head, tensor.reshape(-1).view("u1") if tensor.size else b"").hex() == found.digest
        return len(file.events)


# -- ways to start --------------------------------------------------------------------------------------------------


def as_script(folder):
    """Start a script with an argument."""
    return [sys.executable, script(folder, TRAIN + "\nimport sys\ntrain(int(sys.argv[1]))"), "2"]


def as_module(folder):
    """Start a module of a package."""
    (folder / "pkg").mkdir()
    (folder / "pkg" / "__init__.py").write_text("")
    script(folder, TRAIN + "\nif __name__ == '__main__':\n    train()", "pkg/mod.py")
    return [sys.executable, "-m", "pkg.mod"]


def as_console_script(folder):
    """Start an executable file that is found on PATH."""
    (folder / "bin").mkdir()
    program = folder / "bin" / "my-train"
    program.write_text(f"#!{sys.executable}\n{TRAIN}\ntrain()")
    program.chmod(0o755)
    return ["my-train"]


def as_shell(folder):
    """Start a shell that starts the script."""
    return ["sh", "-c", f"exec {sys.executable} {script(folder, TRAIN + chr(10) + 'train()')}"]


@pytest.mark.slow
@pytest.mark.parametrize("way", [as_script, as_module, as_console_script, as_shell])
def test_ways_to_start(way, folder):
    """A script, a module, a console script and a shell command are recorded alike."""
    command = way(folder)
    done = record(command, PATH=f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert list(steps_of("run")) == [0, 1]
    assert status_of("run") == (State.COMPLETE, 0)
    assert sorted(file.name for file in Path("run").iterdir()) == ["rank-00000.h5", "stdout.log"]
    assert re.fullmatch(
        r"bd: step 0: .*\nbd: recorded 2 steps, \d+ records, [\d.]+ MB in run\n", done.stderr, re.DOTALL
    )
    with Run("run") as run:
        assert list(run.first.record.command) == command
        assert run.first.record.cwd == str(folder)


# -- output, input, status ------------------------------------------------------------------------------------------

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
@pytest.mark.parametrize(
    ("code", "status", "state"),
    [
        ("sys.exit(3)", 3, State.COMPLETE),
        ("raise LookupError('of the script')", 1, State.INTERRUPTED),
        ("time.sleep(1.5); os._exit(5)", 5, State.INTERRUPTED),
    ],
)
def test_state_of_the_run(code, status, state, folder):
    """How the script ended is in the run, as is what it printed; every step before is there."""
    name = script(folder, TRAIN + f"\nimport os, sys, time\ntrain(3)\nprint('trained', flush=True)\n{code}")
    done = record([sys.executable, name], status=status)
    assert status_of("run")[0] is state
    assert status_of("run")[1] in (status, None)
    assert list(steps_of("run")) == [0, 1, 2]
    assert check_rows("run") > 30
    log = Path("run/stdout.log").read_text()
    assert "trained\n" in log
    if "raise" in code:
        assert 'File "' in done.stderr
        assert "LookupError: of the script\n" in done.stderr
        assert "bisect_diverge" not in done.stderr
        assert "LookupError: of the script\n" in log
    elif "exit(3)" in code:
        assert status_of("run")[1] == 3


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


# -- the environment of the script ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_surroundings_of_the_script(folder):
    """The script finds the user's sitecustomize, path and variables; what it starts when recorded is not recorded."""
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text("import builtins\nbuiltins.OF_THE_USER = 1\n")
    (folder / "site" / "helper.py").write_text("")
    child = "import os, torch; torch.nn.Identity()(torch.ones(1)); print([k for k in os.environ if 'BISECT' in k])"
    text = (
        TRAIN
        + f"""
import os, subprocess, sys
import helper, sitecustomize
print(OF_THE_USER, os.path.dirname(sitecustomize.__file__) == os.path.join(os.getcwd(), "site"))
print([entry for entry in sys.path if "bootstrap" in entry], [f for f in sys.meta_path if "Torch" in str(f)])
train()
print(os.environ["PYTHONPATH"] == os.path.join(os.getcwd(), "site"), [k for k in os.environ if "BISECT" in k])
print(subprocess.run([sys.executable, "-c", {child!r}], capture_output=True, text=True, check=True).stdout, end="")
"""
    )
    done = record([sys.executable, script(folder, text)], PYTHONPATH=str(folder / "site"))
    assert done.stdout.splitlines() == ["1 True", "[] []", "True []", "[]"]
    assert [file.name for file in Path("run").glob("*.h5")] == ["rank-00000.h5"]


def test_sitecustomize_that_fails(folder):
    """An error in the user's own sitecustomize is reported by Python as without us."""
    (folder / "sitecustomize.py").write_text("import no_such_module_of_theirs\n")
    name = script(folder, "print('runs')")
    done = record([sys.executable, name], PYTHONPATH=str(folder))
    assert done.stdout == "runs\n"
    assert "no_such_module_of_theirs" in done.stderr


@pytest.mark.slow
def test_torch_is_looked_for_before_it_is_imported(folder):
    """A library that only asks whether there is a torch, as many do, does not keep us from recording."""
    text = """
import importlib.util, sys
found = importlib.util.find_spec("torch")
assert importlib.util.find_spec("torch").origin == found.origin
assert importlib.util.find_spec("torch_of_nobody") is None
assert "torch" not in sys.modules
"""
    done = record([sys.executable, script(folder, text + TRAIN + "\ntrain()\nprint(sys.meta_path)")])
    assert list(steps_of("run")) == [0, 1]
    assert "Torch" not in done.stdout


def test_torch_that_cannot_be_imported(folder):
    """A torch whose import fails at first is the script's affair, and is tried again."""
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text(
        "import os\nif not os.environ.get('READY'):\n    raise OSError('not yet')"
    )
    text = """
        import os
        try:
            import torch
        except OSError as error:
            print(error)
        os.environ["READY"] = "1"
        import torch
        print("imported")
        """
    done = record([sys.executable, script(folder, text)], PYTHONPATH=str(folder))
    assert done.stdout == "not yet\nimported\n"
    assert "nothing is recorded" in done.stderr


@pytest.mark.slow
def test_two_processes_of_one_rank(folder):
    """A process that trains before its parent is recorded in a file of its own."""
    script(folder, TRAIN + "\ntrain(1)", "first.py")
    text = f"import subprocess, sys\nsubprocess.run([sys.executable, 'first.py'], check=True)\n{TRAIN}\ntrain(3)"
    done = record([sys.executable, script(folder, text)])
    assert sorted(file.name for file in Path("run").glob("*.h5")) == ["rank-00000.1.h5", "rank-00000.h5"]
    assert "and 1 more processes of the same rank" in done.stderr
    assert list(steps_of("run")) == [0]
    assert list(steps_of("run/rank-00000.1.h5")) == [0, 1, 2]


@pytest.mark.slow
def test_workers_and_forks(folder):
    """Loader workers, forked children and spawned processes write nothing, and do not hurt the parent's file."""
    text = (
        TRAIN
        + """
import multiprocessing, os, sys, threading

class Data(torch.utils.data.Dataset):
    transform = torch.nn.Dropout(0.5)
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return self.transform(torch.ones(4))

def child():
    train(2)

def main():
    for context, workers in (("fork", 2), ("spawn", 1)):
        loader = torch.utils.data.DataLoader(Data(), 4, num_workers=workers, multiprocessing_context=context)
        for batch in loader:
            model(batch).sum().backward()
            optimizer.step()
    for number in range(10):
        train(1)
        pid = os.fork()
        if pid == 0:
            train(1)
            if number % 2:
                sys.exit(0)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    process = multiprocessing.get_context("spawn").Process(target=child)
    process.start()
    process.join()
    assert process.exitcode == 0
    train(1)

if __name__ == "__main__":
    main()
"""
    )
    record([sys.executable, script(folder, text)])
    assert [file.name for file in Path("run").glob("*.h5")] == ["rank-00000.h5"]
    assert status_of("run") == (State.COMPLETE, 0)
    assert list(steps_of("run")) == list(range(15))
    check_rows("run")
    with Run("run") as run:
        roots = {run.first.address(row).root for row in range(len(run.first.events))}
    assert roots == {"model", "optimizer", "loader", "loader_1", "-"}


def test_isolated_python(folder):
    """``python -I`` keeps us out: that is said, and everything else is as usual."""
    name = script(folder, "import torch\ntorch.nn.Identity()(torch.ones(1))\nraise SystemExit(4)")
    done = record([sys.executable, "-I", name], status=4)
    assert "nothing was recorded" in done.stderr
    assert "-I" in done.stderr


def test_no_module_called(folder):
    """A script that imports torch and calls no module is told so."""
    done = record([sys.executable, script(folder, "import torch\nprint(torch.ones(1).item())")])
    assert done.stdout == "1.0\n"
    assert done.stderr.startswith("bd: nothing was recorded")
    assert not Path("run").exists()


def test_files_of_the_script_in_the_run_directory(folder):
    """What the script saves in the directory of a run in which nothing was recorded stays there."""
    record([sys.executable, script(folder, "open('run/model.pt', 'w').write('precious')")])
    assert Path("run/model.pt").read_text() == "precious"
    assert [entry.name for entry in Path("run").iterdir()] == ["model.pt"]


def test_python_without_our_package(folder):
    """A Python that cannot import us says so in one message, and runs the script."""
    python = getattr(sys, "_base_executable", sys.executable)
    probe = [python, "-c", "import bisect_diverge"]
    if subprocess.run(probe, capture_output=True, check=False, env={}).returncode == 0:
        pytest.skip("this test needs a Python without the package")
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text("value = 5\n")
    done = record([python, script(folder, "import torch\nprint(torch.value)")], PYTHONPATH=str(folder))
    assert done.stdout == "5\n"
    assert f"nothing is recorded: {python} cannot import bisect_diverge" in done.stderr
    assert f"{python} -m pip install bisect-diverge" in done.stderr
    assert "Traceback" not in done.stderr


# -- interrupted runs -----------------------------------------------------------------------------------------------

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


@pytest.mark.slow
def test_kill_in_mid_run(folder):
    """After ``kill -9`` at random times the runs are readable and right, and can be compared."""
    name = script(folder, "import torch\ntorch.manual_seed(0)\n" + ENDLESS)
    chance = random.Random()
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


@pytest.mark.slow
def test_size_limit(folder):
    """When no more can be written to the file there is one message, and the script ends as it would."""
    text = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))
import torch
torch.manual_seed(0)
model = torch.nn.Linear(200, 200)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(60):
    model(torch.randn(50, 200)).square().mean().backward()
    optimizer.step()
print(model.weight.double().sum().item())
sys.exit(6)
"""
    name = script(folder, text)
    plain = call([sys.executable, name], status=6)
    done = record([sys.executable, name], status=6)
    assert done.stdout == plain.stdout
    said = [line for line in done.stderr.splitlines() if "File too large" in line or "write" in line]
    assert len(said) == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert status_of("run")[0] is State.INTERRUPTED


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


@pytest.mark.slow
def test_library_inside_a_recorded_process(folder):
    """The library's door inside a process that ``bd record`` records is refused with the library's own error."""
    text = TRAIN + "\nimport bisect_diverge\nwith bisect_diverge.record('inner'):\n    train()"
    done = record([sys.executable, script(folder, text)], status=1)
    assert "UsageError: this process is being recorded already" in done.stderr
    assert not Path("inner").exists()


@pytest.mark.slow
def test_warnings_as_errors(folder):
    """With every warning an error, and Python's checks on, ours causes none."""
    text = "import warnings\nimport torch\nwarnings.simplefilter('error')\n" + TRAIN + "\ntrain()"
    name = script(folder, text)
    done = record([sys.executable, "-X", "dev", name])
    assert "Warning" not in done.stderr, done.stderr
    assert list(steps_of("run")) == [0, 1]


# -- options --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_options_reach_the_recorder(folder):
    """Steps, modules, capture, budget and declared files of the command line are those of the recording."""
    Path("data.bin").write_text("x")
    Path("runs/001").mkdir(parents=True)
    options = ["--steps", "1:3", "--modules", "0", "--modules", "2*", "--capture", "digest", "--data", "data.bin"]
    name = script(folder, TRAIN + "\ntrain(4)")
    call(
        [*BD, "record", *options, "--env", "MY_OWN", "--keep", "1.5G", "--", sys.executable, name, "--steps", "7"],
        MY_OWN="here",
    )
    run = Path("runs/002")
    assert list(steps_of(run)) == [1, 2]
    with Run(run) as opened:
        found = opened.first.record
        assert found.options.steps == (1, 3)
        assert found.options.modules == ("0", "2*")
        assert found.options.capture == "digest"
        assert found.options.keep_bytes == 3 << 29
        assert list(found.command) == [sys.executable, name, "--steps", "7"]
        settings = {setting.knob: setting.value for setting in found.environment.settings}
        assert settings["MY_OWN"] == "here"
        assert settings["data.0"] == "data.bin"
        assert {opened.first.address(row).fqn for row in range(len(opened.first.events))} <= {
            "",
            "0",
            "2",
            "2.weight",
            "2.bias",
            "loss",
            "group0",
        }
    assert not list(Path("runs/001").iterdir())


MISUSE = {
    "no command": ([], "Missing argument"),
    "only dashes": (["--"], "Missing argument"),
    "empty command": (["--", ""], "command not found"),
    "not found": (["--", "no-such-program"], "command not found: no-such-program"),
    "a directory": (["--", "./folder"], "command not found: ./folder"),
    "not executable": (["--", "./plain.txt"], "command not found: ./plain.txt"),
    "keep": (["--keep", "much", "--", "true"], "not a size: 'much'"),
    "keep negative": (["--keep", "-1", "--", "true"], "not a size"),
    "steps": (["--steps", "5", "--", "true"], "not a range of steps: '5'"),
    "steps empty": (["--steps", "5:5", "--", "true"], "an empty range of steps"),
    "steps colon": (["--steps", ":", "--", "true"], "not a range of steps"),
    "data": (["--data", "missing", "--", "true"], "no such file or directory: missing"),
    "features": (["--features", "missing", "--", "true"], "no such file or directory: missing"),
    "capture": (["--capture", "half", "--", "true"], "'half' is not one of"),
    "exec format": (["--", "./empty.bin"], "cannot start ./empty.bin"),
}


@pytest.mark.parametrize("misuse", MISUSE)
def test_misuse(misuse, folder):
    """A command line that makes no sense is one message and status 2, and leaves no trace."""
    Path("folder").mkdir()
    Path("plain.txt").write_text("x")
    Path("empty.bin").write_bytes(b"\x00\x01")
    Path("empty.bin").chmod(0o755)
    before = sorted(Path().iterdir())
    arguments, message = MISUSE[misuse]
    done = call([*BD, "record", "-o", "run", *arguments], status=2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert sorted(Path().iterdir()) == before


def test_directory_as_script(folder):
    """A directory given to Python as the script is Python's own error."""
    Path("folder").mkdir()
    plain = subprocess.run([sys.executable, "folder"], capture_output=True, text=True, check=False)
    done = record([sys.executable, "folder"], status=plain.returncode)
    assert done.stderr.startswith(plain.stderr)


@pytest.mark.parametrize("output", ["/proc/run", "file/run"])
def test_output_that_cannot_be_made(output, folder):
    """A place where no directory can be made is one message and status 2; the command is not started."""
    Path("file").write_text("x")
    done = call([*BD, "record", "-o", output, "--", "touch", "started"], status=2)
    assert done.stderr.startswith(f"bd: cannot make {output if output.startswith('/') else folder / output}")
    assert not Path("started").exists()


def test_output_exists(folder):
    """What is at the output path is kept without --force; with it a recording is replaced and nothing else."""
    Path("run").mkdir()
    Path("run/rank-00000.h5").write_text("old")
    done = record(["touch", "started"], status=2)
    assert "run exists already" in done.stderr
    assert "--force" in done.stderr
    assert Path("run/rank-00000.h5").read_text() == "old"
    Path("run/mine.txt").write_text("precious")
    done = call([*BD, "record", "--force", "-o", "run", "--", "touch", "started"], status=2)
    assert "is no recording" in done.stderr
    assert Path("run/mine.txt").read_text() == "precious"
    assert not Path("started").exists()
    Path("run/mine.txt").unlink()
    call([*BD, "record", "--force", "-o", "run", "--", "no-such-program"], status=2)
    assert Path("run/rank-00000.h5").read_text() == "old"
    call([*BD, "record", "--force", "-o", "run", "--", "touch", "started"])
    assert Path("started").exists()
    assert not Path("run/rank-00000.h5").exists()


def test_help(folder):
    """The help names the options and an example."""
    text = call([*BD, "record", "--help"]).stdout
    for word in ("--output", "--steps", "--modules", "--capture", "--keep", "--data", "--force", "bd record -o runs/a"):
        assert word in text
