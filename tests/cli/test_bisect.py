"""``bd bisect`` and ``bd trial`` as a user types them."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.command import bd, run, surroundings

pytestmark = pytest.mark.slow

UNWATCHED = "--no-observer-check"
"""Saves two runs where they are not what a test is about."""
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
    assert found["observer"] == "unchanged"
    assert any("recording does not change A or B (the parameters after step 1" in note for note in found["notes"])
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


def test_printed_commands_can_be_pasted(folder):
    """Each proving trial is repeated by the line that the report prints for it, and has the outcome that it says."""
    text = bd("bisect", "a", "b", UNWATCHED, "--skip", "seeds", cwd=folder).stdout
    outcomes = dict(re.findall(r"^  (\d+) .*  (=A|=B|other) ", text, re.MULTILINE))
    lines = text.partition("to repeat a proving trial\n")[2].replace(" \\\n", "")
    commands = re.findall(r"^  (\d+)  (bd trial .*)$", lines, re.MULTILINE)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for number, command in commands:
        done = run("bash", "-c", f"{command} --format json", cwd=folder, PATH=path)
        assert json.loads(done.stdout)["outcome"] == outcomes[number]
    assert len(commands) == 2
    assert "kind: hyperparameter" in text
    assert "elements: f64[]: 0.1 in A, 0.2 in B" in text


def test_a_second_search_runs_the_controls_only(folder):
    """What was tried is taken from the journal, but for nothing swapped and everything swapped."""
    bd("bisect", "a", "b", UNWATCHED, cwd=folder)
    done = bd("bisect", "a", "b", UNWATCHED, "--format", "json", cwd=folder)
    trials = json.loads(done.stdout)["trials"]
    everything = max(len(trial["swapped"]) for trial in trials)
    assert {len(trial["swapped"]) for trial in trials if not trial["reused"]} == {0, everything}
    assert all(trial["reused"] for trial in trials if 0 < len(trial["swapped"]) < everything)


def test_a_trial_of_nothing_is_always_run(folder):
    """Whether A repeats itself is a question of now."""
    for _ in range(2):
        done = bd("trial", "a", "--format", "json", cwd=folder)
        assert json.loads(done.stdout)["reused"] is False


@pytest.mark.parametrize("option", ["--only", "--skip"])
def test_an_empty_list_of_layers_is_refused(folder, option):
    """A variable of the shell that is not set is no wish to search everything."""
    assert "name a layer" in bd("bisect", "a", "b", option, "", cwd=folder, status=2).stderr


@pytest.mark.parametrize(("option", "layers"), [("--skip", "configuration"), ("--only", "kernels")])
def test_what_is_left_out_is_listed_with_the_option(folder, option, layers):
    """The search knows what it must not move, and which option says so."""
    done = bd("bisect", "a", "b", option, layers, "--plan", "--format", "json", cwd=folder)
    left = {row["knob"]: row["reason"] for row in json.loads(done.stdout)["untestable"]}
    assert left["argv.--lr"] == f"left out by {option}"


@pytest.fixture
def package(tmp_path):
    """A folder with a package that is run with ``-m`` after a change of directory, and two runs that kept no copy."""
    (tmp_path / "pkg").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "rate.py").write_text("FACTOR = 1.0\n")
    script = "import os\nfrom pkg.rate import FACTOR\nos.chdir('elsewhere')\n" + SCRIPT.read_text()
    (tmp_path / "pkg" / "train.py").write_text(script.replace("lr=args.lr", "lr=args.lr * FACTOR"))
    for name, rate in (("a", "0.1"), ("b", "0.2")):
        command = (sys.executable, "-m", "pkg.train", "--lr", rate, "--out", f"{name}.pt")
        bd("record", "--no-keep-data", "-o", name, "--", *command, cwd=tmp_path)
    return tmp_path


def test_an_edited_module_is_not_answered_from_old_trials(package):
    """With ``-m``, and from another directory: the trial runs, is remembered, and is another one after an edit."""
    words = ("trial", "a", "--set", "configuration.argv.--lr=0.2", "--b", "b", "--format", "json")
    first = bd(*words, cwd=package)
    assert (json.loads(first.stdout)["outcome"], first.stderr) == ("=B", "")
    assert json.loads(bd(*words, cwd=package).stdout)["reused"] is True
    (package / "pkg" / "rate.py").write_text("FACTOR = 2.0\n")
    again = bd(*words, cwd=package)
    assert json.loads(again.stdout)["reused"] is False
    assert json.loads(again.stdout)["outcome"] == "other"
    assert again.stderr == "bd: pkg/rate.py has changed since A was recorded\n"


def test_a_changed_script_is_said_before_the_search_and_in_the_notes(package):
    """A comment changes no bits, and is said all the same."""
    script = package / "pkg" / "train.py"
    script.write_text(f"{script.read_text()}# the end\n")
    done = bd("bisect", "a", "b", UNWATCHED, "--format", "json", cwd=package)
    said = "pkg/train.py has changed since A was recorded"
    assert done.stderr.startswith(f"bd: {said}\n")
    assert said in json.loads(done.stdout)["notes"]
    assert json.loads(done.stdout)["verdict"] == "cause"


def test_runs_that_do_not_differ_are_nothing_to_bisect(folder):
    """Status 1 and one sentence, without a trial."""
    done = bd("bisect", "a", "a2", cwd=folder, status=1)
    assert "do not differ" in done.stdout
    assert "trial" not in done.stderr


def test_the_plan_runs_nothing(folder):
    """``--plan`` lists the units, how each is swapped, and what it costs: with more repeats more, within a budget."""
    words = (UNWATCHED, "--repeat", "3", "--max-trials", "5", "--budget", "1m", "--clamp", "--until-step", "7")
    dear = " ".join(bd("bisect", "a", "b", "--plan", *words, cwd=folder).stdout.split())
    assert "8 to 14 trials, typically 9" in dear
    assert "unrecorded" not in dear
    assert "and 2 runs of A and B with every clamp on" in dear
    assert "the budget ends it after 5 runs or 60 s" in dear
    assert "each ends after step 7" in dear
    done = bd("bisect", "a", "b", "--plan", cwd=folder)
    assert "argument  configuration argv.--lr: (not set) -> 0.2" in done.stdout
    assert "6 to 12 trials, typically 7, with the replays that a proof takes" in done.stdout
    assert "and 2 runs of A and B unrecorded" in done.stdout
    assert not done.stderr


def test_a_layer_that_is_left_out_is_not_blamed(folder):
    """With the guilty layer left out the answer is by elimination, and no proof."""
    done = bd("bisect", "a", "b", UNWATCHED, "--skip", "configuration", "--format", "json", cwd=folder, status=3)
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
    words = ("record", "--no-keep-data", "-o", str(runs / "x"))
    bd(*words, "--", sys.executable, "training.py", cwd=place)
    if gone:
        (place / gone).unlink()
    else:
        shutil.rmtree(place)
    done = bd("bisect", str(runs / "x"), str(runs / "b"), cwd=tmp_path, status=2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_leaves_a_partial_report(folder, number):
    """Ctrl-C, or the end of a batch job: it prints what is known, and leaves no process and no file."""
    before = leftovers()
    words = [sys.executable, "-m", "bisect_diverge", "bisect", "a", "b", "--fresh", "--format", "json"]
    process = subprocess.Popen(
        words, cwd=folder, env=surroundings(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while leftovers() <= before and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    assert json.loads(out)["finished"] is False
    assert leftovers() <= before
    assert not [p for p in Path("/proc").iterdir() if p.name.isdigit() and _runs_in(p, folder)]


def test_a_budget_of_time_ends_it_after_the_running_trial(folder):
    """The first trial outlasts it: there is no second, and the report is partial."""
    done = bd("bisect", "a", "b", "--fresh", "--budget", "0.1s", "--format", "json", cwd=folder, status=3)
    found = json.loads(done.stdout)
    assert (len(found["trials"]), found["finished"], found["causes"]) == (1, False, [])
    assert any("budget of 0.1" in note for note in found["notes"])


def test_a_place_for_the_journal_that_is_none_is_said_once(folder, tmp_path):
    """``A/trials`` is a file: the trial runs all the same."""
    shutil.copytree(folder / "a", tmp_path / "x", ignore=shutil.ignore_patterns("trials"))
    (tmp_path / "x" / "trials").write_text("")
    done = bd("trial", tmp_path / "x", cwd=folder)
    assert "A's bits" in done.stdout
    assert done.stderr.count("trials are not remembered for the next search") == 1


def _runs_in(process, folder):
    try:
        return (process / "cwd").readlink() == folder
    except OSError:
        return False


def test_a_trial_by_hand(folder):
    """A value that neither run has is tried, and what moved with it is said."""
    done = bd("trial", "a", "--set", "hardware.OMP_NUM_THREADS=1", cwd=folder)
    assert done.stdout.startswith(("A's bits up to step ", "not A's bits", "nothing was tested: "))  # with one core
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
        (["--set", "configuration.argv.99=1"], "no such position"),
        (["--b", "b", "--set", "kernels.MKL_CBWR=@B"], "is no unit of these two runs"),
    ],
)
def test_a_trial_that_cannot_be_meant_is_refused(folder, words, message):
    """One message that says what to do, and status 2."""
    done = bd("trial", "a", *words, cwd=folder, status=2)
    assert message in done.stderr
