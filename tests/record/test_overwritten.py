"""What a run has read is told as it was read, whatever became of the file since; and what libraries opened is seen."""

import ctypes
import json
import mmap
import sys

import numpy as np
import pytest

from bisect_diverge.environment.hashing import hash_bytes
from bisect_diverge.environment.inputs import CHANGED, Keeper, kept, read_files
from bisect_diverge.environment.knobs import NOT_READ
from bisect_diverge.record import files
from bisect_diverge.record.looks import held_files, is_time
from bisect_diverge.store.reader import Run
from tests.helpers.command import bd

SCRIPT = """
import ctypes, os, shutil, sqlite3, sys
import numpy as np
import torch

x = 0.0
for name in ("over", "replaced", "removed", "moved", "folder/inside", "appended"):
    x += np.fromfile(f"{name}.bin", np.float32)[0]
x += torch.load("ck.pt")["x"].item()
open("late.bin", "wb").close()
open("late.bin", "rb").close()
connection = sqlite3.connect("data.db")
x += connection.execute("select v from t").fetchone()[0]
connection.execute("update t set v = 9"), connection.commit()
for name in ("made.db", "file:by-uri.db?mode=rwc", "file:made.db?mode=ro"):
    log = sqlite3.connect(name, uri=True)
    if "ro" not in name:
        log.execute("create table t (v real)"), log.commit()
    log.close()
    sqlite3.connect(name, uri=True).close()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
assert libc.fopen(b"native.bin", b"r")
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    model(torch.full((1, 1), float(x))).sum().backward()
    optimizer.step()
np.zeros(1, np.float32).tofile("over.bin")
np.zeros(1, np.float32).tofile("new.tmp")
os.replace("new.tmp", "replaced.bin")
os.remove("removed.bin")
os.rename("moved.bin", "elsewhere.bin")
shutil.rmtree("folder")
with open("appended.bin", "ab") as file:
    file.write(b"more")
torch.save({"x": torch.zeros(1)}, "ck.pt")
"""
READ = ("over.bin", "replaced.bin", "removed.bin", "moved.bin", "folder/inside.bin", "appended.bin", "ck.pt", "data.db")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Folder, contents of its files before the run, and the settings of the run by layer and knob."""
    import sqlite3

    import torch

    folder = tmp_path_factory.mktemp("user")
    (folder / "folder").mkdir()
    for number, name in enumerate((*READ[:6], "native.bin", "named.bin")):
        np.full(1, number + 1, np.float32).tofile(folder / name)
    torch.save({"x": torch.ones(1)}, folder / "ck.pt")
    connection = sqlite3.connect(folder / "data.db")
    connection.execute("create table t (v real)")
    connection.execute("insert into t values (1)")
    connection.commit()
    connection.close()
    (folder / "t.py").write_text(SCRIPT)
    before = {name: (folder / name).read_bytes() for name in (*READ, "native.bin", "named.bin")}
    bd("record", "-o", "run", "--", sys.executable, "t.py", "--weights=named.bin", "native.bin", cwd=folder)
    with Run(folder / "run") as run:
        settings = run.first.record.environment.settings
    return folder, before, {f"{s.layer}.{s.knob}": s.value for s in settings}


@pytest.mark.parametrize("name", READ)
def test_what_was_read_is_kept_before_it_is_overwritten(recorded, name):
    """Written anew, replaced, removed, renamed, appended to, by torch.save and SQLite: the row is of what was read."""
    folder, before, rows = recorded
    value = rows[f"dataset.file:{name}"]
    assert value == hash_bytes(before[name])
    assert kept(str(folder / "run"), value).read_bytes() == before[name]


def test_what_the_run_made_itself_is_no_input(recorded):
    """Neither is what it has read after it had written it."""
    _, _, rows = recorded
    assert "dataset.file:late.bin" not in rows
    assert "dataset.file:new.tmp" not in rows
    assert not any("made.db" in knob or "by-uri" in knob for knob in rows)


def test_what_c_opened_is_seen(recorded):
    """A file that libc holds open is read like any other, and the row beside it says by whom."""
    _, before, rows = recorded
    assert rows["dataset.file:native.bin"] == hash_bytes(before["native.bin"])
    assert rows["dataset.opened:native.bin"] == "by a library itself"
    assert not any(knob.startswith("dataset.opened:") and "native" not in knob for knob in rows)


def test_what_the_command_names_and_nobody_opened_is_said_to_be_so(recorded):
    """It has a row of its own sort: a library may have read it between two looks."""
    _, before, rows = recorded
    assert rows["dataset.named:named.bin"] == hash_bytes(before["named.bin"])
    assert "dataset.file:named.bin" not in rows
    assert "dataset.named:native.bin" not in rows
    assert json.dumps(rows).count("named:") == 1


def test_a_look_finds_what_is_open_or_mapped_once(tmp_path):
    """Not what is open for writing only, nor code; and not again what has been told."""
    places = {name: tmp_path / name for name in ("mapped", "open", "written")}
    for place in places.values():
        place.write_bytes(b"0" * 8)
    libc = ctypes.CDLL(None)
    with open(places["open"], "rb"), open(places["written"], "ab"), open(places["mapped"], "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with open(places["open"], "rb"), open(places["written"], "ab"):
        found = set(held_files(last=True))
        assert {str(places["mapped"]), str(places["open"])} <= found
        assert str(places["written"]) not in found
        assert libc._name is None
        assert not any(path.endswith(".so") for path in found)
        assert str(places["open"]) not in set(held_files(last=True))
    mapped.close()
    assert [step for step in range(20) if is_time(step)] == [0, 1, 2, 4, 8, 16]


SPAWNING = """
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

class Data(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return torch.from_numpy(np.fromfile(f"{index}.bin", np.float32))

if __name__ == "__main__":
    model = torch.nn.Linear(1, 1)
    for batch in DataLoader(Data(), 2, num_workers=1, multiprocessing_context="spawn"):
        model(batch)
"""


@pytest.mark.matrix
def test_files_that_a_spawned_worker_reads_are_seen(tmp_path):
    """It tells its parent, as a forked one does; nothing of that is left in the run's folder."""
    for number in range(2):
        np.full(1, number, np.float32).tofile(tmp_path / f"{number}.bin")
    (tmp_path / "t.py").write_text(SPAWNING)
    bd("record", "-o", "run", "--", sys.executable, "t.py", cwd=tmp_path)
    with Run(tmp_path / "run") as run:
        rows = {s.knob for s in run.first.record.environment.settings if s.knob.startswith("file:")}
    assert {"file:0.bin", "file:1.bin"} <= rows
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["files", "rank-00000.h5", "stdout.log"]


def test_a_file_that_something_else_changed_has_no_hash(tmp_path):
    """What was read is not known; a state that is not known either is no reason to doubt."""
    path = tmp_path / "x.bin"
    path.write_bytes(b"now")
    state = files.state_of(str(path))
    keeper = Keeper(tmp_path)
    for known, value in ((state, hash_bytes(b"now")), (None, hash_bytes(b"now")), ((1, 3), CHANGED)):
        (row,) = read_files([str(path)], tmp_path, keeper, states={str(path): known})
        assert row.value == value
    assert CHANGED.startswith(NOT_READ)  # two such values are not known to be equal
