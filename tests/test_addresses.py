"""Recordings of twelve small scripts give the addresses that docs/recording.md promises, and in that order.

The lists beside the scripts are derived by hand from docs/recording.md, not from what the recorder does. A line that
begins with ``#`` explains the rows below it.
"""

import difflib
import subprocess
import sys
from pathlib import Path

import pytest

from bisect_diverge.store.reader import Run

FOLDER = Path(__file__).parent / "addresses"
SCRIPTS = sorted(FOLDER.glob("*.py"))
TEARDOWN_ABORT = "terminate called without an active exception"
"""Two gloo ranks abort now and then while they shut down, recorded or not."""


def expected(script):
    """Return the addresses that the list of a script has."""
    lines = script.with_suffix(".txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def recorded(script, folder):
    """Record a script and return the addresses of all ranks, in order."""
    for attempt in range(3):
        out = folder / f"run{attempt}"
        command = [sys.executable, "-m", "bisect_diverge", "record", "-o", out, "--", sys.executable, script]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode == 0 or TEARDOWN_ABORT not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    with Run(out) as run:
        assert not run.extra
        files = [run.ranks[rank] for rank in sorted(run.ranks)]
        return [str(file.address(row)) for file in files for row in range(len(file.events))]


def test_there_are_twelve_scripts():
    """No script and no list has been lost."""
    assert len(SCRIPTS) == 12
    assert {script.stem for script in SCRIPTS} == {path.stem for path in FOLDER.glob("*.txt")}


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_addresses(script, tmp_path):
    """A recording of the script has the addresses of its list, in the same order."""
    want, got = expected(script), recorded(script, tmp_path)
    difference = difflib.unified_diff(want, got, "expected", "recorded", lineterm="", n=2)
    assert got == want, "\n".join(difference)
