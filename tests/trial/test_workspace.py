"""A search leaves nothing behind, not even one that was killed between two trials."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from bisect_diverge.trial.workspace import STALE_SECONDS, Scratch, Workspace, sweep
from tests.helpers.command import REPOSITORY

KILLED = """
import os, signal
from bisect_diverge.trial.workspace import Scratch
made = Scratch()
(made.path / "1" / "run").mkdir(parents=True)
print(made.path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A place of our own for temporary directories."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def aged(path):
    """Make a directory as old as a stale one."""
    then = time.time() - STALE_SECONDS - 10
    os.utime(path, (then, then))
    return path


def directory(place, name, *inside, mode=0o1700):
    """Make a directory, old, with folders in it."""
    path = place / name
    path.mkdir()
    path.chmod(mode)
    for folder in inside:
        (path / folder).mkdir(parents=True)
    return aged(path)


def test_what_a_killed_search_left_is_removed_by_the_next(place):
    """Its last trial, kept for somebody who was watching, goes too."""
    dead = subprocess.run([sys.executable, "-c", KILLED], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    left = aged(Path(dead.stdout.strip()))
    assert (left / "1" / "run").is_dir()
    with Workspace() as workspace, workspace.folder() as folder:
        assert not left.exists()
        assert folder.is_dir()
    assert list(place.iterdir()) == []


def test_what_somebody_holds_or_owns_stays(place):
    """A search that runs, a young directory, and what merely looks like one of ours."""
    live = Scratch()
    young = place / "bd-abcdefgh"
    young.mkdir()
    young.chmod(0o1700)
    kept = [
        directory(place, "bd-projects", mode=0o700),
        directory(place, "bd-abcdefgi", "1/run", "notes"),
        directory(place, "bd-abcdefgj", "1/other"),
        directory(place, "bd-abcdefgk", mode=0o1755),
    ]
    gone = [directory(place, "bd-abcdefgl"), directory(place, "bd-abcdefgm", "1/run", "2/files", "3")]
    gone.append(directory(place, "bd-abcdefgn", "1/run", "source/objects"))
    aged(live.path)
    sweep(place)
    assert [path.exists() for path in gone] == [False] * 3
    assert all(path.exists() for path in (*kept, young, live.path))
    live.remove()
    assert not live.path.exists()


def test_a_directory_that_was_taken_away_is_made_again(place):
    """Whoever cleans up in the temporary directory costs nothing but that."""
    with Workspace() as workspace:
        with workspace.folder() as folder:
            root = folder.parent
        root.rmdir()
        with workspace.folder() as folder:
            assert folder.is_dir()
    assert list(place.iterdir()) == []


def test_kept_folders_are_numbered_on(tmp_path):
    """Trials that are kept are never written over."""
    with Workspace(tmp_path / "kept") as workspace:
        for _ in range(2):
            with workspace.folder():
                pass
    with Workspace(tmp_path / "kept") as workspace, workspace.folder() as third:
        assert third.name == "3"
