"""Packages that move together, that B lacks, and their releases; the interpreter and the container image."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from bisect_diverge.environment.runtime import INHERITED
from bisect_diverge.errors import ReplayError
from bisect_diverge.model.environment import Environment, Layer, Setting
from bisect_diverge.model.run import RunRecord
from bisect_diverge.model.trial import Unit
from bisect_diverge.record.divert import VIEW
from bisect_diverge.trial import package_units, packages, releases
from bisect_diverge.trial.configuration import launch
from bisect_diverge.trial.draft import Sides
from bisect_diverge.trial.packages import CannotBuildError, versions, without
from bisect_diverge.trial.parts import parts_of
from bisect_diverge.trial.units import units_of
from tests.helpers.command import REPOSITORY
from tests.helpers.wheels import unpacked

VERSION = ".".join(map(str, sys.version_info[:3]))


def record(folder, path="", python=sys.executable, command=None, runtime=None, **packages):
    """Return the record of a run with some packages, directories on ``PYTHONPATH``, and an interpreter."""
    rows = [Setting(layer=Layer.DEPENDENCIES, knob=k, value=v, resolved=False) for k, v in packages.items()]
    if path:
        rows.append(Setting(layer=Layer.DEPENDENCIES, knob="PYTHONPATH", value=str(path), resolved=False))
    known = {"python.executable": str(python), "python.version": VERSION, **(runtime or {})}
    rows += [Setting(layer=Layer.RUNTIME, knob=k, value=v, resolved=False) for k, v in known.items()]
    words = command or (str(python), "train.py")
    return RunRecord(command=words, argv=words[1:], cwd=str(folder), environment=Environment(tuple(rows)))


def started(a, b, units, tmp_path, **sides):
    """Return what a trial would start, its view of the file system, and its ``PYTHONPATH`` without ours."""
    folder = tmp_path / "trials" / str(len(list(tmp_path.glob("trials/*"))))
    folder.mkdir(parents=True)
    made = launch(Sides(a=a, b=b, last_step=1, **sides), units, folder)
    view = json.loads((folder / VIEW).read_text())
    return made, view, made.environment["PYTHONPATH"].split(os.pathsep)[1:]


@pytest.fixture
def tied(tmp_path):
    """Two folders: in each a kit that requires its own gear, and a lone package; the gear of B brings a belt."""
    for name, version in (("old", "1.0"), ("new", "2.0")):
        folder = tmp_path / name
        needs = [f"gear=={version}"]
        unpacked(folder, "kit", version, f"version = {version!r}", needs)
        unpacked(folder, "gear", version, "", ["belt"] if version == "2.0" else ['belt; extra == "all"'])
        unpacked(folder, "lone", version, "", ["kit>=0.5"])
    unpacked(tmp_path / "new", "belt", "3.0")
    a = record(tmp_path, tmp_path / "old", kit="1.0", gear="1.0", lone="1.0")
    b = record(tmp_path, tmp_path / "new", kit="2.0", gear="2.0", lone="2.0", belt="3.0")
    return a, b


def test_packages_of_which_a_mixture_is_broken_are_one_unit(tied, tmp_path):
    """Tied by what they require, directly or through another; one whose requirement allows both stays alone."""
    a, b = tied
    units = {unit.knob: unit for unit in units_of(a, b).units}
    assert set(units) == {"gear+belt+kit", "lone"}
    group = units["gear+belt+kit"]
    assert (group.a, group.b) == ("1.0, none, 1.0", "2.0, 3.0, 2.0")
    _, _, path = started(a, b, [group], tmp_path)
    assert versions(path[0]) == {"kit": "2.0", "gear": "2.0", "belt": "3.0"}
    assert path[1:] == [str(tmp_path / "old")]
    _, _, path = started(b, a, units_of(b, a).units[:1], tmp_path)
    assert versions(path[0]) == {"kit": "1.0", "gear": "1.0"}
    assert "belt" not in versions(path[1])
    assert versions(path[1])["lone"] == "2.0"


def test_a_package_is_taken_out_by_linking_the_rest(tmp_path):
    """Files of two packages in one folder are told apart by their lists."""
    site = unpacked(tmp_path / "site", "kit", "1.0", "")
    unpacked(site, "gear", "1.0")
    (site / "kit" / "shared.py").write_text("")
    (site / "plain.py").write_text("")
    (tmp_path / "links").mkdir()
    made = Path(without(["kit"], str(site), tmp_path / "links"))
    assert versions(str(made)) == {"gear": "1.0"}
    assert sorted(str(p.relative_to(made)) for p in made.rglob("*.py")) == ["kit/shared.py", "plain.py"]
    assert (made / "gear" / "__init__.py").exists()
    (site / "kit-1.0.dist-info" / "RECORD").unlink()
    with pytest.raises(CannotBuildError, match="which files kit"):
        without(["kit"], str(site), tmp_path / "links")


@pytest.fixture(scope="module")
def environments(tmp_path_factory):
    """Two virtual environments: kit 1.0 and gear in the first, kit 2.0 in the second."""
    folder = tmp_path_factory.mktemp("environments")
    found = []
    for name, version in (("one", "1.0"), ("two", "2.0")):
        venv.create(folder / name, symlinks=True)
        site = next((folder / name / "lib").glob("python*")) / "site-packages"
        unpacked(site, "kit", version, f"version = {version!r}")
        (site / "recorder.pth").write_text(str(REPOSITORY))
        found.append((folder / name / "bin" / "python", site))
    unpacked(found[0][1], "gear", "1.0")
    return found


def test_an_interpreter_is_moved_apart_from_its_packages(environments, tmp_path):
    """B's interpreter finds A's packages; A's interpreter finds B's where they lie; what B lacks is not found."""
    (one, site_one), (two, _) = environments
    a, b = record(tmp_path, python=one, kit="1.0", gear="1.0"), record(tmp_path, python=two, kit="2.0")
    units = {unit.knob: unit for unit in units_of(a, b).units}
    assert set(units) == {"python.executable", "kit", "gear"}
    wanted = {
        (): (one, "1.0", True),
        ("python.executable",): (two, "1.0", True),
        ("kit",): (one, "2.0", True),
        ("gear",): (one, "1.0", False),
        ("python.executable", "kit"): (two, "2.0", True),
        ("python.executable", "gear"): (two, "1.0", False),
        tuple(units): (two, "2.0", False),
    }
    code = (
        "import sys, kit; from importlib.util import find_spec; print(sys.executable, kit.version, find_spec('gear'))"
    )
    for names, (program, version, has_gear) in wanted.items():
        made, view, _ = started(a, b, [units[name] for name in names], tmp_path)
        assert made.command[0] == str(program)
        assert (view["sites"] != {}) is (names == ("gear",))
        words = [made.command[0], "-c", code]
        done = subprocess.run(words, env=made.environment, capture_output=True, text=True, check=True).stdout.split()
        assert done[:2] == [str(program), version], names
        assert (done[2] != "None") is has_gear, names
    assert versions(str(site_one)) == {"kit": "1.0", "gear": "1.0"}


def test_what_was_installed_over_since_is_put_back(environments, tmp_path, monkeypatch):
    """One environment, upgraded between the runs: A has its own versions again, B what is there."""
    (one, site), _ = environments
    old = unpacked(tmp_path / "old", "kit", "0.5", "version = '0.5'")
    built = []

    def build(name, version, _program):
        built.append(f"{name} {version}")
        if name == "lost":
            raise CannotBuildError("no such version")
        return str(old)

    monkeypatch.setattr("bisect_diverge.trial.swap_package.build", build)
    a = record(tmp_path, python=one, kit="0.5", lost="1.0")
    b = record(tmp_path, python=one, kit="1.0", gear="1.0")
    units = {unit.knob: unit for unit in units_of(a, b).units}
    _, view, path = started(a, b, [], tmp_path)
    assert path == [str(old)]
    assert built[:2] == ["kit 0.5", "lost 1.0"] or built[:2] == ["lost 1.0", "kit 0.5"]
    assert versions(view["sites"][str(site)]) == {"kit": "1.0"}
    _, view, path = started(a, b, [units["kit"], units["gear"]], tmp_path)
    assert versions(path[0]) == {"kit": "1.0", "gear": "1.0"}
    assert view["sites"] == {}


def test_the_interpreter_is_that_of_the_run(environments, tmp_path, monkeypatch):
    """``python`` is what it was then, whatever it leads to now; a console script is the one beside B's interpreter."""
    (one, _), (two, _) = environments
    (two.parent / "launcher").write_text("#!/bin/sh\n")
    (two.parent / "launcher").chmod(0o755)
    monkeypatch.setenv("PATH", str(two.parent), prepend=os.pathsep)
    a = record(tmp_path, python=one, command=("python", "train.py"))
    b = record(tmp_path, python=two, command=("python", "train.py"))
    assert started(a, a, [], tmp_path)[0].command[0] == str(one)
    assert started(b, b, [], tmp_path)[0].command[0] == "python"
    a, b = (r.with_(command=("launcher", "train.py")) for r in (a, b))
    made, _, _ = started(a, b, units_of(a, b).units, tmp_path)
    assert made.command[0] == str(two.parent / "launcher")
    assert made.environment["VIRTUAL_ENV"] == str(two.parents[1])


@pytest.mark.parametrize(
    ("runtime", "python", "reason"),
    [
        ({}, "/gone/bin/python", "the interpreter of B is not on this machine: /gone/bin/python"),
        ({"python.version": "3.1.0"}, None, "the interpreter of B is another now"),
    ],
)
def test_an_interpreter_that_is_gone_is_untestable(environments, tmp_path, runtime, python, reason):
    """With the reason; the packages are then moved one by one, built for A's."""
    (one, _), (two, _) = environments
    a = record(tmp_path, python=one, kit="1.0")
    b = record(tmp_path, python=python or two, runtime=runtime, kit="2.0")
    found = units_of(a, b)
    assert [unit.knob for unit in found.units] == ["kit"]
    assert [row.reason.partition(reason)[:2] for row in found.untestable] == [("", reason)]


def test_another_version_of_python_takes_its_packages_along(environments, tmp_path, monkeypatch):
    """Compiled packages of one do not run in another: one unit, and no overlay."""
    (one, _), (two, _) = environments
    monkeypatch.setattr("bisect_diverge.trial.units.why_not_interpreter", lambda _a, _b: "")
    a = record(tmp_path, python=one, kit="1.0")
    b = record(tmp_path, python=two, runtime={"python.version": "2.7.18"}, kit="2.0")
    (unit,) = units_of(a, b).units
    assert unit.knob == "python.executable"
    assert started(a, b, [unit], tmp_path)[0].command[0] == str(two)


def test_releases_are_steps_and_the_last_one_counts(tmp_path, monkeypatch):
    """From A's version to B's, up or down, as the index lists them; pre-releases are left out."""
    monkeypatch.setattr(releases, "listed", lambda _name, _program: ("1.10", "1.9", "2.0rc1", "1.2", "1.1", "0.9"))
    for version in ("1.1", "1.9"):
        unpacked(tmp_path / version, "kit", version)
    monkeypatch.setattr("bisect_diverge.trial.swap_package.build", lambda _n, version, _p: str(tmp_path / version))
    a, b = record(tmp_path, kit="1.1"), record(tmp_path, kit="1.10")
    (unit,) = units_of(a, b).units
    steps = parts_of(a, b, unit)
    assert [(step.a, step.b) for step in steps] == [("1.1", "1.2"), ("1.2", "1.9"), ("1.9", "1.10")]
    assert {step.knob for step in steps} == {"kit"}
    assert parts_of(a, b, steps[0]) == ()
    assert started(a, b, steps[:2], tmp_path)[2] == [str(tmp_path / "1.9")]
    back = parts_of(b, a, units_of(b, a).units[0])
    assert [step.b for step in back] == ["1.9", "1.2", "1.1"]
    assert started(b, a, back, tmp_path)[2] == [str(tmp_path / "1.1")]


def test_releases_of_packages_that_move_together(tied, tmp_path, monkeypatch):
    """Each release of the one that requires the others, with what it requires; one that cannot be had is left out."""
    a, b = tied
    known = {"kit": ("2.0", "1.9", "1.5", "1.2", "1.0"), "gear": ("2.0", "1.9", "1.5", "1.0"), "belt": ("3.0", "2.5")}
    monkeypatch.setattr(releases, "listed", lambda name, _program: known[name])
    monkeypatch.setattr(package_units, "listed", lambda name, _program: known[name])

    def build(name, version, _program):
        if version == "1.9":
            raise CannotBuildError("no")
        return str(unpacked(tmp_path / f"{name}-{version}", name, version, "", [f"gear=={version}"]))

    monkeypatch.setattr(package_units, "build", build)
    group = next(unit for unit in units_of(a, b).units if "+" in unit.knob)
    assert group.knob == "gear+belt+kit"
    steps = parts_of(a, b, group)
    assert [step.b for step in steps] == ["1.5, none, 1.5", "2.0, 3.0, 2.0"]
    assert steps[0].a == group.a
    assert {step.knob for step in steps} == {group.knob}
    assert parts_of(a, b, steps[0]) == ()
    monkeypatch.setattr("bisect_diverge.trial.swap_package.build", lambda n, v, _p: str(tmp_path / f"{n}-{v}"))
    unpacked(tmp_path / "gear-1.5", "gear", "1.5")
    path = started(a, b, [steps[0]], tmp_path)[2]
    assert {**versions(path[0]), **versions(path[1])} == {"kit": "1.5", "gear": "1.5"}


def test_without_an_index_the_releases_are_not_known(tmp_path, monkeypatch):
    """That is said, with pip's own words."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ReplayError, match="the releases of no-such-kit between the two are not known: No matching"):
        releases.listed("no-such-kit", sys.executable)


@pytest.mark.parametrize(
    ("layer", "name", "value"),
    [
        ("runtime", "GLIBC_TUNABLES", "glibc.cpu.hwcaps=-FMA"),
        ("runtime", "LC_ALL", "C"),
        ("runtime", "TZ", "Asia/Tokyo"),
        ("dependencies", "LD_PRELOAD", "/usr/lib/libjemalloc.so"),
    ],
)
def test_variables_of_the_runtime_are_moved_as_variables(tmp_path, layer, name, value):
    """Set for a trial that has them, and for no other."""
    a = record(tmp_path)
    row = Setting(layer=Layer(layer), knob=name, value=value, resolved=False)
    (unit,) = units_of(a, b := a.with_(environment=a.environment.merged((row,)))).units
    assert started(a, b, [unit], tmp_path)[0].environment[name] == value
    assert name not in started(a, b, [], tmp_path)[0].environment


def test_the_search_path_is_a_unit_of_its_own(tmp_path):
    """Other folders, or the same in another order; folders with packages that differ stay with these."""
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
    old, new = (unpacked(tmp_path / version, "kit", version) for version in ("1.0", "2.0"))
    one, two, three = (str(tmp_path / name) for name in ("one", "two", "three"))
    kits = {"kit": "1.0"}, {"kit": "2.0"}
    for of_a, of_b, wanted, packages_of in (
        ([one, two], [two, one], [two, one], ({}, {})),
        ([one], [two], [two], ({}, {})),
        ([one, three], [two, three], [two, three], ({}, {})),
        ([one, str(old)], [str(new), two], [str(old), two], kits),
    ):
        a, b = (
            record(tmp_path, os.pathsep.join(path), **kit) for path, kit in zip((of_a, of_b), packages_of, strict=True)
        )
        units = {unit.knob: unit for unit in units_of(a, b).units}
        assert set(units) == {"PYTHONPATH", *packages_of[0]}
        assert started(a, b, [units["PYTHONPATH"]], tmp_path)[2] == wanted
        assert started(a, b, [], tmp_path)[2] == of_a
    assert started(a, b, [units["PYTHONPATH"], units["kit"]], tmp_path)[2] == [str(new), two]


def test_masks_and_limits_are_those_of_the_run(tmp_path):
    """A trial has A's, or B's where it is swapped; a limit above the hard one cannot be set."""
    mask = next(knob.read() for knob in INHERITED if knob.name == "umask")
    a, b = (
        record(tmp_path, runtime={"umask": mask, "limit.nofile": str(files), "limit.stack": "100"})
        for files in (60, 50)
    )
    unit = Unit(layer=Layer.RUNTIME, knob="limit.nofile", a="60", b="50")
    assert started(a, b, [], tmp_path)[0].inherited == {"nofile": 60, "stack": 100}
    assert started(a, b, [unit], tmp_path)[0].inherited == {"nofile": 50, "stack": 100}
    by_hand = Unit(layer=Layer.RUNTIME, knob="umask", a=None, b="0077")
    assert started(a, b, [by_hand], tmp_path)[0].inherited["umask"] == 0o77
    for knob, value, said in (("limit.nofile", "9" * 17, "hard limit"), ("umask", "rw", "a mask such as 0022")):
        with pytest.raises(CannotBuildError, match=said):
            started(a, b, [Unit(layer=Layer.RUNTIME, knob=knob, a=None, b=value)], tmp_path)


def test_an_image_is_a_prefix_of_the_command(tmp_path):
    """With a command that starts one; without, the unit is listed with what to do."""
    a, b = (record(tmp_path, runtime={"CONTAINER_IMAGE": name}) for name in ("old:1", "new:2"))
    (row,) = units_of(a, b).untestable
    assert (row.unit.knob, row.unit.a, row.unit.b) == ("image", "old:1", "new:2")
    assert "--image-cmd" in row.reason
    (unit,) = units_of(a, b, "run --bind '/my data' {image} --").units
    for units, name in (([], "old:1"), ([unit], "new:2")):
        made, _, _ = started(a, b, units, tmp_path, image_cmd="run --bind '/my data' {image} --")
        assert made.command[:5] == ("run", "--bind", "/my data", name, "--")
    assert units_of(a, record(tmp_path), "run {image}").untestable[0].reason.startswith("only one of the two")


def installed_from(site, origin):
    """Say from where the package in a folder was installed; return its version as it is recorded."""
    (site / "kit-1.0.dist-info" / "direct_url.json").write_text(json.dumps({"url": "file:///x", **origin}))
    return versions(str(site))["kit"]


def test_a_package_that_is_edited_in_place_is_moved_as_source(tmp_path):
    """Its files lie where its author works: they cannot be hidden, and another version is another content."""
    site = unpacked(tmp_path / "site", "kit", "1.0")
    edited = installed_from(site, {"dir_info": {"editable": True}})
    assert edited == "1.0 (edited in place)"
    a, b = record(tmp_path, site, kit=edited), record(tmp_path, site)
    (row,) = units_of(a, b).untestable
    assert row.unit == Unit(layer=Layer.DEPENDENCIES, knob="kit", a=edited, b=None)
    assert "installed to be edited: its files cannot be hidden" in row.reason
    (row,) = units_of(a, record(tmp_path, site, kit="2.0 (edited in place)")).untestable
    assert "as source" in row.reason


@pytest.mark.parametrize(
    ("origin", "said", "wanted"),
    [
        ({"dir_info": {}}, "1.0 (from a folder)", None),
        ({"archive_info": {}}, "1.0 (from a folder)", None),
        (
            {"archive_info": {}, "url": "https://x.org/kit.whl"},
            "1.0 (https://x.org/kit.whl)",
            "kit @ https://x.org/kit.whl",
        ),
        (
            {"vcs_info": {"vcs": "git", "commit_id": "abc"}, "url": "https://x.org/kit"},
            "1.0 (git+https://x.org/kit@abc)",
            "kit @ git+https://x.org/kit@abc",
        ),
    ],
)
def test_a_package_of_no_index_is_never_asked_of_one(tmp_path, monkeypatch, origin, said, wanted):
    """Another package may bear its name there: it is built from where it came, or used where it lies."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    asked = []
    done = subprocess.CompletedProcess([], 1, "", "no")
    monkeypatch.setattr(packages.subprocess, "run", lambda words, **_: asked.append(words[-1]) or done)
    place = unpacked(tmp_path / "place", "kit", "1.0")
    value = installed_from(place, origin)
    assert value == said
    with pytest.raises(CannotBuildError, match=r"cannot be installed here|was not installed from an index"):
        packages.build("kit", value, sys.executable)
    assert set(asked) == ({wanted} if wanted else set())
    monkeypatch.undo()
    a, b = record(tmp_path, kit="0.9"), record(tmp_path, place, kit=value)
    assert [unit.knob for unit in units_of(a, b).units] == ["kit"]
    assert started(a, b, units_of(a, b).units, tmp_path)[2] == [str(place)]
    reasons = [row.reason for row in units_of(a, record(tmp_path, kit=value)).untestable]
    assert ["not on this machine any more" in reason for reason in reasons] == ([] if wanted else [True])


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (("/x/python: No module named uv", "/x/python: No module named pip"), "neither uv nor pip is there"),
        (("error: no answer\n  cause: a\n  cause: refused", "ERROR: b"), "no answer: refused"),
        (("/x/python: No module named uv", "WARNING: c\nERROR: No matching distribution for kit==2.0"), "No matching"),
        (("", ""), "status 1"),
    ],
)
def test_what_cannot_be_installed_is_said_in_the_installers_words(tmp_path, monkeypatch, answers, said):
    """Of the first that is there, and answers."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    left = list(answers)
    monkeypatch.setattr(
        packages.subprocess, "run", lambda words, **_: subprocess.CompletedProcess(words, 1, "", left.pop(0))
    )
    with pytest.raises(CannotBuildError, match=f"kit 2.0 cannot be installed here: .*{said}"):
        packages.build("kit", "2.0", sys.executable)
