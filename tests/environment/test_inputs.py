"""What a run reads: named, hashed and kept."""

import os
import threading
from pathlib import Path

import pytest

from bisect_diverge.environment import inputs
from bisect_diverge.environment.configuration import name_of
from bisect_diverge.environment.hashing import SAMPLED
from bisect_diverge.environment.inputs import (
    Keeper,
    before,
    kept,
    names_in,
    present,
    read_files,
    read_listings,
)


@pytest.fixture
def project(tmp_path):
    """A working directory with data, a configuration file and a credential."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "b.bin").write_bytes(b"\0one")
    (tmp_path / "data" / "a.bin").write_bytes(b"\0two")
    (tmp_path / "conf.yaml").write_text("lr: 0.1\n")
    (tmp_path / "token.json").write_text('{"api_key": "hf_abcdefghijklmnopqrst"}')
    return tmp_path


def rows(project, *names, **options):
    """Return knob to value of what reading some files yields."""
    paths = [str(project / name) for name in names]
    return {f"{s.layer}.{s.knob}": s.value for s in read_files(paths, project, Keeper(project / "run", **options))}


def test_files_are_named_below_the_working_directory_and_kept(project):
    """A row has the content's hash, and the content lies under it in the run."""
    (project / "run").mkdir()
    found = rows(project, "data/b.bin", "conf.yaml", "gone.bin")
    assert list(found) == ["dataset.file:data/b.bin", "configuration.file:conf.yaml"]
    for name, value in zip(("data/b.bin", "conf.yaml"), found.values(), strict=True):
        assert present(str(project / name)) == value
        assert kept(str(project / "run"), value).read_bytes() == (project / name).read_bytes()


def test_what_is_not_kept(project, monkeypatch):
    """Credentials never, nothing when told so, no large file, and no more than there is room for."""
    run = project / "run"
    run.mkdir()
    secret = rows(project, "token.json")["configuration.file:token.json"]
    assert kept(str(run), secret) is None
    assert kept(str(run), rows(project, "data/b.bin", on=False)["dataset.file:data/b.bin"]) is None
    monkeypatch.setattr(inputs, "LARGEST_COPY", 3)
    assert kept(str(run), rows(project, "data/b.bin")["dataset.file:data/b.bin"]) is None
    monkeypatch.undo()
    monkeypatch.setattr(inputs, "MOST_BYTES", 6)
    assert [kept(str(run), value) is not None for value in rows(project, "data/b.bin", "data/a.bin").values()] == [
        True,
        False,
    ]


def test_a_run_that_read_much_is_hashed_by_samples(project, monkeypatch):
    """However many files a script has read, hashing them takes a bounded time; what is there now is hashed likewise."""
    large = project / "data" / "b.bin"
    large.write_bytes(bytes(400_000))
    whole = rows(project, "data/b.bin", "data/a.bin")
    monkeypatch.setattr(inputs, "MOST_HASHED", 300_000)
    sampled = rows(project, "data/b.bin", "data/a.bin")
    name = "dataset.file:data/b.bin"
    assert sampled[name].startswith("xxh3-sampled:")
    assert whole[name].startswith("xxh3:")
    assert present(str(large), sampled[name]) == sampled[name]
    assert present(str(large), whole[name]) == whole[name]
    large.write_bytes(b"\1" + bytes(399_999))
    assert present(str(large), sampled[name]) != sampled[name]


def test_credentials_have_no_row(project):
    """What is a credential by its name or place is not even hashed."""
    (project / ".ssh").mkdir()
    names = [".netrc", ".ssh/config", "server.key", "token"]
    for name in names:
        (project / name).write_text("password 0123456789abcdef")
    assert rows(project, *names) == {}


def test_many_files_share_a_row(project, monkeypatch):
    """Beyond a number of files one row stands for the rest, by name and content."""
    monkeypatch.setattr(inputs, "MOST_FILES", 1)
    before = rows(project, "data/b.bin", "data/a.bin", "conf.yaml")
    assert list(before) == ["dataset.file:data/b.bin", "dataset.files.rest"]
    assert before["dataset.files.rest"].endswith("(2 files)")
    (project / "conf.yaml").write_text("lr: 0.2\n")
    assert rows(project, "data/b.bin", "data/a.bin", "conf.yaml") != before


def test_a_list_of_names_is_kept_in_its_order_without_outputs(project):
    """What the run made, recordings and byte code are no input."""
    (project / "run").mkdir()
    (project / "data" / "runs").mkdir()
    (project / "data" / "runs" / "rank-00000.h5").touch()
    (project / "data" / "out.pt").touch()
    own = frozenset([str(project / "data" / "out.pt")])
    seen = {str(project / "data"): ["b.bin", "out.pt", "a.bin", "runs", "__pycache__"]}
    (row,) = read_listings(seen, project, Keeper(project / "run"), own)
    assert row.knob == "listing:data"
    assert row.value.endswith(" (2 names)")
    assert names_in(str(project / "run"), row.value) == ("b.bin", "a.bin")
    (now,) = read_listings({str(project / "data"): None}, project, Keeper(project / "run"), own)
    assert sorted(names_in(str(project / "run"), now.value)) == ["a.bin", "b.bin"]


def test_a_hash_of_a_part_stands_for_no_copy(tmp_path):
    """What was sampled was not kept, and what is no hash is no path."""
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "ab").touch()
    assert kept(str(tmp_path), "xxh3:ab") == tmp_path / "files" / "ab"
    assert kept(str(tmp_path), "xxh3-sampled:ab") is None
    assert kept(str(tmp_path), "xxh3:../files/ab") is None
    assert kept("", "xxh3:ab") is None


@pytest.mark.parametrize(
    ("path", "name"),
    [("x/y", "x/y"), ("./x", "x"), ("/w", "."), ("/w/x", "x"), ("/other/x", "/other/x"), ("../x", "/x")],
)
def test_names(path, name):
    """A path below the working directory is named from there."""
    assert name_of(path, Path("/w")) == name


def test_a_pipe_is_not_waited_for(project):
    """A named pipe that the script has read has no content any more; opening it would block for ever."""
    (project / "run").mkdir()
    os.mkfifo(project / "pipe")
    found = []
    reading = threading.Thread(target=lambda: found.append(rows(project, "pipe", "conf.yaml")), daemon=True)
    reading.start()
    reading.join(10)
    assert [list(each) for each in found] == [["configuration.file:conf.yaml"]]


def test_the_script_does_not_wait_long_where_it_changes_what_it_has_read(project, monkeypatch):
    """What is hashed whole and kept before a change has a limit for all files together; then they are sampled."""
    (project / "run").mkdir()
    monkeypatch.setattr(inputs, "MOST_HASHED", 300 << 10)
    keeper = Keeper(project / "run")
    values = []
    for number in range(2):
        path = project / f"{number}.bin"
        path.write_bytes(bytes([number]) * (256 << 10))
        values.append(before(str(path), keeper).whole)
    assert [value.startswith(SAMPLED) for value in values] == [False, True]
    assert len(list((project / "run" / "files").iterdir())) == 1
