"""Files that libraries open by themselves: led to the trial's by a table, or by the words that name them."""

import json
import os
import sqlite3
import sys
import types
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from bisect_diverge.environment.inputs import Keeper, read_files
from bisect_diverge.model.environment import Environment, Layer, Setting
from bisect_diverge.model.run import RunRecord
from bisect_diverge.model.trial import Unit
from bisect_diverge.record.native import CHANGE, OPENERS, READ, WRITE, Opener, lead
from bisect_diverge.trial.draft import Sides, draft_of_a
from bisect_diverge.trial.swap_file import swap
from tests.helpers.command import bd, run

LED = """
import json, os, sys
from bisect_diverge.record.divert import divert, not_as_expected
folder, scratch = sys.argv[1:]
paths = {f"{folder}/a{end}": f"{folder}/b{end}" for end in (".h5", ".db", ".bin")}
expected = {path: [[f"dataset.file:{path}", "not opened"]] for path in (*paths, f"{folder}/never")}
divert(scratch, (), (), {"paths": paths, "expected": expected})
import h5py, sqlite3, torch
os.chdir(folder)
with h5py.File("a.h5") as file:
    read = [float(file["x"][0])]
with h5py.File(name="made.h5", mode="w") as file:
    file["x"] = [5.0]
with h5py.File("a.h5", "r+") as file:
    file["x"][0] = 7.0
read.append(float(h5py.File("made.h5")["x"][0]))
connection = sqlite3.connect("a.db")
read.append(connection.execute("select v from t").fetchone()[0])
connection.execute("insert into t values (9)"), connection.commit()
for name in ("file:a.db", f"file://{folder}/a.db?mode=ro"):
    read.append(len(sqlite3.connect(name, uri=True).execute("select v from t").fetchall()))
read.append(len(sqlite3.dbapi2.connect("a.db").execute("select v from t").fetchall()))
read.append(torch.from_file("a.bin", size=1).item())
read.append(torch.UntypedStorage.from_file("a.bin", False, 4).nbytes())
torch.from_file("a.bin", shared=True, size=1).fill_(8.0)
memory = sqlite3.connect(":memory:")
print(json.dumps([read, [knob for knob, _ in not_as_expected()]]))
"""


def write(folder, name, value):
    """Write a value into a file of each sort."""
    with h5py.File(folder / f"{name}.h5", "w") as file:
        file["x"] = [value]
    connection = sqlite3.connect(folder / f"{name}.db")
    connection.execute("create table t (v real)")
    connection.execute("insert into t values (?)", (value,))
    connection.commit()
    connection.close()
    np.full(1, value, np.float32).tofile(folder / f"{name}.bin")


def test_libraries_read_and_write_in_the_trial(tmp_path):
    """HDF5, SQLite and torch's own mappings: what is read is the other file, and the user's stay as they are."""
    user, scratch = tmp_path / "user", tmp_path / "scratch"
    user.mkdir()
    (scratch / "files").mkdir(parents=True)
    write(user, "a", 1.0)
    write(user, "b", 2.0)
    before = {path.name: path.read_bytes() for path in user.iterdir()}
    done = run(sys.executable, "-c", LED, str(user), str(scratch))
    read, not_opened = json.loads(done.stdout)
    assert read == [2.0, 5.0, 2.0, 2, 2, 2, 2.0, 4]
    assert not_opened == [f"dataset.file:{user}/never"]
    assert {path.name: path.read_bytes() for path in user.iterdir()} == before


def test_safetensors_read_and_write_in_the_trial(tmp_path):
    """The same of safetensors, where it is installed."""
    pytest.importorskip("safetensors")
    from safetensors.torch import save_file

    user, scratch = tmp_path / "user", tmp_path / "scratch"
    user.mkdir()
    (scratch / "files").mkdir(parents=True)
    for name, value in (("a", 1.0), ("b", 2.0)):
        save_file({"x": torch.tensor([value])}, user / f"{name}.safetensors")
    script = """
import sys
from bisect_diverge.record.divert import divert
divert(sys.argv[1], (), (), {"paths": {sys.argv[2]: sys.argv[3]}})
from safetensors.torch import load_file, save_file
import torch
save_file({"x": torch.tensor([3.0])}, "new.safetensors")
print(load_file(sys.argv[2])["x"].item(), load_file("new.safetensors")["x"].item())
"""
    files = [str(user / f"{name}.safetensors") for name in "ab"]
    done = run(sys.executable, "-c", script, str(scratch), *files, cwd=user, PYTHONPATH=os.pathsep.join(sys.path))
    assert done.stdout.split() == ["2.0", "3.0"]
    assert not (user / "new.safetensors").exists()


@pytest.mark.parametrize(
    ("row", "args", "kwargs", "used"),
    [
        (Opener("m", "f"), ("p", 1), {}, READ),
        (Opener("m", "f", at=1, name="file", use=WRITE), (1, "p"), {}, WRITE),
        (Opener("m", "f", at=1, name="file"), (1,), {"file": "p"}, READ),
        (Opener("m", "f", mode=(1, "mode", "r")), ("p",), {}, READ),
        (Opener("m", "f", mode=(1, "mode", "r")), ("p", "w-"), {}, WRITE),
        (Opener("m", "f", mode=(1, "mode", "r")), ("p",), {"mode": "a"}, CHANGE),
        (Opener("m", "f", mode=(1, "mode", "r")), ("p", "r+"), {}, CHANGE),
        (Opener("m", "f", flag=(1, "shared", CHANGE)), ("p",), {"shared": True}, CHANGE),
        (Opener("m", "f", flag=(1, "shared", CHANGE)), ("p", False), {}, READ),
    ],
)
def test_a_row_says_what_is_done_to_the_file(monkeypatch, row, args, kwargs, used):
    """By a mode or a flag among the arguments; the path may be given by its name."""
    module = types.ModuleType("m")
    module.f = lambda *args, **kwargs: (args, kwargs)
    monkeypatch.setitem(sys.modules, "m", module)
    asked = []
    lead(lambda path, use: asked.append((path, use)) or "led", [row])
    got, named = module.f(*args, **kwargs)
    assert asked == [("p", used)]
    assert "led" in got or "led" in named.values()


def test_the_table_names_what_there_is():
    """Of the libraries that are installed here each row is a function with an argument of that name, or in C."""
    for row in OPENERS:
        if row.module in sys.modules:
            owner = sys.modules[row.module]
            for part in row.function.split("."):
                owner = getattr(owner, part)
            assert callable(owner)


def sides_of(folder, *words, conf=""):
    """Return two runs that read ``x.bin``, of which nobody saw that it was opened, under these words."""
    records = []
    for name, content in (("a", b"A"), ("b", b"B")):
        (folder / "x.bin").write_bytes(content)
        place = folder / name
        place.mkdir()
        keeper = Keeper(place)
        rows = [*read_files([str(folder / "x.bin")], folder, keeper, kind="named:")]
        if conf:
            (folder / "c.json").write_text(conf)
            rows += read_files([str(folder / "c.json")], folder, keeper)
        command = ("python", "t.py", *words)
        variables = Setting(layer=Layer.DATASET, knob="DATA_PATH", value=str(folder / "x.bin"), resolved=False)
        environment = Environment((*rows, variables))
        records.append(
            RunRecord(command=command, argv=command[1:], cwd=str(folder), environment=environment, place=str(place))
        )
    return Sides(a=records[0], b=records[1], last_step=0)


@pytest.mark.parametrize("swapped", [False, True])
def test_words_that_name_a_file_name_the_other_one(tmp_path, swapped):
    """A flag, a value, a variable and a configuration file; the file has its own name, and other words stay."""
    sides = sides_of(tmp_path, "--data", "x.bin", f"path={tmp_path}/x.bin", "--lr=1", conf='{"data": "x.bin", "n": 1}')
    a, b = (record.environment.value(Layer.DATASET, "named:x.bin") for record in (sides.a, sides.b))
    folder = tmp_path / "trial"
    folder.mkdir()
    unit = Unit(layer=Layer.DATASET, knob="named:x.bin", a=a, b=b)
    (tmp_path / "x.bin").write_bytes(b"neither")
    made = swap(sides, [unit] if swapped else [], draft_of_a(sides, folder))
    link = made.command[3]
    assert Path(link).name == "x.bin"
    assert Path(link).read_bytes() == (b"B" if swapped else b"A")
    assert made.command[4:] == (f"path={link}", "--lr=1")
    assert made.variables["DATA_PATH"] == link
    assert json.loads(Path(made.paths[str(tmp_path / "c.json")]).read_text()) == {"data": link, "n": 1}
    if swapped:
        assert made.expected[str(tmp_path / "x.bin")] == [("dataset.named:x.bin", "not opened")]


SCRIPT = """
import ctypes, sys, torch
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
libc.fgetc.argtypes = libc.fclose.argtypes = [ctypes.c_void_p]
x = 0.0
for name in sys.argv[1:]:
    file = libc.fopen(name.encode(), b"r")
    x += libc.fgetc(file)
    libc.fclose(file)
model = torch.nn.Linear(1, 1)
torch.nn.init.ones_(model.weight), torch.nn.init.zeros_(model.bias)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    model(torch.full((1, 1), x)).sum().backward()
    optimizer.step()
"""


@pytest.mark.matrix
def test_a_file_that_only_c_has_read_is_found(tmp_path):
    """One of two that the command names has another content; libc reads both, and nothing else sees that."""
    (tmp_path / "t.py").write_text(SCRIPT)
    (tmp_path / "same.txt").write_text("a")
    for name, text in (("a", "a"), ("b", "b")):
        (tmp_path / "other.txt").write_text(text)
        bd("record", "-o", name, "--", sys.executable, "t.py", "same.txt", "other.txt", cwd=tmp_path)
    found = json.loads(bd("bisect", "a", "b", "--no-observer-check", "--format", "json", cwd=tmp_path).stdout)
    assert [u["knob"] for cause in found["causes"] for u in cause["units"]] == ["named:other.txt"]
    assert found["causes"][0]["sufficient"]
    assert found["causes"][0]["necessary"]


@pytest.mark.parametrize("module", sorted({row.module for row in OPENERS}))
def test_every_library_of_the_table_is_on_the_page(module):
    """What is diverted is documented, under the name that people know."""
    page = (Path(__file__).parents[2] / "docs" / "trials.md").read_text(encoding="utf-8")
    names = {"sqlite3": "SQLite", "sqlite3.dbapi2": "SQLite", "torch": "torch.from_file"}
    assert names.get(module, module) in page
