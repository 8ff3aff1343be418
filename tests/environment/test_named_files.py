"""Configuration files that the command names."""

import time

from bisect_diverge.environment import configuration
from bisect_diverge.environment.read import read_outside


def files(settings):
    """Return the configuration files among settings, with their content."""
    return {row.knob: row.value for row in settings if row.knob.startswith("file:") and row.layer == "configuration"}


def test_content_of_a_named_file_counts(tmp_path):
    """A configuration file is told by its content, whichever way the command names it."""
    (tmp_path / "c.json").write_text('{"lr": 0.1}')
    command = ["python", "train.py", "--config", "c.json"]
    first = files(read_outside(tmp_path, command)[0])
    (tmp_path / "c.json").write_text('{"lr": 0.2}')
    second = files(read_outside(tmp_path, ["python", "train.py", "--config=c.json"])[0])

    assert list(first) == ["file:c.json"]
    assert first.keys() == second.keys()
    assert first != second


def test_other_files_do_not(tmp_path):
    """What is not there, is a directory, or has another suffix is no configuration file."""
    (tmp_path / "weights.pt").write_bytes(b"x")
    (tmp_path / "d.json").mkdir()
    command = ["python", "train.py", "weights.pt", "d.json", "gone.yaml"]

    assert files(read_outside(tmp_path, command)[0]) == {}


def test_a_file_that_the_run_writes(tmp_path, monkeypatch):
    """What a run writes is the same for the first run, which finds no file, and for the next, which does."""
    monkeypatch.setattr(configuration, "_SEEN_AT", time.time() - 1)
    (tmp_path / "out.json").write_text("{}")

    assert files(configuration.written_files(["train.py", "--metrics", "out.json"], tmp_path)) == {
        "file:out.json": configuration.WRITTEN
    }
