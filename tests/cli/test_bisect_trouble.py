"""What ``bd bisect`` and ``bd trial`` say where the recorded runs cannot be run again as they were."""

import re
import shutil
import sys
import sysconfig
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.helpers.command import REPOSITORY, bd, run

pytestmark = pytest.mark.slow

UNWATCHED = "--no-observer-check"
TRAINING = Path(__file__).parents[1] / "trial" / "training.py"
READS = "import toy\nfrom pathlib import Path\n\nfloat(Path('data.txt').read_text())\n"
"""First lines of the script: it needs a package, and a number in a file."""
RATE = "lr=args.lr * toy.RATE"
LIMITED = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
sys.argv[0] = "bd"
runpy.run_module("bisect_diverge", run_name="__main__")
"""
"""``bd`` where no file can grow beyond 64 KiB, as on a full disk."""


def lay_out(place, version):
    """Make a package of some version in a directory."""
    info = place / f"toy-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: toy\nVersion: {version}\n")
    (place / "toy.py").write_text(f"RATE = {version}\n")


def virtual(place):
    """Make an environment with all that is installed here, and our package through a file of its own; return that."""
    run(sys.executable, "-m", "venv", "--without-pip", place)
    (site,) = place.glob("lib/python*/site-packages")
    (place / "others").mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "bisect_diverge" not in entry.name:
            (place / "others" / entry.name).symlink_to(entry)
    (site / "others.pth").write_text(str(place / "others"))
    ours = site / "ours.pth"
    ours.write_text(str(REPOSITORY))
    return ours


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A folder with ``a``, ``b`` (another version of a package) and ``c`` (another script), which keep no copies."""
    place = tmp_path_factory.mktemp("trouble")
    script = READS + TRAINING.read_text().replace("lr=args.lr", RATE)
    (place / "train.py").write_text(script)
    (place / "other.py").write_text(script.replace("nn.Tanh()", "nn.ReLU()"))
    (place / "data.txt").write_text("1\n")
    virtual(place / "env")
    for version in ("1.0", "2.0"):
        lay_out(place / version, version)
    for name, script, version in (("a", "train.py", "1.0"), ("b", "train.py", "2.0"), ("c", "other.py", "1.0")):
        command = ("env/bin/python", script, "--out", f"{name}.pt")
        bd("record", "--no-keep-data", "-o", name, "--", *command, cwd=place, PYTHONPATH=version)
    return place


@pytest.fixture
def folder(recorded):
    """The recorded folder, put back afterwards as it was."""
    paths = [*recorded.iterdir(), *recorded.glob("env/lib/python*/site-packages/ours.pth")]
    kept = {path: path.read_bytes() for path in paths if path.is_file()}
    yield recorded
    for path, content in kept.items():
        path.write_bytes(content)


def trouble(folder, *words, status=2, **variables):
    """Run ``bd`` where it cannot do what it should; return what it says, on one line."""
    done = bd(*words, cwd=folder, status=status, **variables)
    assert "Traceback" not in done.stderr
    return flat(done.stdout + done.stderr)


def flat(text):
    """Return a text without the line breaks that its width asks for."""
    return " ".join(text.split())


@pytest.mark.parametrize("command", ["bisect", "trial"])
def test_what_is_no_run_is_refused(folder, command):
    """A directory without a recording, a file of something else, and nothing at all: status 2 each."""
    second = ("a",) if command == "bisect" else ()
    assert "without a recording" in trouble(folder, command, "1.0", *second)
    assert "not an HDF5 file" in trouble(folder, command, "train.py", *second)
    assert "no such run" in trouble(folder, command, "nothing", *second)


def test_a_commit_that_is_not_there_is_refused(folder):
    """Before anything runs: it is no trial that could not run."""
    assert "there is no commit garbage" in trouble(folder, "trial", "a", "--set", "source.commit=garbage")


@pytest.mark.matrix
def test_another_program_is_a_difference_like_others(folder):
    """Runs of two scripts can be compared where they share records: the program is the cause."""
    done = bd("bisect", UNWATCHED, "a", "c", cwd=folder)
    assert "cause: configuration argv.program: train.py -> other.py" in flat(done.stdout)


def test_a_missing_file_is_said_and_forgotten(folder):
    """The script's own last words are in the message; with the file back the same command works."""
    (folder / "data.txt").unlink()
    said = trouble(folder, "bisect", "a", "b")
    assert "the recorded command fails now" in said
    assert "No such file or directory: 'data.txt'" in said
    assert "did not run" in trouble(folder, "trial", "a", status=5)
    (folder / "data.txt").write_text("1\n")
    assert "A's bits" in bd("trial", "a", cwd=folder).stdout


def test_a_command_that_now_fails_says_why(folder):
    """What went wrong since then is no divergence."""
    (folder / "data.txt").write_text("half finished")
    assert "ValueError: could not convert string to float: 'half finished'" in trouble(folder, "bisect", "a", "b")


@pytest.mark.matrix
def test_a_version_that_cannot_be_had_is_said(folder, tmp_path):
    """B's package is gone and there is no network: not testable, with the reason, and nothing is proved."""
    (folder / "2.0").rename(tmp_path / "2.0")
    offline = {"UV_OFFLINE": "1", "PIP_NO_INDEX": "1", "XDG_CACHE_HOME": str(tmp_path)}
    said = trouble(folder, "bisect", UNWATCHED, "a", "b", status=3, **offline)
    one = trouble(folder, "trial", "a", "--b", "b", "--set", "dependencies.toy=@B", status=5, **offline)
    (tmp_path / "2.0").rename(folder / "2.0")
    assert "by elimination: dependencies toy: 1.0 -> 2.0" in said
    assert "toy 2.0 cannot be installed here" in said
    assert "toy 2.0 cannot be installed here" in one


def test_an_interpreter_without_this_package_is_named(folder):
    """The message says what to install, and where."""
    next(folder.glob("env/lib/python*/site-packages/ours.pth")).unlink()
    for words in (("bisect", "--fresh", "a", "b"), ("trial", "--fresh", "a")):
        said = trouble(folder, *words)
        assert "an interpreter without this package" in said
        assert "env/bin/python -m pip install bisect-diverge" in said


@pytest.mark.matrix
def test_a_run_of_another_machine_is_said(folder, tmp_path):
    """The processor of the recording is named beside the present one; what can be searched is searched."""
    shutil.copytree(folder / "a", tmp_path / "a")
    shutil.rmtree(tmp_path / "a" / "trials", ignore_errors=True)
    with h5py.File(tmp_path / "a" / "rank-00000.h5", "r+") as file:
        document = file["run"][:].tobytes()
        other = re.sub(rb'("cpu.model", "value": ").{5}', rb"\1Older", document)
        file["run"][:] = np.frombuffer(other, np.uint8)
    done = bd("bisect", UNWATCHED, tmp_path / "a", "b", cwd=folder)
    assert "cause: dependencies toy: 1.0 -> 2.0" in flat(done.stdout)
    assert "since A was recorded this has moved by itself" in flat(done.stdout)
    assert "hardware cpu.model: Older" in flat(done.stdout)


def test_a_full_disk_is_said(folder):
    """A trial that cannot be written down is no divergence, and is not remembered."""
    done = run(sys.executable, "-c", LIMITED, "bisect", "--fresh", "a", "b", cwd=folder, status=2)
    assert "the recording is incomplete" in done.stderr
    assert "Traceback" not in done.stderr
    assert "cause: dependencies toy" in flat(bd("bisect", UNWATCHED, "a", "b", cwd=folder).stdout)


def test_a_journal_of_something_else_is_refused(folder):
    """It is said which file it is, and ``--fresh`` starts anew."""
    bd("trial", "a", cwd=folder)
    for file in (folder / "a" / "trials").glob("*.jsonl"):
        file.write_text(file.read_text().replace('"a": "', '"a": "f', 1))
    assert "is another recording's start anew with --fresh" in trouble(folder, "trial", "a")
    assert "A's bits" in bd("trial", "a", "--fresh", cwd=folder).stdout
