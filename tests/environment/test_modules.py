"""Which loaded code is seen, how it is named, and what is kept of it."""

import ctypes
import sys
from pathlib import Path
from types import ModuleType

import pytest

from bisect_diverge.environment import modules
from bisect_diverge.environment.hashing import hash_bytes
from bisect_diverge.environment.inputs import kept
from bisect_diverge.environment.knobs import setting
from bisect_diverge.environment.modules import keep_modules, project_of, read_modules
from bisect_diverge.environment.read import read_outside
from bisect_diverge.model.environment import Layer
from tests.helpers.repositories import CONFIGURATION, commit, git, write


@pytest.fixture
def load(monkeypatch):
    """Return a function that makes a module of a file, as if it had been imported."""

    def load(path, text="x = 1\n"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        module = ModuleType(path.stem)
        module.__file__ = str(path)
        monkeypatch.setitem(sys.modules, f"{path.parent.name}_{path.stem}", module)
        return path

    return load


def own(knobs, folder):
    """Return the knobs but those of files outside a folder: of these tests, and what others have imported before."""
    return {knob for knob in knobs if not knob.startswith("module:/") or str(folder) in knob}


def test_loaded_modules_are_hashed_wherever_they_lie(tmp_path, load, monkeypatch):
    """Below the working directory and in its repository by their place in it, elsewhere by their path."""
    monkeypatch.setattr(modules, "_main_file", "")
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    load(project / "sub" / "pkg" / "ours.py")
    load(project / "lib" / "near.py")
    load(project / "outputs" / "made.py")
    away = load(tmp_path / "away" / "far.py")
    load(project / "sub" / ".venv" / "lib" / "site-packages" / "theirs.py")
    load(tmp_path / "torchinductor_me" / "made.py")
    text = tmp_path / "config.py"
    text.write_text("S = 1\n")
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "extensions"))
    load(tmp_path / "extensions" / "kit" / "kit.so")

    found = {s.knob: s.value for s in read_modules(project / "sub", [str(text)])}

    wanted = {"module:pkg/ours.py", "module:../lib/near.py", "module:../outputs/made.py", f"module:{away}"}
    assert wanted | {f"module:{text}", "extension:kit/kit.so", "modules"} == own(found, tmp_path)
    assert found[f"module:{text}"] == hash_bytes(b"S = 1\n")


def test_a_library_that_is_mapped_is_code(tmp_path):
    """One that ctypes has opened is no module; those of the system and of packages are left out."""
    path = tmp_path / "libown.so"
    lines = Path("/proc/self/maps").read_text().splitlines()
    source = next(line.split()[-1] for line in lines if "/libm.so" in line or "/libc.so" in line)
    path.write_bytes(Path(source).read_bytes())
    ctypes.CDLL(str(path))

    found = {s.knob for s in read_modules(tmp_path) if "libown" in s.knob or source in s.knob}

    assert found == {"module:libown.so"}


def test_a_project_begins_where_its_repository_does(tmp_path):
    """Without one it is the folder itself."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert project_of(str(tmp_path / "a" / "b")) == str(tmp_path / "a" / "b")
    (tmp_path / "a" / ".git").touch()
    assert project_of(str(tmp_path / "a" / "b")) == str(tmp_path / "a")


def test_what_no_commit_has_is_kept(tmp_path, monkeypatch):
    """Ignored files, those elsewhere and in submodules; not what git has, what has changed, what holds a credential."""
    for name, value in CONFIGURATION.items():
        monkeypatch.setenv(name, value)
    folder, run = tmp_path / "project", tmp_path / "run"
    run.mkdir()
    commit(tmp_path / "library", kit="K = 1\n")
    commit(folder, train="import net\n", **{".gitignore": "made.py\nsecret.py\nmoved.py\n"})
    git(folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "library"), "lib")
    commit(folder)
    write(folder, new="", made="M = 1\n", secret='API_KEY = "hunter-two"\n', moved="now\n")
    (tmp_path / "away.py").write_text("A = 1\n")
    texts = {"train.py": "import net\n", "new.py": "", "made.py": "M = 1\n", "moved.py": "then\n"}
    texts |= {
        "lib/kit.py": "K = 1\n",
        "secret.py": (folder / "secret.py").read_text(),
        str(tmp_path / "away.py"): "A = 1\n",
    }
    outside, _ = read_outside(folder, ("python", "train.py"))
    values = {name: hash_bytes(text.encode()) for name, text in texts.items()}
    loaded = [setting(Layer.SOURCE, f"module:{name}", value, resolved=True) for name, value in values.items()]

    keep_modules(run, folder, (*outside, *loaded))

    found = {name for name, value in values.items() if kept(str(run), value)}
    assert found == {"made.py", "lib/kit.py", str(tmp_path / "away.py")}
