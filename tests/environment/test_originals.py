"""What a run keeps of its source, and which modules of a script are found without running it."""

import pytest

from bisect_diverge.environment.hashing import hash_file
from bisect_diverge.environment.local import local_files
from bisect_diverge.environment.originals import keep_originals, original
from bisect_diverge.environment.read import read_outside
from tests.helpers.repositories import write


def found(folder, script="train.py"):
    """Return the names of a script's own files."""
    return sorted(str(path.relative_to(folder)) for path in local_files(folder / script, folder))


def test_own_modules_are_followed(tmp_path):
    """Through packages, relative imports and circles; what is installed, missing or broken is left out."""
    write(tmp_path, train="import numpy, pkg.a.b as b\nfrom pkg import c\nimport gone\n", stray="")
    write(tmp_path, pkg__c="from .a import b\nfrom .. import nothing\nimport train\n", broken="def (")
    write(tmp_path, **{"pkg/__init__.py": "", "pkg/a/__init__.py": "", "pkg/a/b.py": "def f():\n    import broken\n"})
    names = ["broken.py", "pkg/__init__.py", "pkg/a/__init__.py", "pkg/a/b.py", "pkg/c.py", "train.py"]
    assert found(tmp_path) == names


def test_a_script_in_a_folder_finds_what_lies_beside_it(tmp_path):
    """Its own folder comes first, as on ``sys.path``."""
    write(tmp_path, sub__train="import net\n", sub__net="", net="")
    assert found(tmp_path, "sub/train.py") == ["sub/net.py", "sub/train.py"]


@pytest.mark.parametrize(("body", "is_kept"), [("X = 1\n", True), ('API_KEY = "hunter-two"\n', False)])
def test_copies_are_kept_but_no_credentials(tmp_path, monkeypatch, body, is_kept):
    """Under their hashes; without a copy the file itself does while it is as it was."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    write(tmp_path, train=body)
    settings, patch = read_outside(tmp_path, ("python", "train.py"))
    run = tmp_path / "run"
    run.mkdir()
    keep_originals(run, tmp_path, settings, patch, copies=False)
    assert list(run.iterdir()) == []
    keep_originals(run, tmp_path, settings, patch)
    value = hash_file(tmp_path / "train.py")
    copies = [path.read_text() for path in run.rglob("*") if path.is_file()]
    assert copies == ([body] if is_kept else [])
    assert original(str(run), value, tmp_path / "train.py") is not None
    write(tmp_path, train="Y = 2\n")
    assert (original(str(run), value, tmp_path / "train.py") is not None) is is_kept


def test_a_script_outside_of_the_working_directory_is_named_by_its_path(tmp_path, monkeypatch):
    """With the modules beside it; a script that was given by its whole path keeps that."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    write(tmp_path, code__train="import net\n", code__net="")
    (tmp_path / "here").mkdir()
    for word, folder in (("../code/train.py", "../code"), (f"{tmp_path}/code/train.py", f"{tmp_path}/code")):
        settings, _ = read_outside(tmp_path / "here", ("python", word))
        names = [row.knob for row in settings if row.knob.startswith("file:")]
        assert names == [f"file:{folder}/train.py", f"file:{folder}/net.py"]
