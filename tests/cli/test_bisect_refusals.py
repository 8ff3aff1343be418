"""What ``bd bisect`` and ``bd trial`` refuse before anything runs: one message, what to do next, and status 2."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import h5py
import pytest
from click.testing import CliRunner, Result

from bisect_diverge.cli.bisect import USUAL, _typed, command
from bisect_diverge.cli.trial import command as trial
from bisect_diverge.errors import BisectDivergeError
from bisect_diverge.model.environment import Environment, Layer, Setting
from bisect_diverge.model.run import RunRecord, State
from tests.helpers.runs import training_rows, write_run

LATER = "later"
"""Seed of tensors that are not A's."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with A, an equal ``a2``, and ``b``: other bits, and a flag and a variable that differ."""
    place = tmp_path_factory.mktemp("refusals")
    (place / "train.py").write_text("")

    def record(rate: str, threads: str) -> RunRecord:
        settings = (
            Setting(layer=Layer.CONFIGURATION, knob="argv.--lr", value=rate, resolved=False),
            Setting(layer=Layer.HARDWARE, knob="OMP_NUM_THREADS", value=threads, resolved=False),
        )
        words = (sys.executable, "train.py", "--lr", rate)
        return RunRecord(command=words, argv=words[1:], cwd=str(place), environment=Environment(settings))

    rows = training_rows(2)
    others = [*rows[:-1], (rows[-1].address, LATER)]
    write_run(place / "a", rows, record=record("0.1", "1"))
    write_run(place / "a2", rows, record=record("0.1", "1"))
    write_run(place / "b", others, record=record("0.2", "2"))
    write_run(place / "killed", others[:40], record=record("0.2", "2"), state=State.INTERRUPTED, exit_status=None)
    write_run(place / "gone", rows, record=record("0.1", "1").with_(cwd=str(place / "nowhere")))
    write_run(place / "other", rows, record=record("0.1", "1").with_(command=("/nowhere/python", "train.py")))
    return place


def said(runs: Path, *words: str, verb: object = command) -> tuple[int, str]:
    """Return status and message, on one line."""
    names = {path.name for path in runs.iterdir()}
    result: Result = CliRunner().invoke(verb, [str(runs / word) if word in names else word for word in words])
    error = result.exception
    if isinstance(error, BisectDivergeError):
        return error.exit_code, " ".join(str(error).split())
    assert error is None or isinstance(error, SystemExit), error
    return result.exit_code, " ".join(result.output.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--only", "kernel"), "no such layer: kernel (did you mean kernels?); there are source, dataset,"),
        (("--skip", "hardwar,sed"), "(did you mean hardware or seeds?)"),
        (("--only", "nonsense"), "no such layer: nonsense; there are source,"),
        (("--only", "seeds"), "--only leaves nothing to move what differs and can be moved is in: configuration, "),
        (("--skip", "configuration,hardware"), "--skip leaves nothing to move"),
        (("--only", "hardware", "--skip", "hardware"), "--only and --skip leave nothing to move"),
        (("--budget", "0"), "no trial fits in no time"),
        (("--budget", "soon"), "a time looks like 90s, 30m or 2h"),
        (("-j", "0"), "0 is not in the range x>=1"),
        (("--repeat", "0"), "0 is not in the range x>=1"),
        (("--max-trials", "0"), "0 is not in the range x>=1"),
        (("--offset-b", "50"), "no trial gets there"),
        (("--image-cmd", "apptainer exec"), "say with {image} where the image stands"),
        (("--plan", "--format", "html"), "--plan has the formats text and json"),
        (("--ui", "tui"), "--ui tui needs a terminal"),
        (("-o", "/nowhere/result.html"), "/nowhere/result.html cannot be written: No such directory"),
        (("-o", "a"), "is a directory"),
        (("--keep-trials", "train.py"), "is a file"),
        (("--keep-trials", "/proc/trials"), "/proc/trials cannot be made"),
    ],
)
def test_options_that_cannot_be_meant(runs: Path, words: tuple[str, ...], message: str) -> None:
    """Nothing is run for them, and what is right instead is said."""
    status, text = said(runs, "a", "b", *words)
    assert status == 2
    assert message in text


def test_a_trial_has_the_same_checks(runs: Path) -> None:
    """Of its options and of its run."""
    status, text = said(runs, "a", "--b", "b", "--set", "configuration.argv.--l=@B", verb=trial)
    assert (status, "(did you mean configuration.argv.--lr?)" in text, "--plan lists them" in text) == (2, True, True)
    assert "(did you mean hardware?)" in said(runs, "a", "--set", "hardwar.OMP_NUM_THREADS=1", verb=trial)[1]
    assert said(runs, "a", "--keep-trials", "/proc/trials", verb=trial) == (
        2,
        "/proc/trials cannot be made: No such file or directory choose another folder",
    )
    assert "the directory in which it was recorded is gone" in said(runs, "gone", verb=trial)[1]


def test_what_of_a_is_gone_is_said_with_what_is_left_to_do(runs: Path) -> None:
    """Its directory, or its interpreter; and on which machine it was recorded, where that was another."""
    status, text = said(runs, "gone", "b", "--skip", "runtime")
    assert (status, "the directory in which it was recorded is gone" in text) == (2, True)
    assert "bd diff and bd env need neither" in text
    assert "was recorded on" not in text
    status, text = said(runs, "other", "b", "--skip", "runtime")
    assert (status, "the program of the recorded command is gone: /nowhere/python" in text) == (2, True)
    with h5py.File(runs / "gone" / "rank-00000.h5", "r+") as file:
        row = file["status"][:]
        row["host"] = b"elsewhere"
        file["status"][:] = row
    assert "the run was recorded on elsewhere, and this is" in said(runs, "gone", "b")[1]


def test_a_run_of_a_later_version_is_refused(runs: Path, tmp_path: Path) -> None:
    """With what to do."""
    write_run(tmp_path / "later", training_rows(1))
    with h5py.File(tmp_path / "later" / "rank-00000.h5", "r+") as file:
        file.attrs["schema"] = 99
    status, text = said(runs, str(tmp_path / "later"), "b")
    assert status == 2
    assert "recorded by a newer version (schema 99" in text
    assert "pip install --upgrade bisect-diverge" in text


def test_runs_that_do_not_differ_say_how_much_was_compared(runs: Path) -> None:
    """Status 1; one and the same recording is called that, whatever its name."""
    status, text = said(runs, "a", "a2")
    assert (status, "there is nothing to bisect" in text, "in 2 steps" in text) == (1, True, True)
    assert "one and the same recording" not in text
    assert "one and the same recording: give two" in said(runs, "a", f"{runs}/b/../a")[1]


def test_a_run_that_was_killed_can_be_searched(runs: Path) -> None:
    """Either way round, as far as it goes; the plan says what is moved."""
    for pair in (("a", "killed"), ("killed", "b"), ("b", "a")):
        status, text = said(runs, *pair, "--plan", "--format", "json")
        assert status in (0, 1)
        if not status:
            assert {unit["knob"] for unit in json.loads(text)["units"]} == {"argv.--lr", "OMP_NUM_THREADS"}


def test_options_are_repeated_as_they_are_typed() -> None:
    """Those that are not as usual, each in one word, so that the same search can be typed again."""
    assert _typed(USUAL) == ()
    usual = command.make_context("bisect", ["a", "b"]).params
    of_the_result = {"a", "b", "plan", "form", "out", "progress", "ui"}
    assert {name: value for name, value in usual.items() if name not in of_the_result} == USUAL
    given = USUAL | {
        "only": ("kernels", "hardware"),
        "budget": 7200.0,
        "clamp": True,
        "observe": False,
        "offset_b": 3,
        "image_cmd": "apptainer exec {image}",
        "resume": False,
    }
    assert set(_typed(given)) == {
        "--only=kernels,hardware",
        "--budget=7200s",
        "--clamp",
        "--no-observer-check",
        "--offset-b=3",
        "--image-cmd=apptainer exec {image}",
        "--fresh",
    }
    parsed = command.make_context("bisect", ["a", "b", *_typed(given)]).params
    assert {name: parsed[name] for name in given} == given
