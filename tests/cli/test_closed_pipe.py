"""Whoever reads our output goes away: silence, and a status that says nothing about runs."""

import os
import subprocess
import sys

import pytest

from bisect_diverge.cli.main import CLOSED_PIPE


@pytest.mark.parametrize(
    ("closed", "words", "status"),
    [
        ("stdout", ("--help",), CLOSED_PIPE),
        ("stdout", ("diff", "--help"), CLOSED_PIPE),
        ("stderr", ("diff", "nowhere", "nothing"), CLOSED_PIPE),
        ("stderr", ("bisect", "--no-such-option"), CLOSED_PIPE),
        ("stderr", ("record", "--", sys.executable, "-c", "raise SystemExit(7)"), 7),
    ],
)
def test_a_closed_pipe_has_a_status_of_its_own(tmp_path, closed, words, status):
    """The one of a command that SIGPIPE has killed; ``bd record`` keeps the script's."""
    reader, writer = os.pipe()
    os.close(reader)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, closed: writer}
    command = [sys.executable, "-m", "bisect_diverge", *words]
    done = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, check=False, timeout=60, **streams)
    os.close(writer)
    assert done.returncode == status
    assert [text for text in (done.stdout, done.stderr) if text] == []
