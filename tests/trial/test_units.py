"""What is moved, what is not, and what a package takes with it."""

import os
from pathlib import Path

import pytest

from bisect_diverge.environment.apply import HELD, RULES, Way, rule_for
from bisect_diverge.environment.differences import differences
from bisect_diverge.model.environment import Environment, Layer, Setting
from bisect_diverge.model.run import RunRecord, Written
from bisect_diverge.model.trial import Unit
from bisect_diverge.trial.configuration import Sides, hidden, launch, missing_ranks
from bisect_diverge.trial.packages import CannotBuildError, find, only, versions
from bisect_diverge.trial.units import left_over, units_of


def record(*settings, command="python train.py", cwd="/", written=()):
    """Build a run record; a setting is ``layer:knob=value``, with a final ``!`` when it was read back."""
    rows = []
    for text in settings:
        name, _, value = text.partition("=")
        layer, _, knob = name.partition(":")
        rows.append(Setting(layer=Layer(layer), knob=knob, value=value.removesuffix("!"), resolved=value.endswith("!")))
    words = tuple(command.split())
    return RunRecord(
        command=words, argv=words[1:], cwd=str(cwd), environment=Environment(tuple(rows)), written=dict(written)
    )


def names(units):
    """Return the units as text."""
    return [str(unit) for unit in units]


def install(folder, **packages):
    """Put distributions, each with a module of its name, into a folder."""
    folder.mkdir(exist_ok=True)
    for name, version in packages.items():
        (folder / f"{name}-{version}.dist-info").mkdir()
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(f"version = {version!r}\n")
    return str(folder)


def test_requested_inputs_are_units_and_resolved_values_wait():
    """A variable and a flag are moved; what the process resolved is looked at when they do not explain it."""
    a = record("hardware:OMP_NUM_THREADS=2", "hardware:threads.intra_op=2!", "kernels:deterministic=False!")
    b = record(
        "hardware:OMP_NUM_THREADS=1",
        "hardware:threads.intra_op=1!",
        "kernels:deterministic=True!",
        command="python train.py --lr 2",
    )
    found = units_of(a, b)
    assert names(found.units) == ["configuration.argv.--lr", "hardware.OMP_NUM_THREADS"]
    assert [d.knob for d in found.resolved] == ["deterministic"]
    assert found.untestable == ()


@pytest.mark.parametrize(
    ("setting_a", "setting_b", "reason"),
    [
        ("source:commit=1", "source:commit=2", "not recorded in which repository"),
        ("source:file:train.py=1", "source:file:train.py=2", "the content of train.py was not kept"),
        ("source:repository=git", "source:repository=none", "the other outside of one"),
        ("hardware:cgroup.cpus=1", "hardware:cgroup.cpus=2", "set by the container"),
        ("hardware:affinity=1", "hardware:affinity=100000", "processors"),
        ("kernels:MKL_CBWR=masked", "kernels:MKL_CBWR=AUTO", "looked like a credential"),
        ("dependencies:numpy=1.0", "dependencies:torch=1.0", "where A has it is not known"),
    ],
)
def test_what_cannot_be_swapped_is_listed_with_the_reason(setting_a, setting_b, reason):
    """Never silently left out, never called innocent."""
    found = units_of(record(setting_a), record(setting_b))
    assert any(reason in row.reason for row in found.untestable)


def test_another_script_explains_its_file():
    """A script of another name is one unit of the configuration, not a second one of the source."""
    a = record("source:file:train.py=x", command="python train.py")
    b = record("source:file:other.py=y", command="python other.py")
    found = units_of(a, b)
    assert names(found.units) == ["configuration.argv.program"]
    assert found.untestable == ()


def test_ranks_are_the_launchers_doing():
    """``WORLD_SIZE``, and torchrun's one thread, differ because it was asked for more processes."""
    a = record(
        "configuration:launcher.--nproc_per_node=1",
        "hardware:WORLD_SIZE=1!",
        "hardware:threads.intra_op=2!",
        command="torchrun --nproc_per_node=1 train.py",
    )
    b = record(
        "configuration:launcher.--nproc_per_node=2",
        "hardware:WORLD_SIZE=2!",
        "hardware:OMP_NUM_THREADS=1!",
        "hardware:threads.intra_op=1!",
        command="torchrun --nproc_per_node=2 train.py",
    )
    a, b = a.with_(argv=("train.py",)), b.with_(argv=("train.py",))
    found = units_of(a, b)
    assert names(found.units) == ["configuration.launcher.--nproc_per_node"]
    assert found.untestable == found.resolved == ()
    (entry,) = differences(a.environment, b.environment)
    assert entry.knob == "launcher.--nproc_per_node"
    assert {row.knob for row in entry.resolved} == {"WORLD_SIZE", "OMP_NUM_THREADS", "threads.intra_op"}


def test_what_torchrun_has_set_is_not_set_for_it(tmp_path, monkeypatch):
    """A trial with one process more or less gets from torchrun what that sets then."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    a = record("hardware:OMP_NUM_THREADS=1!", "hardware:WORLD_SIZE=2!", cwd=tmp_path)
    environment = launch(Sides(a=a, b=a, last_step=1), [], folder(tmp_path)).environment
    assert "OMP_NUM_THREADS" not in environment
    assert "WORLD_SIZE" not in environment


def test_ranks_that_other_commands_started_cannot_be_waited_for():
    """Two shells with a rank each: a trial of one would hang."""
    one = record().with_(world_size=2)
    assert missing_ranks(one, 1).startswith("the recorded command started 1 of 2 ranks")
    assert missing_ranks(one, 2) == ""
    launched = record(command="torchrun --nproc_per_node=2 train.py").with_(world_size=2, argv=("train.py",))
    assert missing_ranks(launched, 1) == ""


def test_a_search_path_moves_with_its_package(tmp_path):
    """Two directories with two versions are one unit, and the path is not a second one."""
    old, new = install(tmp_path / "old", kit="1.0"), install(tmp_path / "new", kit="2.0")
    a = record("dependencies:kit=1.0", f"dependencies:PYTHONPATH={old}", cwd=tmp_path)
    b = record("dependencies:kit=2.0", f"dependencies:PYTHONPATH={new}", cwd=tmp_path)
    (unit,) = units_of(a, b).units
    assert str(unit) == "dependencies.kit"
    started = launch(Sides(a=a, b=b, last_step=1), [unit], folder(tmp_path))
    assert started.environment["PYTHONPATH"].split(os.pathsep)[1:] == [new]
    started = launch(Sides(a=a, b=b, last_step=1), [], folder(tmp_path))
    assert started.environment["PYTHONPATH"].split(os.pathsep)[1:] == [old]


def test_a_search_path_without_packages_is_a_unit(tmp_path):
    """A directory of plain modules is moved as the variable that names it."""
    plain = tmp_path / "plain"
    plain.mkdir()
    a, b = record(cwd=tmp_path), record(f"dependencies:PYTHONPATH={plain}", cwd=tmp_path)
    (unit,) = units_of(a, b).units
    assert str(unit) == "dependencies.PYTHONPATH"
    started = launch(Sides(a=a, b=b, last_step=1), [unit], folder(tmp_path))
    assert started.environment["PYTHONPATH"].split(os.pathsep)[1:] == [str(plain)]


def test_packages_of_one_directory_are_moved_apart(tmp_path):
    """Of two packages that lie together only the swapped one is linked."""
    new = install(tmp_path / "new", kit="2.0", other="5.0")
    a = record("dependencies:kit=1.0", "dependencies:other=4.0", cwd=tmp_path)
    b = record("dependencies:kit=2.0", "dependencies:other=5.0", f"dependencies:PYTHONPATH={new}", cwd=tmp_path)
    units = {unit.knob: unit for unit in units_of(a, b).units}
    assert set(units) == {"kit", "other"}
    started = launch(Sides(a=a, b=b, last_step=1), [units["kit"]], folder(tmp_path))
    place = started.environment["PYTHONPATH"].split(os.pathsep)[1]
    assert versions(place) == {"kit": "2.0"}
    assert sorted(path.name for path in Path(place).iterdir()) == ["kit", "kit-2.0.dist-info"]


def folder(tmp_path):
    """Make the folder of a trial."""
    path = tmp_path / f"trial-{len(list(tmp_path.iterdir()))}"
    path.mkdir()
    return path


def test_links_follow_the_packages_own_list_of_files(tmp_path):
    """A package whose modules have other names is found by its RECORD."""
    place = tmp_path / "place"
    (place / "py_kit-1.0.dist-info").mkdir(parents=True)
    (place / "py_kit-1.0.dist-info" / "RECORD").write_text("kit.py,sha256=x,1\npy_kit-1.0.dist-info/RECORD,,\n")
    (place / "kit.py").write_text("")
    (place / "elsewhere.py").write_text("")
    (tmp_path / "links").mkdir()
    made = only(["py-kit"], str(place), tmp_path / "links")
    assert sorted(path.name for path in Path(made).iterdir()) == ["kit.py", "py_kit-1.0.dist-info"]
    assert find("py-kit", "1.0", [str(tmp_path), str(place)]) == str(place)


def test_a_package_that_cannot_be_had_says_why(tmp_path, monkeypatch):
    """A version that no index has is no crash: the trial is skipped with the installer's words."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("bisect_diverge.trial.packages._installers", lambda _: [["false"]])
    a, b = record("dependencies:kit=1.0", cwd=tmp_path), record("dependencies:kit=2.0", cwd=tmp_path)
    (unit,) = units_of(a, b).units
    with pytest.raises(CannotBuildError, match=r"kit 2\.0 cannot be installed here"):
        launch(Sides(a=a, b=b, last_step=1), [unit], folder(tmp_path))
    assert not list((tmp_path / "cache").rglob(".building-*"))


def test_a_built_package_is_kept(tmp_path, monkeypatch):
    """The second search finds what the first one built."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    script = tmp_path / "install.sh"
    script.write_text('#!/bin/sh\nmkdir -p "$4/kit" "$4/kit-2.0.dist-info"; echo once >> "$(dirname $0)/calls"\n')
    script.chmod(0o755)
    monkeypatch.setattr("bisect_diverge.trial.packages._installers", lambda _: [[str(script)]])
    a, b = record("dependencies:kit=1.0", cwd=tmp_path), record("dependencies:kit=2.0", cwd=tmp_path)
    units = units_of(a, b).units
    for _ in range(2):
        started = launch(Sides(a=a, b=b, last_step=1), units, folder(tmp_path))
        assert versions(started.environment["PYTHONPATH"].split(os.pathsep)[1]) == {"kit": "2.0"}
    assert (tmp_path / "calls").read_text() == "once\n"


def test_resolved_values_become_units_where_a_trial_of_b_does_not_have_them():
    """What B's requested inputs do not bring about is held, or listed as untestable."""
    a = record("kernels:deterministic=False!", "kernels:cpu.capability=AVX2!", "hardware:threads.intra_op=1!")
    b = record("kernels:deterministic=True!", "kernels:cpu.capability=AVX512!", "hardware:threads.intra_op=2!")
    trial = record(
        "kernels:deterministic=False!", "kernels:cpu.capability=AVX2!", "hardware:threads.intra_op=2!"
    ).environment
    found = left_over(units_of(a, b), trial)
    assert names(found.units) == ["kernels.deterministic"]
    assert names(row.unit for row in found.untestable) == ["kernels.cpu.capability"]


def test_variables_are_those_of_the_recording(tmp_path, monkeypatch):
    """What was set then is set, what was not set then is not, and the rest is as it is now."""
    monkeypatch.setenv("MKL_CBWR", "AUTO")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("MY_OWN", "stays")
    a, b = record("hardware:OMP_NUM_THREADS=2", cwd=tmp_path), record("hardware:OMP_NUM_THREADS=1", cwd=tmp_path)
    sides = Sides(a=a, b=b, last_step=1)
    environment = launch(sides, [], folder(tmp_path)).environment
    assert environment["OMP_NUM_THREADS"] == "2"
    assert environment["MY_OWN"] == "stays"
    assert "MKL_CBWR" not in environment
    assert launch(sides, units_of(a, b).units, folder(tmp_path)).environment["OMP_NUM_THREADS"] == "1"
    unset = Unit(layer=Layer.HARDWARE, knob="OMP_NUM_THREADS", a="2", b=None)
    assert "OMP_NUM_THREADS" not in launch(sides, [unset], folder(tmp_path)).environment


def test_outputs_are_hidden_but_not_from_the_run_that_reads_them():
    """A's checkpoint is not seen again, unless B's command names it and B did not write it."""
    a = record(written={"/w/ck.pt": Written.OUTPUT, "/w/log": Written.OUTPUT, "/w/data": Written.PREPARED}, cwd="/w")
    b = record(command="python train.py --resume=ck.pt", written={"/w/log": Written.CHANGED}, cwd="/w")
    assert hidden(Sides(a=a, b=b, last_step=1)) == ("/w/log",)
    assert hidden(Sides(a=a, b=a, last_step=1)) == ("/w/ck.pt", "/w/log")


def test_every_knob_has_a_rule():
    """The table ends with a row for each layer, so that no knob is without an answer."""
    for layer in Layer:
        assert rule_for(layer, "some.knob") in RULES


def test_what_can_be_held_is_what_the_process_can_hold():
    """The table outside and the table inside the process name the same knobs."""
    from bisect_diverge.record import overrides

    inside = {*overrides.HELD}
    of_objects = {name for name in HELD if "*" in name or name.startswith("seeds.")}
    assert set(HELD) - of_objects == inside
    assert all(rule_for(Layer(n.split(".")[0]), n.split(".", 1)[1]).way is Way.HELD for n in inside)
