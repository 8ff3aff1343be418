"""``bd record`` in real processes: ways to start, what surrounds the script, options, misuse."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bisect_diverge.model.run import State
from bisect_diverge.store.reader import Run
from tests.helpers.recordings import BD, TRAIN, call, check_rows, record, script, status_of, steps_of

# -- ways to start --------------------------------------------------------------------------------------------------


def as_module(folder):
    """Start a module of a package."""
    (folder / "pkg").mkdir()
    (folder / "pkg" / "__init__.py").write_text("")
    script(folder, TRAIN + "\nif __name__ == '__main__':\n    train()", "pkg/mod.py")
    return [sys.executable, "-m", "pkg.mod"]


def as_console_script(folder):
    """Start an executable file that is found on PATH, with an argument, from a shell."""
    (folder / "bin").mkdir()
    program = folder / "bin" / "my-train"
    program.write_text(f"#!{sys.executable}\n{TRAIN}\nimport sys\ntrain(int(sys.argv[1]))")
    program.chmod(0o755)
    return ["sh", "-c", "exec my-train 2"]


@pytest.mark.slow
@pytest.mark.parametrize("way", [as_module, as_console_script])
def test_ways_to_start(way, folder):
    """A module, a console script and a shell command are recorded alike; a plain script is in every other test."""
    command = way(folder)
    done = record(command, PATH=f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert list(steps_of("run")) == [0, 1]
    assert status_of("run") == (State.COMPLETE, 0)
    assert {"rank-00000.h5", "stdout.log"} <= {file.name for file in Path("run").iterdir()}
    assert re.fullmatch(
        r"bd: step 0: .*\nbd: recorded 2 steps, \d+ records, [\d.]+ MB in run\n", done.stderr, re.DOTALL
    )
    with Run("run") as run:
        assert list(run.first.record.command) == command
        assert run.first.record.cwd == str(folder)


@pytest.mark.slow
def test_a_script_with_a_thousand_modules(folder):
    """What is told of them is too long for a variable; it goes through a file, of which nothing is left."""
    names = [f"a_module_with_a_name_of_some_length_{number}" for number in range(900)]
    for name in names:
        (folder / f"{name}.py").touch()
    unused = "\n".join(f"    import {name}" for name in names)
    record([sys.executable, script(folder, f"{TRAIN}\ntrain()\ndef never():\n{unused}\n")])
    assert {file.name for file in Path("run").iterdir()} == {"rank-00000.h5", "stdout.log", "files"}
    with Run("run") as run:
        rows = [s for s in run.first.record.environment.settings if s.knob.startswith("file:a_module")]
    assert len(rows) == 900


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
def test_scripts_that_look_closely(folder):
    """Libraries that only ask whether there is a torch do not hinder us; nor do warnings as errors; one door only."""
    text = """
import importlib.util, sys, warnings
found = importlib.util.find_spec("torch")
assert importlib.util.find_spec("torch").origin == found.origin
assert importlib.util.find_spec("torch_of_nobody") is None
assert "torch" not in sys.modules
import torch
warnings.simplefilter("error")
"""
    end = """
train()
print(sys.meta_path)
import bisect_diverge
try:
    with bisect_diverge.record("inner"):
        train()
except bisect_diverge.errors.UsageError as error:
    print(error)
"""
    done = record([sys.executable, "-X", "dev", script(folder, text + TRAIN + end)])
    assert list(steps_of("run")) == [0, 1]
    assert "Torch" not in done.stdout
    assert "this process is being recorded already" in done.stdout
    assert "Warning" not in done.stderr, done.stderr
    assert not Path("inner").exists()


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
    assert "and 1 more process of the same rank, in its own file" in done.stderr
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


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        (None, 2, " (exit status 2)"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGINT)", 130, " (interrupted)"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)", 143, " (ended by SIGTERM)"),
    ],
)
def test_a_command_that_fails_before_it_trains(text, status, said, folder):
    """Its own message is the last but one; what may hide a module call is not listed."""
    name = script(folder, text) if text else "mistyped.py"
    done = record([sys.executable, name], status=status)
    first = f"bd: nothing was recorded: no process called a torch module{said}"
    assert done.stderr.splitlines()[-1] == first
    if text is None:
        assert "can't open file" in done.stderr.splitlines()[-2]


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
