"""What an installation brings along, and what it leaves alone."""

import re
import shutil
import sys
import tomllib
import zipfile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.helpers.command import REPOSITORY, run

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


def direct():
    """Return every requirement of the package and of its extras."""
    extras = PROJECT["optional-dependencies"].values()
    return [Requirement(text) for text in [*PROJECT["dependencies"], *(t for extra in extras for t in extra)]]


def constraints():
    """Return name to requirement of the tested set."""
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    pinned = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(requirement.name): requirement for requirement in pinned}


def test_requirements_are_ranges():
    """Installing this pins nothing in the environment that someone trains in."""
    assert [str(r) for r in direct() if {s.operator for s in r.specifier} & {"==", "===", "~="}] == []


def test_torch_has_no_upper_bound():
    """Installing this never replaces a newer torch."""
    (torch,) = (r for r in direct() if r.name == "torch")
    assert {s.operator for s in torch.specifier} == {">="}


def test_every_requirement_is_in_the_tested_set():
    """constraints.txt pins one version of everything that is installed, and it fits pyproject.toml."""
    pinned = constraints()
    for requirement in direct():
        (specifier,) = pinned[canonicalize_name(requirement.name)].specifier
        assert specifier.operator == "=="
        assert requirement.specifier.contains(specifier.version)


def test_the_tested_set_names_no_build():
    """No pin has a build suffix (+cpu, +cu126), so that any index's build fits."""
    assert [str(r) for r in constraints().values() if re.search(r"\+", str(r.specifier))] == []


@pytest.mark.slow
def test_a_wheel_has_every_file(tmp_path):
    """A built wheel has every file of the package, data files and the bootstrap included."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, tmp_path)
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "bisect_diverge", tmp_path / "bisect_diverge", ignore=ignore)
    pip = [sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--no-index"]
    run(*pip, "--no-build-isolation", "--no-deps", "-w", "built", ".", cwd=tmp_path)
    (wheel,) = (tmp_path / "built").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    package = tmp_path / "bisect_diverge"
    files = {path.relative_to(tmp_path).as_posix() for path in package.rglob("*") if path.is_file()}
    assert files - packed == set()
    assert [name for name in packed if not name.startswith(("bisect_diverge/", "bisect_diverge-"))] == []
