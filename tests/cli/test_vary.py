"""``bd vary``: a small script, two knobs, from the command to the report."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.helpers.command import bd

SCRIPT = Path(__file__).parents[1] / "trial" / "training.py"


@pytest.mark.slow
def test_two_knobs_of_a_command(tmp_path):
    """The optimizer's kernel moves bits, the allocator's filling does not; nothing is left behind but the run."""
    shutil.copy(SCRIPT, tmp_path)
    options = (
        "--knobs",
        "optimizer.optimizer.fused=True,MALLOC_PERTURB_",
        "--steps",
        "1",
        "--repeat",
        "1",
        "-o",
        "run",
    )
    words = ("--", sys.executable, SCRIPT.name, "--steps", "2")
    done = bd("vary", *options, "--format", "json", *words, cwd=tmp_path)
    found = json.loads(done.stdout)
    assert [row["knob"] for row in found["sensitive"]] == ["optimizer.optimizer.fused"]
    assert found["sensitive"][0]["first"].startswith("r0/0/-/optimizer/")
    assert [row["knob"] for row in found["without_effect"]] == ["MALLOC_PERTURB_"]
    assert found["finished"]
    assert "trial 3 of ~3" in done.stderr
    plan = bd("vary", "--run", "run", "--plan", cwd=tmp_path).stdout
    assert "kernels optimizer.optimizer.fused: default -> True" in plan
    partial = bd("vary", "--run", "run", *options[:2], "--max-trials", "1", "--repeat", "1", cwd=tmp_path, status=3)
    assert "not tried: stopped before" in partial.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "give a command, or --run"),
        (("--run", "x", "--", "true"), "give a command, or --run"),
        (("--run", "nowhere"), "nowhere"),
        (("--knobs", "threads.intra_opp", "--", "touch", "made"), "did you mean threads.intra_op"),
        (("--knobs", ",", "--", "touch", "made"), "--knobs names no knob"),
        (("--", "true"), "nothing was recorded: the command ended with status 0"),
        (("--", "no-such-program"), "nothing was recorded: the command ended with status 2"),
    ],
)
def test_bad_input(tmp_path, words, message):
    """One message, status 2."""
    done = bd("vary", *words, cwd=tmp_path, status=2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_help_says_how_far_the_recording_goes(tmp_path):
    """``--steps`` ends trials, not the run that they are compared with."""
    text = " ".join(bd("vary", "--help", cwd=tmp_path).stdout.split())
    assert "it goes to the end of the script, whatever --steps says" in text
