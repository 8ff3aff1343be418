"""One planted change in each layer of what a run is made of: found by ``bd bisect``, and proved both ways."""

import shutil
import sys
import venv

import pytest

from bisect_diverge.environment.hashing import hash_bytes
from bisect_diverge.environment.inputs import kept
from tests.helpers.command import REPOSITORY, bd
from tests.helpers.repositories import commit, everything, write
from tests.helpers.searches import only_cause, record
from tests.helpers.wheels import index_variables, unpacked, wheel

TRAIN = """
import os, sys
from pathlib import Path
import torch
import net
scale = net.SCALE * float(os.environ.get("IN_IMAGE", 1)) * (1.5 if (Path(sys.prefix) / "other").exists() else 1.0)
try:
    import kit
    scale *= kit.SCALE
except ImportError:
    pass
torch.manual_seed(0)
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    loss = (model(net.prepared(torch.ones(2, 8))) * scale).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
NET = "from norm import MEAN\nSCALE = 1.0\ndef prepared(batch):\n    return batch - MEAN\n"
NORM = "MEAN = 0.25\n"


@pytest.fixture
def project(tmp_path):
    """A repository with a training script and two modules."""
    commit(tmp_path / "project", train=TRAIN, net=NET, norm=NORM, **{".gitignore": "runs/\n"})
    return tmp_path / "project"


@pytest.mark.slow
def test_an_edited_file_is_found_and_nothing_of_the_users_is_touched(project):
    """B's change is put back and laid on again, although the files are no longer those of either.

    A module that git ignores is kept, for no commit has it; one that it has is not.
    """
    commit(project, net=f"import made\n{NET}", **{".gitignore": "runs/\nmade.py\n"})
    write(project, made="M = 1\n")
    record(project, "a")
    write(project, net=f"import made\n{NET}".replace("1.0", "2.0"))
    record(project, "b")
    assert [kept(str(project / "runs" / "a"), hash_bytes(t.encode())) is not None for t in ("M = 1\n", NORM)] == [
        True,
        False,
    ]
    write(project, train="raise SystemExit('moved on')\n")
    shutil.move(project / "runs", project.parent / "runs")
    before = everything(project)
    (project / "runs").symlink_to(project.parent / "runs")
    (unit,) = only_cause(project)
    (project / "runs").unlink()
    assert unit.startswith("source.uncommitted: ")
    assert everything(project) == before


@pytest.mark.matrix
def test_a_commit_among_many_and_its_file(project):
    """Six commits, an uncommitted change on top: the third is to blame, and of its files one."""
    record(project, "a")
    for number in range(6):
        extra = {"net": NET.replace("1.0", "2.0")} if number >= 2 else {}
        commit(project, norm=f"{NORM}# {number}\n", other=f"# {number}\n", **extra)
    write(project, norm=f"{NORM}# uncommitted\n")
    record(project, "b")
    before = everything(project)
    (unit,) = only_cause(project)
    assert unit.startswith("source.file:net.py: ")
    after = everything(project)
    assert {n: v for n, v in after.items() if not n.startswith("runs/")} == {
        n: v for n, v in before.items() if not n.startswith("runs/")
    }


@pytest.mark.matrix
def test_a_commit_of_one_file(project):
    """A step of a range is named by its two commits where it holds one file."""
    record(project, "a")
    names = [commit(project, norm=f"MEAN = {mean}\n")[:12] for mean in ("0.250", "0.5", "0.50", "0.500")]
    record(project, "b")
    assert only_cause(project) == [f"source.commit: {names[0]} -> {names[1]}"]


@pytest.mark.matrix
def test_a_file_outside_of_any_repository(project):
    """By the contents that the runs kept."""
    shutil.rmtree(project / ".git")
    record(project, "a", GIT_CEILING_DIRECTORIES=str(project.parent))
    write(project, net=NET.replace("1.0", "2.0"), norm=f"{NORM}# the same\n")
    record(project, "b", GIT_CEILING_DIRECTORIES=str(project.parent))
    write(project, train="raise SystemExit('moved on')\n", net="")
    (unit,) = only_cause(project, GIT_CEILING_DIRECTORIES=str(project.parent))
    assert unit.startswith("source.file:net.py: ")


@pytest.mark.matrix
def test_a_feature_file(project):
    """Declared with ``--features``: the rest of the commit is innocent."""
    record(project, "a", "--features", "norm.py")
    commit(project, norm="MEAN = 0.5\n", net=f"{NET}# the same\n")
    record(project, "b", "--features", "norm.py")
    (unit,) = only_cause(project)
    assert unit.startswith("features.file:norm.py: ")


@pytest.mark.matrix
def test_a_release_between_two_versions(project, tmp_path):
    """The package, then the release in which it changed, built from an index."""
    scales = {"1.0": 1, "1.1": 1, "1.2": 2, "1.3": 2}
    for version, scale in scales.items():
        wheel(tmp_path / "wheels", "kit", version, f"SCALE = {scale}\n")
    places = [unpacked(tmp_path / v, "kit", v, f"SCALE = {scales[v]}\n") for v in ("1.0", "1.3")]
    for name, place in zip("ab", places, strict=True):
        record(project, name, PYTHONPATH=str(place))
    index = index_variables(tmp_path / "wheels")
    assert only_cause(project, XDG_CACHE_HOME=str(tmp_path), **index) == ["dependencies.kit: 1.1 -> 1.2"]


@pytest.mark.matrix
def test_a_package_that_b_lacks(project, tmp_path):
    """It is not found in the trial, although it lies there."""
    record(project, "a", PYTHONPATH=str(unpacked(tmp_path / "kit", "kit", "1.0", "SCALE = 2\n")))
    record(project, "b")
    assert only_cause(project) == ["dependencies.kit: 1.0 -> None"]


@pytest.fixture
def interpreters(tmp_path):
    """Two virtual environments that share their packages: the second has a mark that the script looks for."""
    found = []
    for name in ("one", "two"):
        venv.create(tmp_path / name, symlinks=True)
        site = next((tmp_path / name / "lib").glob("python*")) / "site-packages"
        ours = [path for path in sys.path if path.endswith("-packages")]
        (site / "shared.pth").write_text("\n".join([*ours, str(REPOSITORY)]))
        found.append(str(tmp_path / name / "bin" / "python"))
    (tmp_path / "two" / "other").touch()
    return found


@pytest.mark.matrix
def test_an_interpreter(project, interpreters):
    """One virtual environment against another with the same packages."""
    for name, python in zip("ab", interpreters, strict=True):
        record(project, name, command=(python, "train.py"))
    assert only_cause(project) == [f"runtime.python.executable: {interpreters[0]} -> {interpreters[1]}"]


@pytest.mark.matrix
def test_a_container_image(project, tmp_path):
    """A script that sets what an image would stands for the program that starts one."""
    start = tmp_path / "start"
    start.write_text('#!/bin/sh\nexport CONTAINER_IMAGE="$1" IN_IMAGE="${1#*:}"; shift; exec "$@"\n')
    start.chmod(0o755)
    for name, image in (("a", "net:1"), ("b", "net:2")):
        record(project, name, CONTAINER_IMAGE=image, IN_IMAGE=image[-1])
    assert only_cause(project, "--image-cmd", f"{start} {{image}}") == ["runtime.image: net:1 -> net:2"]
    done = bd("bisect", "runs/a", "runs/b", "--image-cmd", "start", cwd=project, status=2)
    assert "say with {image} where the image stands" in done.stderr
