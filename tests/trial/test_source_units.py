"""Commits, patches and files: which unit they are, what it is made of, and the directory that a trial gets."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bisect_diverge.environment.hashing import hash_bytes
from bisect_diverge.environment.inputs import Keeper
from bisect_diverge.environment.modules import keep_modules
from bisect_diverge.environment.originals import keep_originals
from bisect_diverge.environment.read import read_outside
from bisect_diverge.model.environment import Environment, Layer, Setting
from bisect_diverge.model.run import RunRecord, Written
from bisect_diverge.model.trial import Unit
from bisect_diverge.record.divert import VIEW
from bisect_diverge.trial.circumstances import changed_files
from bisect_diverge.trial.configuration import check, launch
from bisect_diverge.trial.draft import Sides
from bisect_diverge.trial.packages import CannotBuildError
from bisect_diverge.trial.parts import parts_of
from bisect_diverge.trial.source_units import check_given
from bisect_diverge.trial.units import units_of
from tests.helpers.repositories import CONFIGURATION, commit, everything, git, write

COMMAND = (sys.executable, "train.py", "--config", "lr.json")
NET = "SCALE = 1\n"


@pytest.fixture(autouse=True)
def plain_git(monkeypatch):
    """Keep the configuration of whoever runs the tests out."""
    for name, value in CONFIGURATION.items():
        monkeypatch.setenv(name, value)


def recorded(folder, run, *, features=(), command=COMMAND, **changes):
    """Return the record that ``bd record`` would begin with, and keep what it keeps."""
    run.mkdir(parents=True)
    settings, patch = read_outside(folder, command, features=[Path(name) for name in features])
    keep_originals(run, folder, settings, patch)
    return RunRecord(
        command=command, argv=command[1:], cwd=str(folder), environment=Environment(settings), place=str(run), **changes
    )


@pytest.fixture
def project(tmp_path):
    """A repository of three commits; A is the first, B the last with a change on top and a new module."""
    folder = tmp_path / "project"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "set.bin").write_text("ignored")
    write(folder, **{".gitignore": "data/\n*.pt\n", "lr.json": '{"lr": 1}'})
    commit(folder, train="import net\n", net=NET, other="")
    a = recorded(folder, tmp_path / "runs" / "a", written={str(folder / "final.pt"): Written.OUTPUT})
    (folder / "final.pt").write_text("A's")
    middle = commit(folder, net="SCALE = 2\n")
    commit(folder, other="X = 1\n", gone="")
    write(folder, net="SCALE = 3\n", extra="Y = 1\n", **{"lr.json": '{"lr": 2}'})
    b = recorded(folder, tmp_path / "runs" / "b")
    return folder, a, b, middle[:12]


def launched(a, b, units, tmp_path):
    """Return what a trial would start."""
    search = tmp_path / "search"
    folder = search / f"{len(list(search.iterdir())) if search.exists() else 0}"
    folder.mkdir(parents=True)
    return launch(Sides(a=a, b=b, last_step=1), units, folder), folder


def contents(cwd, *names):
    """Return the text of files; None where there is none."""
    return [path.read_text() if (path := Path(cwd) / name).exists() else None for name in names]


def test_the_source_is_one_unit_of_commits_and_files(project):
    """A range of commits is taken apart into steps, a step into files; a file of another layer is no part of it."""
    _, a, b, middle = project
    (unit,) = units_of(a, b).units[-1:]
    assert (unit.layer, unit.knob, unit.a) == (Layer.SOURCE, "commit", a.environment.settings[1].value[:12])
    assert " with changes " in unit.b
    assert unit.files == ("extra.py", "gone.py", "net.py", "other.py")
    assert Unit.from_json(unit.to_json()).files == unit.files
    steps = parts_of(a, b, unit)
    assert steps[0].files == ("net.py",)
    assert [step.knob for step in steps] == ["commit"] * 3
    assert [step.a for step in steps[1:]] == [step.b for step in steps[:-1]] == [middle, steps[1].b]
    assert (steps[0].a, steps[-1].b) == (unit.a, unit.b)
    assert parts_of(a, b, steps[0]) == ()
    assert [part.knob for part in parts_of(a, b, steps[1])] == ["commit", "file:gone.py", "file:other.py"]
    assert [part.knob for part in parts_of(a, b, steps[2])] == ["commit", "file:extra.py", "file:net.py"]


def test_without_git_it_is_said_that_git_is_missing(project, monkeypatch):
    """And not that the repository were gone."""
    _, a, b, _ = project
    monkeypatch.setenv("PATH", "")
    reasons = [row.reason for row in units_of(a, b).untestable if row.unit.layer is Layer.SOURCE]
    assert reasons
    assert all(reason.startswith("git is not installed here") for reason in reasons), reasons


def test_files_are_named_from_the_folder_in_which_the_run_was_recorded(project, tmp_path):
    """Also where the repository begins above it: a file that a trial restores is not said to have changed."""
    folder, _, _, _ = project
    commit(folder, sub__train="import os\n", sub__more="")
    one = recorded(folder / "sub", tmp_path / "runs" / "one")
    commit(folder, sub__train="import sys\n", sub__more="X = 1\n", net="SCALE = 5\n")
    other = recorded(folder / "sub", tmp_path / "runs" / "other")
    (unit,) = units_of(one, other).units
    assert [part.knob for part in parts_of(one, other, unit)] == ["file:../net.py", "file:more.py", "file:train.py"]
    assert changed_files(one) == ""


def test_values_given_by_hand_that_are_nothing(project, tmp_path):
    """A commit that is not there, and a content that is none, are named."""
    _, a, b, _ = project
    for knob, value, said in (
        ("commit", "dead", "no commit dead"),
        ("file:net.py", "foo", "foo is no content of net."),
    ):
        with pytest.raises(CannotBuildError, match=said):
            launched(a, b, (Unit(layer=Layer.SOURCE, knob=knob, a=None, b=value),), tmp_path)


def test_what_lies_beside_the_repository_is_found_there(project, tmp_path):
    """``../data`` leads to the user's; a link to the repository leads to the checkout, not to the present source."""
    folder, a, b, _ = project
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "x.txt").write_text("data")
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "inner").symlink_to(folder / "data")
    started, _ = launched(a, b, (), tmp_path)
    assert contents(started.cwd, "../beside/x.txt", "../link/net.py", f"../{folder.name}/net.py") == ["data", NET, NET]
    assert contents(started.cwd, "../inner/set.bin", f"../../{tmp_path.name}/beside/x.txt") == ["ignored", "data"]
    assert not Path(started.cwd, "../search").exists(), "no way round to the checkouts themselves"


def test_the_way_back_has_the_same_steps(project):
    """Where B is the older one, the steps lead back."""
    _, a, b, middle = project
    (unit,) = units_of(b, a).units[-1:]
    steps = parts_of(b, a, unit)
    assert [step.b for step in steps] == [steps[1].a, middle, unit.b]
    assert " with changes " in steps[0].a


def test_a_trial_has_the_source_that_it_should(project, tmp_path):
    """A's, B's, a commit between, one file of B's: in a directory of its own; nothing of the user's is written."""
    folder, a, b, _ = project
    before = everything(folder)
    (unit,) = units_of(a, b).units[-1:]
    steps = parts_of(a, b, unit)
    last = parts_of(a, b, steps[2])
    wanted = {
        (): [NET, "", None, '{"lr": 1}'],
        (unit,): ["SCALE = 3\n", "X = 1\n", "Y = 1\n", '{"lr": 1}'],
        steps[:1]: ["SCALE = 2\n", "", None, '{"lr": 1}'],
        steps[:2]: ["SCALE = 2\n", "X = 1\n", None, '{"lr": 1}'],
        (steps[1],): ["SCALE = 2\n", "X = 1\n", None, '{"lr": 1}'],
        last: ["SCALE = 3\n", "X = 1\n", "Y = 1\n", '{"lr": 1}'],
        last[1:2]: [NET, "", "Y = 1\n", '{"lr": 1}'],
        (last[0], last[2]): ["SCALE = 3\n", "X = 1\n", None, '{"lr": 1}'],
    }
    for units, expected in wanted.items():
        started, _ = launched(a, b, units, tmp_path)
        assert contents(started.cwd, "net.py", "other.py", "extra.py", "lr.json") == expected
        assert contents(started.cwd, "data/set.bin", "train.py") == ["ignored", "import net\n"]
        assert not started.cwd.startswith(str(folder))
    assert everything(folder) == before


def test_a_checkout_is_a_repository_of_its_own(project, tmp_path):
    """A script that asks for its commit is answered; one that commits changes nothing of the user's."""
    folder, a, b, middle = project
    steps = parts_of(a, b, units_of(a, b).units[-1])
    started, _ = launched(a, b, steps[:1], tmp_path)
    place = Path(started.cwd)
    before = {name: content for name, (_, content) in everything(folder).items()}
    assert git(place, "rev-parse", "HEAD")[:12] == middle
    assert git(place, "status", "--porcelain", "--untracked-files=no") == ""
    commit(place, net="SCALE = 9\n")
    assert {name: content for name, (_, content) in everything(folder).items()} == before


def test_outputs_are_hidden_where_the_trial_would_find_them(project, tmp_path):
    """A's checkpoint lies in the checkout as a link, and is as little seen there as in its own place."""
    folder, a, b, _ = project
    started, place = launched(a, b, (), tmp_path)
    view = (place / VIEW).read_text()
    assert f'"{folder}/final.pt"' in view
    assert f'"{started.cwd}/final.pt"' in view


def test_a_is_run_as_it_was_recorded(project, tmp_path):
    """Against itself: in its own directory as long as that is as it was, else in one that has its files."""
    folder, a, _, _ = project
    started, _ = launched(a, a, (), tmp_path)
    assert contents(started.cwd, "net.py", "other.py") == [NET, ""]
    assert started.cwd != str(folder)
    assert check(a) == ""
    assert changed_files(a) == ""
    git(folder, "stash", "--include-untracked", "-q")
    git(folder, "checkout", "-q", a.environment.settings[1].value)
    assert launched(a, a, (), tmp_path)[0].cwd == str(folder)


def test_paths_lead_to_the_checkout(project, tmp_path):
    """An absolute path of the script, and a directory on ``PYTHONPATH``; what is only linked keeps its path."""
    folder, a, b, _ = project
    command = (sys.executable, str(folder / "train.py"), f"--data={folder}/data", f"--config={folder}/lr.json")
    path = Setting(layer=Layer.DEPENDENCIES, knob="PYTHONPATH", value=str(folder), resolved=False)
    a = a.with_(command=command, argv=command[1:], environment=a.environment.merged((path,)))
    b = b.with_(command=command, argv=command[1:], environment=b.environment.merged((path,)))
    started, _ = launched(a, b, (), tmp_path)
    assert started.command == (
        sys.executable, f"{started.cwd}/train.py", f"--data={folder}/data", f"--config={started.cwd}/lr.json"
    )  # fmt: skip
    assert started.environment["PYTHONPATH"].split(os.pathsep)[-1] == started.cwd


@pytest.mark.parametrize("lost", ["patch", "commit", "masked"])
def test_a_source_that_is_gone_is_untestable_with_the_reason(project, tmp_path, lost):
    """Without the patch, without the commit, or with a credential in the patch there is no B to take files from."""
    folder, a, b, _ = project
    if lost == "patch":
        (Path(b.place) / "source.patch").unlink()
    elif lost == "commit":
        row = Setting(layer=Layer.SOURCE, knob="commit", value="1" * 40, resolved=False)
        b = b.with_(environment=b.environment.merged((row,)))
    else:
        write(folder, net='API_KEY = "hunter-two"\n')
        b = recorded(folder, tmp_path / "runs" / "masked")
    found = units_of(a, b)
    reasons = [row.reason for row in found.untestable if row.unit.layer is Layer.SOURCE]
    wanted = {
        "patch": "source.patch",
        "commit": "commit 111111111111 is not in the repository",
        "masked": "credential",
    }[lost]
    assert len(reasons) == 1
    assert wanted in reasons[0]
    assert all(unit.layer is not Layer.SOURCE for unit in found.units)


def test_a_feature_file_is_moved_apart_from_the_source(tmp_path):
    """Declared files come from B when they are swapped, and from A when the source is."""
    folder = tmp_path / "project"
    commit(folder, train="import norm\n", norm="MEAN = 1\n", **{".gitignore": "*.txt\n"})
    (folder / "vocab.txt").write_text("one")
    a = recorded(folder, tmp_path / "runs" / "a", features=("norm.py", "vocab.txt"))
    commit(folder, train="import norm, os\n", norm="MEAN = 2\n")
    (folder / "vocab.txt").write_text("two")
    b = recorded(folder, tmp_path / "runs" / "b", features=("norm.py", "vocab.txt"))
    units = {str(unit): unit for unit in units_of(a, b).units}
    assert set(units) == {"source.commit", "features.file:norm.py", "features.file:vocab.txt"}
    wanted = {
        (): ["import norm\n", "MEAN = 1\n", "one"],
        ("source.commit",): ["import norm, os\n", "MEAN = 1\n", "one"],
        ("features.file:norm.py",): ["import norm\n", "MEAN = 2\n", "one"],
        ("source.commit", "features.file:vocab.txt"): ["import norm, os\n", "MEAN = 1\n", "two"],
        tuple(units): ["import norm, os\n", "MEAN = 2\n", "two"],
    }
    for names, expected in wanted.items():
        started, _ = launched(a, b, [units[name] for name in names], tmp_path)
        assert contents(started.cwd, "train.py", "norm.py", "vocab.txt") == expected
    assert contents(folder, "norm.py", "vocab.txt") == ["MEAN = 2\n", "two"]


def test_another_script_keeps_its_own_modules(tmp_path):
    """Each script finds the modules that only its run had, whatever else is swapped: which is run is another unit."""
    folder = tmp_path / "project"
    commit(folder, train="import net\n", net=NET)
    a = recorded(folder, tmp_path / "runs" / "a", command=(sys.executable, "train.py"))
    program = [Setting(layer=Layer.CONFIGURATION, knob="argv.program", value=name, resolved=False) for name in "ab"]
    write(folder, new="import net, more\n", more="", net="SCALE = 2\n")
    b = recorded(folder, tmp_path / "runs" / "b", command=(sys.executable, "new.py"))
    a, b = (r.with_(environment=r.environment.merged((row,))) for r, row in zip((a, b), program, strict=True))
    units = {unit.knob: unit for unit in units_of(a, b).units}
    assert set(units) == {"argv.program", "uncommitted"}
    assert parts_of(a, b, units["uncommitted"]) == ()
    started, _ = launched(a, b, [units["argv.program"]], tmp_path)
    assert started.command[1] == "new.py"
    assert contents(started.cwd, "new.py", "more.py", "net.py", "train.py") == [
        "import net, more\n", "", NET, "import net\n"
    ]  # fmt: skip
    started, _ = launched(a, b, [units["uncommitted"]], tmp_path)
    assert contents(started.cwd, "more.py", "net.py") == ["", "SCALE = 2\n"]


def test_a_file_that_was_untracked_is_there(tmp_path):
    """A read a file that was committed later: its trials have it as it was, B's the committed one by another unit."""
    folder = tmp_path / "project"
    commit(folder, train="")
    write(folder, **{"words.txt": "one"})
    a = recorded(folder, tmp_path / "runs" / "a")
    row = Setting(layer=Layer.DATASET, knob="file:words.txt", value=hash_bytes(b"one"), resolved=False)
    Keeper(tmp_path / "runs" / "a").file(folder / "words.txt", row.value, 3)
    a = a.with_(environment=a.environment.merged((row,)))
    commit(folder, train="X = 1\n", **{"words.txt": "two"})
    b = recorded(folder, tmp_path / "runs" / "b")
    started, _ = launched(a, b, units_of(a, b).units[-1:], tmp_path)
    assert contents(started.cwd, "train.py", "words.txt") == ["X = 1\n", "one"]


def test_what_a_run_wrote_is_no_source(tmp_path):
    """A file that the command names and that A left behind is there when B is recorded."""
    folder = tmp_path / "project"
    commit(folder, train="", **{"log.txt": ""})
    command = (sys.executable, "train.py", "--out", "model.bin")
    written = {str(folder / "model.bin"): Written.OUTPUT, str(folder / "log.txt"): Written.CHANGED}
    a = recorded(folder, tmp_path / "runs" / "a", command=command, written=written)
    write(folder, **{"model.bin": "A's", "log.txt": "A's"})
    b = recorded(folder, tmp_path / "runs" / "b", command=command, written=written)
    assert a.environment != b.environment
    assert units_of(a, b).units == units_of(a, b).untestable == ()
    started, _ = launched(a, b, (), tmp_path)
    assert contents(started.cwd, "log.txt") == [""]


def test_submodules_are_there_with_their_own_commit(tmp_path):
    """Linked where the right commit lies there, filled with that commit's files where another does."""
    library = tmp_path / "library"
    commit(library, kit="K = 1\n")
    folder = tmp_path / "project"
    commit(folder, train="")
    git(folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    commit(folder)
    a = recorded(folder, tmp_path / "runs" / "a")
    write(folder / "lib", kit="K = 2\n")
    commit(folder / "lib")
    commit(folder)
    b = recorded(folder, tmp_path / "runs" / "b")
    (unit,) = units_of(a, b).units
    assert contents(launched(a, b, (), tmp_path)[0].cwd, "lib/kit.py") == ["K = 1\n"]
    assert contents(launched(a, b, (unit,), tmp_path)[0].cwd, "lib/kit.py") == ["K = 2\n"]
    assert contents(folder, "lib/kit.py") == ["K = 2\n"]


def test_a_script_without_a_repository_is_kept_with_its_modules(tmp_path):
    """Of two scripts that were edited in place each trial has what its run had: one unit, and files within."""
    folder = tmp_path / "plain"
    write(folder, train="from pkg import net\n", pkg__net=NET, pkg__other="import pkg.net\n", stray="")
    write(folder, **{"pkg/__init__": "from . import other\n", "notes.txt": "mine"})
    a = recorded(folder, tmp_path / "runs" / "a")
    write(folder, pkg__net="SCALE = 2\n", pkg__other="import pkg.net as n\n")
    b = recorded(folder, tmp_path / "runs" / "b")
    write(folder, train="raise SystemExit\n")
    (unit,) = units_of(a, b).units
    assert str(unit) == "source.files"
    parts = parts_of(a, b, unit)
    assert [part.knob for part in parts] == ["file:pkg/net.py", "file:pkg/other.py"]
    wanted = {
        (): [NET, "import pkg.net\n"],
        (unit,): ["SCALE = 2\n", "import pkg.net as n\n"],
        parts[:1]: ["SCALE = 2\n", "import pkg.net\n"],
    }
    for units, expected in wanted.items():
        started, _ = launched(a, b, units, tmp_path)
        assert contents(started.cwd, "pkg/net.py", "pkg/other.py") == expected
        assert contents(started.cwd, "train.py", "notes.txt") == ["from pkg import net\n", "mine"]
        done = subprocess.run([*started.command[:2]], cwd=started.cwd, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_another_script_beside_the_first_is_run_where_it_lies(tmp_path):
    """It moves with the command alone; where it lies no longer, with the copy that its run kept."""
    folder = tmp_path / "plain"
    write(folder, train="import net\n", other="import net, more\n", net="", more="")
    a = recorded(folder, tmp_path / "runs" / "a", command=(sys.executable, "train.py"))
    b = recorded(folder, tmp_path / "runs" / "b", command=(sys.executable, "other.py"))
    program = [Setting(layer=Layer.CONFIGURATION, knob="argv.program", value=name, resolved=False) for name in "ab"]
    a, b = (r.with_(environment=r.environment.merged((row,))) for r, row in zip((a, b), program, strict=True))
    (unit,) = units_of(a, b).units
    assert unit.knob == "argv.program"
    started, _ = launched(a, b, [unit], tmp_path)
    assert (started.cwd, started.command[1]) == (str(folder), "other.py")
    (folder / "more.py").unlink()
    started, _ = launched(a, b, [unit], tmp_path)
    assert started.cwd != str(folder)
    assert contents(started.cwd, "other.py", "more.py", "train.py") == ["import net, more\n", "", "import net\n"]


def test_a_file_that_was_not_kept_says_so(tmp_path):
    """Of a script with a credential in it there is no copy, and of the older of two contents no file."""
    folder = tmp_path / "plain"
    write(folder, train='API_KEY = "hunter-two"\n')
    a = recorded(folder, tmp_path / "runs" / "a")
    write(folder, train='API_KEY = "hunter-three"\n')
    b = recorded(folder, tmp_path / "runs" / "b")
    assert not list((tmp_path / "runs").rglob("*.*"))
    (row,) = units_of(a, b).untestable
    assert "train.py was not kept" in row.reason
    unit = Unit(layer=Layer.SOURCE, knob="file:train.py", a="x", b="y")
    with pytest.raises(CannotBuildError, match=r"train\.py was not kept"):
        launched(b, a, (unit,), tmp_path)


@pytest.mark.parametrize("is_absolute", [False, True])
def test_a_script_outside_of_the_working_directory_is_swapped_by_content(tmp_path, monkeypatch, is_absolute):
    """The directory of a trial has both folders, and the user's stay as they are."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    folder = tmp_path / "project"
    command = (sys.executable, str(folder / "code" / "train.py") if is_absolute else "../code/train.py")
    (folder / "here").mkdir(parents=True)
    write(folder, code__train="import net\n", code__net="A\n", here__data="rows\n")
    a = recorded(folder / "here", tmp_path / "runs" / "a", command=command)
    write(folder, code__net="B\n")
    b = recorded(folder / "here", tmp_path / "runs" / "b", command=command)
    (unit,) = units_of(a, b).units
    for units, text in (((), "A\n"), ((unit,), "B\n")):
        started, _ = launched(a, b, units, tmp_path)
        script = Path(started.cwd, started.command[1])
        assert tmp_path / "search" in script.resolve().parents
        assert contents(started.cwd, "../code/net.py", "data.py") == [text, "rows\n"]
    assert contents(folder, "code/net.py") == ["B\n"]
    (folder / "code" / "train.py").unlink()
    assert check(a) == ""


def test_a_commit_that_is_given_by_hand_must_be_there(project, tmp_path):
    """Told before anything runs; outside of a repository there is none at all."""
    _, a, _, middle = project
    check_given(a, "commit", middle)
    check_given(a, "file:net.py", "anything")
    with pytest.raises(CannotBuildError, match="there is no commit garbage in the repository"):
        check_given(a, "commit", "garbage")
    bare = a.with_(environment=Environment())
    with pytest.raises(CannotBuildError, match="recorded outside of a git repository"):
        check_given(bare, "commit", "garbage")


LFS = """[filter "lfs"]
\tclean = {python} {script} clean
\tsmudge = {python} {script} smudge
\trequired = true
"""
FILTER = """
import hashlib, pathlib, sys
store = pathlib.Path({store!r})
data = sys.stdin.buffer.read()
if sys.argv[1] == "smudge":
    raise SystemExit("nothing may be fetched")
oid = hashlib.sha256(data).hexdigest()
place = store / oid[:2] / oid[2:4] / oid
place.parent.mkdir(parents=True, exist_ok=True)
place.write_bytes(data)
print(f"version https://git-lfs.github.com/spec/v1\\noid sha256:{{oid}}\\nsize {{len(data)}}")
"""
"""What git-lfs does when a file is committed; what it does when one is checked out needs a server."""


@pytest.mark.parametrize("lost", [False, True])
def test_files_of_git_lfs_are_there_with_their_content(tmp_path, lost):
    """As far as it lies on this machine; a difference in what is not here is untestable, with the reason."""
    folder, store = tmp_path / "project", tmp_path / "project" / ".git" / "lfs" / "objects"
    commit(folder, train="", **{".gitattributes": "*.bin filter=lfs -text\n"})
    (tmp_path / "filter.py").write_text(FILTER.format(store=str(store)))
    with (folder / ".git" / "config").open("a") as file:
        file.write(LFS.format(python=sys.executable, script=tmp_path / "filter.py"))
    commit(folder, **{"w.bin": "A" * 2000})
    a = recorded(folder, tmp_path / "runs" / "a")
    commit(folder, train="X = 1\n", **{"w.bin": "B" * 2000})
    b = recorded(folder, tmp_path / "runs" / "b")
    commit(folder, **{"w.bin": "C"})
    if lost:
        shutil.rmtree(store)
    found = units_of(a, b)
    assert [unit.knob for unit in found.units] == ["commit"]
    assert [(row.unit.knob, "git lfs fetch" in row.reason) for row in found.untestable] == [("file:w.bin", True)] * lost
    texts = [contents(launched(a, b, units, tmp_path)[0].cwd, "w.bin", "train.py") for units in ((), found.units)]
    if lost:
        assert all(text.startswith("version https://git-lfs") for text, _ in texts)
        assert [code for _, code in texts] == ["", "X = 1\n"]
    else:
        assert texts == [["A" * 2000, ""], ["B" * 2000, "X = 1\n"]]


def test_an_ignored_module_is_a_unit_of_its_own(tmp_path):
    """Loaded and kept: each trial has the one that its run had, wherever it lies; what was not kept is untestable."""
    folder, library = tmp_path / "project", tmp_path / "library"
    commit(folder, train="import made, kit\n", **{".gitignore": "made.py\n"})
    library.mkdir()
    path = Setting(layer=Layer.DEPENDENCIES, knob="PYTHONPATH", value=str(library), resolved=False)
    runs = []
    for name, scale in (("a", 1), ("b", 2)):
        texts = {folder / "made.py": f"S = {scale}\n", library / "kit.py": f"K = {scale}\n"}
        for place, text in texts.items():
            place.write_text(text)
        record = recorded(folder, tmp_path / "runs" / name)
        rows = [("made.py", folder / "made.py"), (str(library / "kit.py"), library / "kit.py")]
        rows = [(f"module:{knob}", hash_bytes(texts[place].encode())) for knob, place in rows]
        rows = [Setting(layer=Layer.SOURCE, knob=k, value=v, resolved=True) for k, v in (*rows, ("modules", "2"))]
        keep_modules(tmp_path / "runs" / name, folder, (*record.environment.settings, *rows))
        runs.append(record.with_(environment=record.environment.merged((path, *rows))))
    a, b = runs
    (unit,) = units_of(a, b).units
    assert unit.knob == "loaded"
    parts = parts_of(a, b, unit)
    assert [part.knob for part in parts] == [f"module:{library / 'kit.py'}", "module:made.py"]
    for units, expected in (((), (1, 1)), ((unit,), (2, 2)), (parts[:1], (1, 2)), (parts[1:], (2, 1))):
        started, _ = launched(a, b, units, tmp_path)
        found = started.environment["PYTHONPATH"].split(os.pathsep)[-1]
        assert contents(started.cwd, "made.py") == [f"S = {expected[0]}\n"]
        assert contents(found, "kit.py") == [f"K = {expected[1]}\n"]
    assert contents(folder, "made.py") == ["S = 2\n"]
    with pytest.raises(CannotBuildError, match=r"is no content of made\.py that was kept"):
        launched(a, b, (Unit(layer=Layer.SOURCE, knob="module:made.py", a=None, b="made2.py"),), tmp_path)
    shutil.rmtree(tmp_path / "runs" / "a" / "files")
    found = units_of(a, b)
    assert found.units == ()
    assert all("was not kept" in row.reason for row in found.untestable)
    assert len(found.untestable) == 2


def test_a_change_inside_a_submodule_is_a_unit_or_untestable(tmp_path):
    """Of the modules that were loaded each trial has its own; of anything else it is said that it was not kept."""
    commit(tmp_path / "library", kit="K = 1\n", other="")
    folder = tmp_path / "project"
    commit(folder, train="")
    git(folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "library"), "lib")
    commit(folder)
    runs = []
    for name, files in (("a", {}), ("b", {"kit": "K = 2\n"}), ("c", {"kit": "K = 1\n", "other": "O = 1\n"})):
        write(folder / "lib", **files)
        record = recorded(folder, tmp_path / "runs" / name)
        value = hash_bytes((folder / "lib" / "kit.py").read_bytes())
        rows = [Setting(layer=Layer.SOURCE, knob="module:lib/kit.py", value=value, resolved=True)]
        rows.append(Setting(layer=Layer.SOURCE, knob="modules", value="1", resolved=True))
        keep_modules(tmp_path / "runs" / name, folder, (*record.environment.settings, *rows))
        runs.append(record.with_(environment=record.environment.merged(tuple(rows))))
    a, b, c = runs
    (unit,) = units_of(a, b).units
    assert unit.knob == "module:lib/kit.py"
    assert units_of(a, b).untestable == ()
    assert contents(launched(a, b, (), tmp_path)[0].cwd, "lib/kit.py", "lib/other.py") == ["K = 1\n", ""]
    assert contents(launched(a, b, (unit,), tmp_path)[0].cwd, "lib/kit.py") == ["K = 2\n"]
    assert contents(folder, "lib/kit.py", "lib/other.py") == ["K = 1\n", "O = 1\n"]
    assert units_of(a, c).units == ()
    assert [row.unit.knob for row in units_of(a, c).untestable] == ["submodule:lib"]


def test_an_extension_from_a_cache_is_compiled_anew(tmp_path):
    """What torch had compiled before is not swapped: that it was another is said where nothing else explains it."""
    commit(tmp_path / "project", train="")
    a = recorded(tmp_path / "project", tmp_path / "runs" / "a")
    a, b = (
        a.with_(environment=a.environment.merged(tuple(rows)))
        for rows in (
            [
                Setting(layer=Layer.SOURCE, knob=k, value=v, resolved=True)
                for k, v in (("extension:kit", value), ("modules", "1"))
            ]
            for value in ("xxh3:1", "xxh3:2")
        )
    )
    assert units_of(a, b).units == ()
    (row,) = units_of(a, b).untestable
    assert (row.unit.knob, "compiled anew" in row.reason) == ("extension:kit", True)
    started, folder = launched(a, b, (), tmp_path)
    assert Path(started.environment["TORCH_EXTENSIONS_DIR"]).parents[1] == folder.parent


def test_a_folder_that_only_the_script_knows_is_not_testable(tmp_path):
    """Its modules cannot be put elsewhere: that they differ, or have changed since, is said."""
    folder, library = tmp_path / "project", tmp_path / "library"
    commit(folder, train="import sys; sys.path.insert(0, '../library'); import kit\n")
    library.mkdir()
    runs = []
    for name, text in (("a", "K = 1\n"), ("b", "K = 2\n")):
        (library / "kit.py").write_text(text)
        record = recorded(folder, tmp_path / "runs" / name)
        rows = {f"module:{library}/kit.py": hash_bytes(text.encode()), "modules": "1"}
        settings = tuple(Setting(layer=Layer.SOURCE, knob=k, value=v, resolved=True) for k, v in rows.items())
        keep_modules(tmp_path / "runs" / name, folder, (*record.environment.settings, *settings))
        runs.append(record.with_(environment=record.environment.merged(settings)))
    a, b = runs
    assert units_of(a, b).units == ()
    (row,) = units_of(a, b).untestable
    assert "PYTHONPATH" in row.reason
    assert changed_files(a) == f"{library}/kit.py has changed since A was recorded"
    assert changed_files(b) == ""
    assert launched(a, a, (), tmp_path)[0].cwd == str(folder)


def test_what_was_made_in_a_submodule_since_is_not_in_a_trial(tmp_path):
    """A had the commit of the submodule as it is; what nobody has committed there now is somebody else's work."""
    commit(tmp_path / "library", kit="K = 1\n")
    folder = tmp_path / "project"
    commit(folder, train="")
    git(folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "library"), "lib")
    commit(folder)
    a = recorded(folder, tmp_path / "runs" / "a")
    assert launched(a, a, (), tmp_path)[0].cwd == str(folder)
    write(folder / "lib", kit="K = 2\n")
    assert contents(launched(a, a, (), tmp_path)[0].cwd, "lib/kit.py") == ["K = 1\n"]
