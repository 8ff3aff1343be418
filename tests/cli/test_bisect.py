"""``bd bisect`` and ``bd trial`` as a user types them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.command import bd, surroundings

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[1] / "trial" / "training.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the script and the runs ``a``, ``a2`` (equal) and ``b`` (another rate, and a decoy)."""
    place = tmp_path_factory.mktemp("runs")
    shutil.copy(SCRIPT, place)
    for name, flags, variables in (
        ("a", (), {}),
        ("a2", (), {}),
        ("b", ("--lr", "0.2"), {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}),
    ):
        command = (sys.executable, "training.py", "--out", f"{name}.pt", *flags)
        bd("record", "-o", name, "--", *command, cwd=place, **variables)
    return place


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    """A place of our own for temporary files: others on this machine may be bisecting too."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def leftovers():
    """Return the scratch directories that lie about."""
    return set(Path(os.environ["TMPDIR"]).glob("bd-*"))


def test_the_cause_is_found_and_proved(folder):
    """The flag is named with its trials; the decoy and the name of the output are not."""
    before = leftovers()
    done = bd("bisect", "a", "b", "--format", "json", "--fresh", cwd=folder)
    found = json.loads(done.stdout)
    assert found["verdict"] == "cause"
    (cause,) = found["causes"]
    assert [(u["layer"], u["knob"], u["a"], u["b"]) for u in cause["units"]] == [
        ("configuration", "argv.--lr", None, "0.2")
    ]
    assert cause["sufficient"]
    assert cause["necessary"]
    assert cause["same_divergence"]
    assert [u["knob"] for u in found["inert"]] == ["MKL_ENABLE_INSTRUCTIONS"]
    assert "trial 1 of ~" in done.stderr
    assert leftovers() <= before


def test_a_second_search_runs_nothing(folder):
    """What was tried is taken from the journal."""
    bd("bisect", "a", "b", cwd=folder)
    done = bd("bisect", "a", "b", "--format", "json", cwd=folder)
    trials = json.loads(done.stdout)["trials"]
    assert trials
    assert all(trial["reused"] for trial in trials)


def test_runs_that_do_not_differ_are_nothing_to_bisect(folder):
    """Status 1 and one sentence, without a trial."""
    done = bd("bisect", "a", "a2", cwd=folder, status=1)
    assert "do not differ" in done.stdout
    assert "trial" not in done.stderr


def test_the_plan_runs_nothing(folder):
    """``--plan`` lists the units, how each is swapped, and what it costs."""
    done = bd("bisect", "a", "b", "--plan", cwd=folder)
    assert "argument  configuration argv.--lr: (not set) -> 0.2" in done.stdout
    assert "trials, typically" in done.stdout
    assert not done.stderr


def test_a_layer_that_is_left_out_is_not_blamed(folder):
    """With the guilty layer left out the answer is by elimination, and no proof."""
    done = bd("bisect", "a", "b", "--skip", "configuration", "--format", "json", cwd=folder, status=3)
    assert json.loads(done.stdout)["verdict"] in ("by-elimination", "inconclusive")


@pytest.mark.parametrize(
    ("gone", "message"),
    [("training.py", "the script is gone"), ("", "the directory in which it was recorded is gone")],
)
def test_what_is_gone_is_said(folder, tmp_path, gone, message):
    """Without the script, or its directory, there is one clear message and status 2."""
    place = tmp_path / "moved"
    runs = tmp_path / "runs"
    shutil.copytree(folder, runs)
    place.mkdir()
    shutil.copy(SCRIPT, place)
    bd("record", "-o", str(runs / "x"), "--", sys.executable, "training.py", cwd=place)
    if gone:
        (place / gone).unlink()
    else:
        shutil.rmtree(place)
    done = bd("bisect", str(runs / "x"), str(runs / "b"), cwd=tmp_path, status=2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_leaves_a_partial_report(folder):
    """The first SIGINT ends the search, prints what is known, and leaves no process and no file."""
    before = leftovers()
    words = [sys.executable, "-m", "bisect_diverge", "bisect", "a", "b", "--fresh", "--format", "json"]
    process = subprocess.Popen(
        words, cwd=folder, env=surroundings(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while leftovers() <= before and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    assert json.loads(out)["finished"] is False
    assert leftovers() <= before
    assert not [p for p in Path("/proc").iterdir() if p.name.isdigit() and _runs_in(p, folder)]


def _runs_in(process, folder):
    try:
        return (process / "cwd").readlink() == folder
    except OSError:
        return False


def test_a_trial_by_hand(folder):
    """A value that neither run has is tried, and what moved with it is said."""
    done = bd("trial", "a", "--set", "hardware.OMP_NUM_THREADS=1", cwd=folder)
    assert "A's bits" in done.stdout or "not A's bits" in done.stdout
    assert "hardware OMP_NUM_THREADS: (not set) -> 1" in done.stdout


def test_a_trial_with_a_value_of_b(folder):
    """``@B`` takes B's value, and the bits are compared with both runs."""
    done = bd("trial", "a", "--b", "b", "--set", "configuration.argv.--lr=@B", "--format", "json", cwd=folder)
    assert json.loads(done.stdout)["outcome"] == "=B"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "nonsense"], "give LAYER.KNOB=VALUE"),
        (["--set", "hardware.cpu.model=x"], "cannot be swapped here"),
        (["--set", "kernels.MKL_CBWR=@B"], "needs --b"),
        (["--b", "b", "--set", "kernels.MKL_CBWR=@B"], "is no unit of these two runs"),
    ],
)
def test_a_trial_that_cannot_be_meant_is_refused(folder, words, message):
    """One message that says what to do, and status 2."""
    done = bd("trial", "a", *words, cwd=folder, status=2)
    assert message in done.stderr
