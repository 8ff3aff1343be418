"""The Makefile, the CI command and the demo do what the README says."""

import os
import re
import shutil
import subprocess

import pytest

from tests.helpers.command import REPOSITORY, run, surroundings

MAKEFILE = (REPOSITORY / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))


def test_help_lists_every_target():
    """`make` alone lists each target with what it does."""
    listed = dict(re.findall(r"^ +make (\w+) +(\S.*)$", run("make").stdout, re.MULTILINE))
    assert set(listed) == TARGETS
    assert {"demo", "test", "check", "bench", "help", "clean"} <= TARGETS


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", ".ci/run"])
def test_make_commands_in_documents_exist(name):
    """Every `make` command that a document tells to type is a target."""
    commands = re.findall(r"(?:^|`)(?:\$ )?make ([a-z]+)", (REPOSITORY / name).read_text(), re.MULTILINE)
    assert commands
    assert set(commands) <= TARGETS


def test_ci_runs_the_checks_and_the_tests():
    """.ci/run is an executable that stops at the first failure."""
    script = REPOSITORY / ".ci" / "run"
    assert os.access(script, os.X_OK)
    lines = script.read_text().splitlines()
    assert "set -euo pipefail" in lines
    assert [line for line in lines if line.startswith("make ")] == ["make check", "make test"]


def make_venv(folder, python):
    """Run a copy of scripts/make_venv.sh in `folder` with the given Python."""
    (folder / "scripts").mkdir()
    script = shutil.copy(REPOSITORY / "scripts" / "make_venv.sh", folder / "scripts")
    environment = surroundings(PYTHON=str(python))
    return subprocess.run([script], env=environment, capture_output=True, text=True, check=False)


def test_a_python_that_is_too_old_is_named(tmp_path):
    """With an old Python there is one line that says which version is needed, and no .venv."""
    old = tmp_path / "python3.9"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.1 && exit\nexit 1\n')
    old.chmod(0o755)
    done = make_venv(tmp_path, old)
    assert done.returncode == 1
    assert re.fullmatch(r"bisect-diverge needs Python 3\.11 or newer; .* is: Python 3\.9\.1\. .*\n", done.stderr)
    assert not (tmp_path / ".venv").exists()


def test_a_python_that_is_not_there_is_named(tmp_path):
    """A PYTHON that does not exist is said to be missing."""
    done = make_venv(tmp_path, tmp_path / "python9")
    assert done.returncode == 1
    assert "needs Python 3.11 or newer" in done.stderr
    assert len(done.stderr.splitlines()) == 1
