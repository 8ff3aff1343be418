"""``make demo`` shows what it promises on this machine, and never waits for someone who is not there."""

import os
import pty
import re
import runpy
import subprocess
import sys

import pytest

from bisect_diverge.cli.progress import UNRECORDED
from tests.helpers.command import REPOSITORY, run, surroundings

DEMO = REPOSITORY / "scripts" / "demo.py"

OFFER = """
import pathlib, runpy
demo = runpy.run_path("scripts/demo.py", run_name="demo")
demo["offer_walk"](demo["pairs"](1, pathlib.Path("demo-runs"))[0])
"""


@pytest.mark.slow
def test_the_demo_ends_well(tmp_path):
    """Three pairs diverge as the demo explains, each for the reason that it names; the unchanged pair is equal."""
    done = run(sys.executable, DEMO, "--steps", "2", "--runs", tmp_path)
    assert re.search(r"^4 pairs, 5 recordings, \d+ s$", done.stdout, re.MULTILINE)
    assert done.stdout.count("$ bd diff ") == 4
    assert re.search(r"^3 bisections, \d+ s$", done.stdout, re.MULTILINE)
    assert done.stdout.count("$ bd bisect ") == 3
    assert done.stdout.rstrip().endswith(f"bd walk {tmp_path}/threads-2 {tmp_path}/threads-1")


def test_the_demo_says_what_a_search_says(monkeypatch):
    """Runs that are no trials are told of too; what has no line has none."""
    monkeypatch.chdir(REPOSITORY)
    told_of = runpy.run_path(str(DEMO), run_name="demo")["told_of"]
    assert told_of({"event": "unrecorded", "of": "A"}) == UNRECORDED.format(side="A")
    assert told_of({"event": "note", "text": "train.py has changed\n"}) == "train.py has changed"
    assert told_of({"event": "started", "swapped": []}) == ""


def test_the_demo_does_not_wait_without_a_terminal():
    """Without a terminal the demo names the command that opens the walk, and ends."""
    done = run(sys.executable, "-c", OFFER, timeout=60)
    assert "[Enter]" not in done.stdout
    assert done.stdout.rstrip().endswith("bd walk demo-runs/threads-2 demo-runs/threads-1")


def test_the_offer_can_be_declined():
    """On a terminal the demo asks, and an n ends it without opening anything."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", OFFER], cwd=REPOSITORY, env=surroundings(), stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    shown = b""
    while b"ends here: " not in shown:
        shown += os.read(master, 4096)
    os.write(master, b"n\n")
    assert process.wait(timeout=60) == 0
    os.close(master)
