"""Where a recording goes: one directory for one recording."""

from __future__ import annotations

import os
import threading

import pytest

from bisect_diverge.errors import OutputExistsError
from bisect_diverge.record.api import prepare_directory
from bisect_diverge.record.launch import run_command


def test_two_recordings_are_given_the_same_output_at_the_same_moment(tmp_path):
    """One gets it; the other gets one clear error."""
    for attempt in range(30):
        path, together, outcomes = tmp_path / str(attempt), threading.Barrier(2), []

        def prepare(path=path, together=together, outcomes=outcomes):
            together.wait()
            try:
                outcomes.append(prepare_directory(path, force=False))
            except OutputExistsError as error:
                outcomes.append(str(error).splitlines()[0])

        threads = [threading.Thread(target=prepare) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # The later of the two may also come when the first is done: an empty directory may be used.
        assert path in outcomes
        assert set(outcomes) <= {path, f"{path} exists already"}


def test_a_directory_that_appears_after_we_looked(tmp_path, monkeypatch):
    """The same, with the other recording between our look and our making it."""
    path = tmp_path / "run"
    original = type(path).is_dir

    def is_dir(self):
        there = original(self)
        if self == path and not there:
            os.mkdir(path)  # noqa: PTH102
        return there

    monkeypatch.setattr(type(path), "is_dir", is_dir)
    with pytest.raises(OutputExistsError, match="exists already"):
        prepare_directory(path, force=False)


def test_two_recordings_are_given_the_same_empty_directory(tmp_path):
    """It may be used, by one of them: the other's command is not started."""
    log = tmp_path / "stdout.log"
    assert run_command(["true"], dict(os.environ), log, None) == 0
    with pytest.raises(OutputExistsError, match="another process is recording into"):
        run_command(["touch", str(tmp_path / "started")], dict(os.environ), log, None)
    assert list(tmp_path.iterdir()) == [log]
