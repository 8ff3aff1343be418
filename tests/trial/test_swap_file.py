"""Files that a run read are read again by a trial: A's, and B's where they are swapped."""

import json
import sys
import textwrap
from pathlib import Path

import pytest

from bisect_diverge.environment.inputs import Keeper, read_files, read_listings
from bisect_diverge.model.environment import Environment, Layer, Setting
from bisect_diverge.model.run import RunRecord
from bisect_diverge.model.trial import Unit
from bisect_diverge.trial.draft import Sides, draft_of_a
from bisect_diverge.trial.inputs import keys_of, split_key
from bisect_diverge.trial.packages import CannotBuildError
from bisect_diverge.trial.parts import parts_of
from bisect_diverge.trial.swap_file import swap
from bisect_diverge.trial.units import left_over, units_of
from tests.helpers.command import run


def write(folder, files):
    """Make exactly these files in a folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def recorded(folder, name, files, listings=None, **options):
    """Write files, and return the record of a run that read all of them and listed some folders."""
    write(folder, files)
    place = folder / name
    place.mkdir()
    keeper = Keeper(place, **options)
    rows = [*read_files([str(folder / file) for file in files], folder, keeper)]
    listed = {str(folder / name): names for name, names in (listings or {}).items()}
    rows += read_listings(listed, folder, keeper, frozenset())
    return RunRecord(
        command=("python", "t.py"),
        argv=("t.py",),
        cwd=str(folder),
        environment=Environment(tuple(rows)),
        place=str(place),
    )


FILES_A = {"data/x": "1", "data/y": "2", "conf.json": '{"lr": 0.1, "seed": 0, "name": "a"}'}
FILES_B = {"data/x": "1", "data/y": "3", "data/z": "4", "conf.json": '{"lr": 0.2, "seed": 0, "name": "b"}'}


@pytest.fixture
def sides(tmp_path):
    """Two runs of one folder, whose files were changed in between."""
    a = recorded(tmp_path, "a", FILES_A, {"data": ["y", "x"]})
    b = recorded(tmp_path, "b", FILES_B, {"data": ["x", "z", "y"]})
    return Sides(a=a, b=b, last_step=0)


def draft(sides, *units):
    """Return the draft of a trial with some units swapped."""
    folder = sides.a.place + "/trial"
    made = draft_of_a(sides, Path(folder))
    made.folder.mkdir(exist_ok=True)
    return swap(sides, units, made)


def reads(made, path):
    """Return what a trial reads at a path."""
    with open(made.paths.get(path, path)) as file:
        return file.read()


def units(sides):
    """Return the units by their knobs."""
    return {unit.knob: unit for unit in units_of(sides.a, sides.b).units}


def test_what_differs(sides):
    """A file that both read, a list of names; not a file that only one has read: something else may be why."""
    found = units_of(sides.a, sides.b)
    assert [str(u) for u in found.units] == [
        "dataset.file:data/y", "dataset.listing:data", "configuration.file:conf.json",
    ]  # fmt: skip
    assert [d.knob for d in found.resolved] == ["file:data/z"]
    assert found.untestable == ()


def test_nothing_swapped_is_a_however_the_files_are_now(sides):
    """The folder holds B's files; a trial reads A's, from the copies."""
    made, folder = draft(sides), sides.a.cwd
    assert reads(made, f"{folder}/data/y") == "2"
    assert reads(made, f"{folder}/conf.json") == FILES_A["conf.json"]
    assert made.listings == {f"{folder}/data": ["y", "x"]}


def test_one_file_swapped(sides):
    """B's content is read, also when the file is yet another one by now; all others stay A's."""
    folder = sides.a.cwd
    write(Path(folder), {"data/y": "neither"})
    made = draft(sides, units(sides)["file:data/y"])
    assert reads(made, f"{folder}/data/y") == "3"
    assert reads(made, f"{folder}/conf.json") == FILES_A["conf.json"]
    assert made.expected[f"{folder}/data/y"] == [("dataset.file:data/y", "not opened")]


def test_a_list_swapped_brings_the_files_that_only_b_has(sides):
    """Where they are gone they are read from B's copies."""
    folder = sides.a.cwd
    Path(folder, "data", "z").unlink()
    made = draft(sides, units(sides)["listing:data"])
    assert made.listings == {f"{folder}/data": ["x", "z", "y"]}
    assert reads(made, f"{folder}/data/z") == "4"


def test_a_configuration_file_is_taken_apart(sides):
    """Each key is a unit; a file with one key is named by it."""
    whole = units(sides)["file:conf.json"]
    keys = parts_of(sides.a, sides.b, whole)
    assert {u.knob: (u.a, u.b) for u in keys} == {
        "file:conf.json:lr": ("0.1", "0.2"),
        "file:conf.json:name": ('"a"', '"b"'),
    }
    made = draft(sides, keys[0])
    assert json.loads(reads(made, f"{sides.a.cwd}/conf.json")) == {"lr": 0.2, "seed": 0, "name": "a"}
    made = draft(sides, *keys)
    assert json.loads(reads(made, f"{sides.a.cwd}/conf.json")) == json.loads(FILES_B["conf.json"])
    assert split_key(sides.a, "file:conf.json:lr") == ("conf.json", "lr")
    assert split_key(sides.a, "file:conf.json") == ("conf.json", "")


def test_one_key_is_the_unit(tmp_path):
    """No trial is spent on telling that a file's only differing key is it."""
    a, b = (recorded(tmp_path, n, {"c.toml": f"[train]\nlr = 0.{n}\n"}) for n in "12")
    (unit,) = units_of(a, b).units
    assert (unit.knob, unit.a, unit.b) == ("file:c.toml:train.lr", "0.1", "0.2")
    assert keys_of(a, b, Unit(layer=Layer.CONFIGURATION, knob="file:c.toml", a=None, b=unit.b)) == ()


def test_what_was_not_kept_is_not_testable(tmp_path):
    """The reason says what is kept."""
    a = recorded(tmp_path, "a", {"x.bin": "1"}, on=False)
    b = recorded(tmp_path, "b", {"x.bin": "2"}, {".": ["x.bin"]})
    (row,) = units_of(a, b).untestable
    assert "held in A was not kept" in row.reason
    assert "16 MiB" in row.reason
    sides = Sides(a=b, b=a, last_step=0)  # what lies there now is what is not kept in the other
    with pytest.raises(CannotBuildError):
        draft(sides, Unit(layer=Layer.DATASET, knob="file:x.bin", a=row.unit.b, b=row.unit.a))


def test_a_file_that_only_one_run_read_becomes_a_unit_where_nothing_else_explains_it(sides):
    """A trial with everything else swapped says that it did not open the file that B had, or opened A's."""
    found = units_of(sides.a, sides.b)
    trial = Setting(layer=Layer.DATASET, knob="file:data/z", value="not opened", resolved=True)
    more = left_over(found, Environment((trial,)))
    assert [str(u) for u in more.units][-1] == "dataset.file:data/z"
    assert left_over(found, Environment(())).units == found.units
    back = units_of(sides.b, sides.a)
    opened = Setting(layer=Layer.DATASET, knob="file:data/z", value="opened", resolved=True)
    gone = left_over(back, Environment((opened,))).units[-1]
    assert gone.b is None
    made = draft(Sides(a=sides.b, b=sides.a, last_step=0), gone)
    assert f"{sides.a.cwd}/data/z" in made.hidden


def test_a_declared_path_leads_to_bs(tmp_path):
    """Where no flag names it, what lies below A's path is looked for below B's."""
    rows = [Setting(layer=Layer.DATASET, knob="data.0", value=name, resolved=False) for name in ("one", "two")]
    (tmp_path / "two").mkdir()
    a, b = (
        RunRecord(command=("python", "t.py"), argv=("t.py",), cwd=str(tmp_path), environment=Environment((row,)))
        for row in rows
    )
    (unit,) = units_of(a, b).units
    made = swap(Sides(a=a, b=b, last_step=0), [unit], draft_of_a(Sides(a=a, b=b, last_step=0), tmp_path))
    assert made.paths == {str(tmp_path / "one"): str(tmp_path / "two")}
    flags = [r.with_(command=("python", "t.py", n), argv=("t.py", n)) for r, n in ((a, "one"), (b, "two"))]
    assert [u.knob for u in units_of(*flags).units] == ["argv.0"]


def test_a_process_reads_what_it_is_given(tmp_path):
    """Contents, new files, folders that are gone, and names in their recorded order, in every way of looking."""
    user = tmp_path / "user"
    write_files = {"data/a": "old", "data/b": "b", "data/late": "late", "other/x": "x"}
    user.mkdir()
    write(user, write_files)
    scratch = tmp_path / "scratch"
    (scratch / "files").mkdir(parents=True)
    (tmp_path / "copy").write_text("new")
    copy, words = f"{tmp_path}/copy", {"a": "not opened", "b": "not opened", "c": "opened"}
    inputs = {
        "paths": {f"{user}/data/a": copy, f"{user}/data/c": copy, f"{user}/tree": f"{user}/other"},
        "listings": {f"{user}/data": ["c", "b", "a", "never"]},
        "expected": {f"{user}/data/{n}": [[f"dataset.file:{n}", word]] for n, word in words.items()},
    }
    script = """
    import glob, io, json, os, pathlib, sys
    from bisect_diverge.record.divert import divert, not_as_expected
    divert(sys.argv[1], inputs=json.loads(sys.argv[2]))
    assert open("data/a").read() == pathlib.Path("data/c").read_text() == "new"
    assert os.listdir("data") == os.listdir(b"data".decode()) == ["c", "b", "a"], os.listdir("data")
    assert [e.name for e in os.scandir("data")] == ["c", "b", "a"]
    assert [e.path for e in os.scandir("data")] == ["data/c", "data/b", "data/a"]
    assert all(e.is_file() and not e.is_dir() and not e.is_symlink() for e in os.scandir("data"))
    assert [e.stat().st_size for e in os.scandir("data")] == [3, 1, 3]
    assert sorted(glob.glob("data/*")) == ["data/a", "data/b", "data/c"]
    assert [p.name for p in pathlib.Path("data").iterdir()] == ["c", "b", "a"]
    assert next(os.walk("data"))[2] == ["c", "b", "a"]
    assert os.path.getsize("data/c") == 3 and os.path.exists("data/c") and not os.path.isdir("data/c")
    assert open("tree/x").read() == "x" and os.listdir("tree") == ["x"] and os.path.isdir("tree")
    open("data/made", "w").write("made")
    assert os.listdir("data") == ["c", "b", "a", "made"]
    with open("data/a", "a") as file:
        file.write("er")
    assert open("data/a").read() == "newer"
    os.remove("data/b")
    assert os.listdir("data") == ["c", "a", "made"]
    if os.fork() == 0:
        open("data/late").close()
        os._exit(0)
    os.wait()
    print(json.dumps(sorted(not_as_expected())))
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(scratch), json.dumps(inputs)]
    done = run(*command, cwd=user)
    assert json.loads(done.stdout) == [["dataset.file:b", "not opened"], ["dataset.file:c", "opened"]]
    assert (user / "data" / "a").read_text() == "old"
    assert (tmp_path / "copy").read_text() == "new"
    assert sorted(p.name for p in (user / "data").iterdir()) == ["a", "b", "late"]
