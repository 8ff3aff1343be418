"""Pairs of runs that differ in what they read and in their seeds, recorded and bisected for real."""

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from bisect_diverge.model.trial import Outcome
from bisect_diverge.store.reader import Run
from bisect_diverge.trial.search import TrialOptions, differing_units, first_divergence, trials
from tests.helpers.command import bd

SCRIPT = Path(__file__).with_name("reading.py")
CONF = {"train": {"lr": 0.1, "momentum": 0}, "name": "a"}
MEMORY = Path("/dev/shm")


def prepare(folder, names=range(4)):
    """Put the script, its configuration and data into a folder."""
    folder.mkdir(exist_ok=True)
    shutil.copy(SCRIPT, folder)
    (folder / "conf.json").write_text(json.dumps(CONF))
    shutil.rmtree(folder / "data", ignore_errors=True)
    (folder / "data").mkdir()
    for number in names:
        np.save(folder / "data" / f"{number}.npy", np.full(8, number + 1, np.float32))
    return folder


def record(folder, name, *flags, **variables):
    """Record the script."""
    bd("record", "-o", name, "--", sys.executable, SCRIPT.name, "--sort", *flags, cwd=folder, **variables)


def change(folder, **values):
    """Change keys of the configuration file."""
    tree = json.loads((folder / "conf.json").read_text())
    tree["train"] |= {key: value for key, value in values.items() if key in tree["train"]}
    tree |= {key: value for key, value in values.items() if key not in tree["train"]}
    (folder / "conf.json").write_text(json.dumps(tree))


def listed(folder):
    """Return the names in a folder as the file system lists them."""
    return [path.name for path in folder.iterdir()]


def bisect(folder, *options, status=0):
    """Return what ``bd bisect`` says of the runs ``a`` and ``b``."""
    words = ("bisect", "a", "b", "--no-observer-check", "--format", "json", *options)
    return json.loads(bd(*words, cwd=folder, status=status).stdout)


def causes(found):
    """Return the units of each cause, all of them proved both ways."""
    assert found["verdict"] == "cause"
    assert all(
        c["sufficient"] and c["necessary"] and c["same_divergence"] for c in found["causes"] if c["role"] == "cause"
    )
    return [{f"{u['layer']} {u['knob']}" for u in cause["units"]} for cause in found["causes"]]


@pytest.mark.slow
def test_files_are_read_as_they_were_recorded(tmp_path):
    """Data, a key and a seed differ; then everything is overwritten, and the trials are A's and B's all the same."""
    folder = prepare(tmp_path / "user")
    record(folder, "a")
    np.save(folder / "data" / "1.npy", np.full(8, 0.5, np.float32))
    change(folder, lr=0.2, name="b")
    record(folder, "b", SEED="5")
    shutil.rmtree(folder / "data")
    (folder / "conf.json").write_text("{}")
    with Run(folder / "a") as a, Run(folder / "b") as b:
        units = {str(unit): unit for unit in differing_units(a, b).units}
        with trials(a, b, first_divergence(a, b), TrialOptions(units=differing_units(a, b))) as oracle:
            found = {"nothing": oracle(frozenset()), "all": oracle(frozenset(units.values()))}
            keys = {unit.knob: unit for unit in oracle.parts(units["configuration.file:conf.json"])}
            found["name"] = oracle(frozenset([keys["file:conf.json:name"]]))
    assert set(units) == {"dataset.file:data/1.npy", "configuration.file:conf.json", "seeds.SEED"}
    assert set(keys) == {"file:conf.json:train.lr", "file:conf.json:name"}
    assert {name: trial.outcome for name, trial in found.items()} == {
        "nothing": Outcome.A,
        "all": Outcome.B,
        "name": Outcome.A,
    }
    assert sorted(p.name for p in folder.iterdir()) == ["a", "b", "conf.json", SCRIPT.name]


@pytest.mark.matrix
def test_a_data_file(tmp_path):
    """One of four files has another content; loader workers read it."""
    folder = prepare(tmp_path / "user")
    record(folder, "a", "--workers", "2")
    np.save(folder / "data" / "1.npy", np.full(8, 0.5, np.float32))
    record(folder, "b", "--workers", "2")
    assert causes(bisect(folder)) == [{"dataset file:data/1.npy"}]


@pytest.mark.matrix
def test_a_name_in_a_folder(tmp_path):
    """B has one file more: what is listed is the cause, not the file that is opened because of it."""
    folder = prepare(tmp_path / "user")
    record(folder, "a")
    np.save(folder / "data" / "0b.npy", np.full(8, 9, np.float32))
    record(folder, "b")
    assert causes(bisect(folder)) == [{"dataset listing:data"}]


@pytest.mark.matrix
@pytest.mark.skipif(not MEMORY.is_dir() or not os.access(MEMORY, os.W_OK), reason="no folder that lists by age")
def test_the_order_of_a_folder(tmp_path):
    """The same files, copied in another order, and a script that does not sort."""
    folder = prepare(MEMORY / f"bisect-diverge-test-{os.getpid()}")
    try:
        words = ("--", sys.executable, SCRIPT.name)
        bd("record", "-o", "a", *words, cwd=folder)
        before = listed(folder / "data")
        prepare(folder, names=reversed(range(4)))
        if listed(folder / "data") == before:
            pytest.skip("the file system lists by name")
        bd("record", "-o", "b", *words, cwd=folder)
        assert causes(bisect(folder)) == [{"dataset listing:data"}]
    finally:
        shutil.rmtree(folder)


@pytest.mark.matrix
def test_a_key_among_others(tmp_path):
    """Two keys differ; the file is taken apart, and the name of the run is innocent."""
    folder = prepare(tmp_path / "user")
    record(folder, "a")
    change(folder, lr=0.2, name="b")
    record(folder, "b")
    found = bisect(folder)
    assert causes(found) == [{"configuration file:conf.json:train.lr"}]
    assert [u["knob"] for u in found["innocent"]] == ["file:conf.json:name"]


@pytest.mark.matrix
def test_a_file_that_only_b_found(tmp_path):
    """The script looks for an optional file without listing the folder; A was recorded before it was there."""
    folder = prepare(tmp_path / "user")
    record(folder, "b_first")
    (folder / "extra.json").write_text("0.5")
    bd("record", "-o", "a", "--", sys.executable, SCRIPT.name, "--sort", cwd=folder)
    shutil.move(folder / "b_first", folder / "b")
    found = bisect(folder)  # A opened it, B did not
    assert causes(found) == [{"configuration file:extra.json"}]


@pytest.mark.matrix
def test_the_second_seed_of_two(tmp_path):
    """A setter called twice: the variable that gives the second seed is the cause."""
    folder = prepare(tmp_path / "user")
    record(folder, "a")
    record(folder, "b", SEED="7")
    assert causes(bisect(folder)) == [{"seeds SEED"}]


@pytest.mark.matrix
def test_a_seed_that_the_script_has_from_nowhere(tmp_path):
    """The second call got another seed, and nothing outside of the script says why: the call itself is named."""
    folder = prepare(tmp_path / "user")
    text = SCRIPT.read_text().replace('os.environ.get("SEED", "1")', "9")
    record(folder, "a")
    (folder / SCRIPT.name).write_text(text)
    record(folder, "b")
    (folder / SCRIPT.name).write_text(SCRIPT.read_text())
    found = bisect(folder, "--skip", "source")
    assert causes(found)[0] <= {"seeds torch.manual_seed", "seeds torch.manual_seed#2"}


@pytest.mark.matrix
def test_two_runs_without_seeds(tmp_path):
    """Nothing was seeded: no setting is blamed, A does not repeat itself; both generators are named, with the proof."""
    folder = prepare(tmp_path / "user")
    record(folder, "a", "--unseeded")
    record(folder, "b", "--unseeded")
    found = bisect(folder, status=4)
    assert (found["verdict"], found["causes"]) == ("baseline-not-repeatable", [])
    assert {"random.seed", "numpy.random.seed"} == {n.split("call ")[1].split()[0] for n in found["notes"][:2]}
    assert found["notes"][2].startswith("proved: with A's initial-state.")
    assert any("held at A's in every trial" in note for note in found["notes"])


@pytest.mark.matrix
def test_a_pair_across_layers(tmp_path):
    """A data file and a key of the configuration: neither alone, both together."""
    folder = prepare(tmp_path / "user")
    record(folder, "a")
    np.save(folder / "data" / "0.npy", np.full(8, 0.5, np.float32))
    change(folder, lr=0.2)
    record(folder, "b")
    found = bisect(folder)
    assert {"dataset file:data/0.npy", "configuration file:conf.json:train.lr"} in causes(found)
