"""What is recorded of the source: commit, uncommitted changes, modules."""

import os
import subprocess
import sys

import pytest

from bisect_diverge.environment import git as git_runner
from bisect_diverge.environment import source
from bisect_diverge.environment.read import read_outside
from tests.helpers.repositories import CONFIGURATION, NAME, git


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with one commit of train.py."""
    for name, value in CONFIGURATION.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "train.py").write_text("lr = 0.1\n")
    git(folder, "add", ".")
    git(folder, *NAME, "commit", "-qm", "first")
    return folder


def read(folder, *command):
    """Return the source settings by knob, and the patch."""
    settings, patch = read_outside(folder, command or ("python", "train.py"))
    return {s.knob: s.value for s in settings}, patch


def test_a_clean_checkout_is_its_commit(repository):
    """Without changes there is the commit and its tree, and no patch."""
    rows, patch = read(repository)

    assert rows["repository"] == "git"
    assert git(repository, "rev-parse", "HEAD").strip() == rows["commit"]
    assert git(repository, "rev-parse", "HEAD^{tree}").strip() == rows["tree"]
    assert (rows["uncommitted"], patch) == ("none", None)


def test_staged_unstaged_and_untracked_changes_are_one_patch(repository):
    """The patch leads from the commit to the files as they are, and git can apply it."""
    (repository / "train.py").write_text("lr = 0.2\n")
    git(repository, "add", ".")
    (repository / "train.py").write_text("lr = 0.3\n")
    (repository / "new.py").write_text("depth = 3\n")

    rows, patch = read(repository)

    assert "M train.py" in rows["uncommitted.files"]
    assert "A new.py" in rows["uncommitted.files"]
    git(repository, "reset", "-q", "--hard")
    (repository / "new.py").unlink()
    subprocess.run(["git", "apply"], cwd=repository, input=patch, check=True)
    assert tuple((repository / n).read_text() for n in ("train.py", "new.py")) == ("lr = 0.3\n", "depth = 3\n")
    assert rows == read(repository)[0]


def test_nothing_of_the_repository_is_written(repository):
    """Index, objects and files are the same before and after."""
    (repository / "train.py").write_text("lr = 0.2\n")
    (repository / "new.py").write_text("depth = 3\n")

    def state():
        files = sorted((p, p.stat().st_mtime_ns) for p in (repository / ".git").rglob("*") if p.is_file())
        return files, git(repository, "--no-optional-locks", "status", "--porcelain")

    before = state()
    read(repository)

    assert before == state()


def test_outputs_of_earlier_runs_are_no_source(repository):
    """What a run leaves behind does not make the next one differ."""
    before = read(repository)
    for name in ("runs/a/rank-00000.h5", "model.pt", "metrics.json", "wandb/run/code/train.py", "outputs/1/cfg.py"):
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text("x")
    venv = repository / "env"
    (venv / "lib").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text("")
    (venv / "lib" / "module.py").write_text("")

    assert before == read(repository)


def test_an_untracked_file_that_the_command_names_is_source(repository):
    """A new configuration file counts once the command names it."""
    (repository / "new.yaml").write_text("lr: 1\n")

    assert read(repository)[0]["uncommitted"] == "none"
    assert read(repository, "python", "train.py", "--config=new.yaml")[0]["uncommitted.files"] == "A new.yaml"


def test_no_secret_reaches_the_patch_nor_a_hash(repository):
    """A credential in a change is masked, the row says so, and two secrets give one hash."""
    found = []
    for secret in ("hunter-one", "hunter-two"):
        (repository / "train.py").write_text(f'lr = 0.1\nAPI_KEY = "{secret}"\n')
        found.append(read(repository))

    (rows, patch), other = found
    assert b"hunter" not in patch
    assert not any("hunter" in value for value in rows.values())
    assert rows["uncommitted.masked"] == "1 lines; the patch still applies"
    assert "tree" not in rows
    assert other == (rows, patch)
    git(repository, "checkout", "-q", "train.py")
    subprocess.run(["git", "apply"], cwd=repository, input=patch, check=True)
    assert (repository / "train.py").read_text() == 'lr = 0.1\nAPI_KEY = "masked"\n'


def test_a_repository_without_a_commit_has_a_patch_of_everything(tmp_path, monkeypatch):
    """Before the first commit all files are changes."""
    for name, value in CONFIGURATION.items():
        monkeypatch.setenv(name, value)
    git(tmp_path, "init", "-q")
    (tmp_path / "train.py").write_text("lr = 0.1\n")

    rows, patch = read(tmp_path)

    assert (rows["commit"], rows["uncommitted.files"]) == ("none", "A train.py")
    assert b"+lr = 0.1" in patch


@pytest.mark.parametrize("command", [("python", "train.py"), ("torchrun", "--nproc-per-node=2", "train.py", "--x")])
def test_without_a_repository_the_script_is_hashed(tmp_path, monkeypatch, command):
    """No git is no trouble: the layer says so and the script's content stands for the source."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / "train.py").write_text("lr = 0.1\n")

    rows, patch = read(tmp_path, *command)

    assert (rows["repository"], patch) == ("none", None)
    assert rows["file:train.py"].startswith("xxh3:")


def test_without_git_the_layer_says_so(repository, monkeypatch):
    """A machine without git records the script."""
    monkeypatch.setenv("PATH", "")

    rows, patch = read(repository)

    assert (rows["repository"], patch) == ("none", None)
    assert "file:train.py" in rows


def test_a_module_named_by_minus_m_is_found(tmp_path):
    """``python -m pkg.train`` names a file too."""
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "train.py").write_text("")

    assert tmp_path / "pkg" / "train.py" == source.script_of(tmp_path, ["python", "-m", "pkg.train"])


def test_git_that_hangs_is_given_up(repository, monkeypatch, tmp_path):
    """A slow repository costs a bounded time, and two such runs are not called equal."""
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "git").write_text(f"#!{sys.executable}\nimport time\ntime.sleep(60)\n")
    (fake / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake}:{os.environ['PATH']}")
    monkeypatch.setattr(git_runner, "SECONDS", 0.2)

    rows, patch = read(repository)

    assert rows["repository"].startswith("not read: git rev-parse took longer")
    assert patch is None


def test_a_directory_that_is_gone_is_no_trouble(tmp_path):
    """Nothing that is wrong with a directory stops a recording."""
    rows, patch = read(tmp_path / "gone")

    assert patch is None
    assert "repository" in rows
