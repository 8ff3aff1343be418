"""`bd check` and `bd export` as a user runs them."""

import json
from pathlib import Path

import h5py
import pytest

from bisect_diverge.cli.export import _form
from tests.helpers.mutations import Ended, run_all
from tests.helpers.runs import training_rows, write_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a whole run `a` and one with an element changed, `bad`."""
    place = tmp_path_factory.mktemp("runs")
    for name in ("a", "bad"):
        write_run(place / name, training_rows())
    with h5py.File(place / "bad" / "rank-00000.h5", "r+", libver=("v110", "v110")) as file:
        file["pool/float32"][3] = 7.0
    return place


@pytest.fixture(scope="module")
def ended(folder: Path) -> dict[str, Ended]:
    """Return how each command ended; one process for all."""
    commands = [
        "check a",
        "check bad",
        "check bad --format json",
        "check missing",
        "check a --force",
        "check a --repair",
        "export a",
        "export a --format npz --steps 1:2 --modules 1 -o out",
        "export a -o out",
        "export a -o no/where.h5",
        "export a --steps 3 -o none.h5",
        "export a --steps x",
        "export a --steps 2 -o one.h5",
        "export a -o a --force",
        "export a --format npz -o bad",
        "export a --steps 2 -o named.npz",
        "export a --steps 2 -o named.HDF5",
        "export a --format h5 -o other.npz",
        "export a --format pt -o other.hdf5",
        "export a --steps 2 -o named.bin",
    ]
    return {" ".join(one.command): one for one in run_all([command.split() for command in commands], folder)}


@pytest.mark.parametrize(
    ("command", "status", "text"),
    [
        ("check a", 0, "= a/rank-00000.h5: complete, nothing wrong\n    69 records, 53 stored tensors read\n"),
        ("check bad", 1, "  ! the digest and the elements of r0/0/-/init/model:0.weight#0:param do not fit\n"),
        ("check missing", 2, "bd: no such run: missing\n"),
        ("check a --force", 2, "bd: --force belongs to --repair\n"),
        ("check a --repair", 0, "nothing wrong"),
        ("export a", 0, "a.h5: 69 tensors\n"),
        ("export a --format npz --steps 1:2 --modules 1 -o out", 0, "out: 3 tensors\n"),
        ("export a -o out", 2, "bd: out exists\n"),
        ("export a -o no/where.h5", 2, "bd: there is no directory no\n"),
        ("export a --steps 3 -o none.h5", 2, "bd: a has no record that fits\n"),
        ("export a --steps x", 2, "give FIRST:END, FIRST: or one step"),
        ("export a --steps 2 -o one.h5", 0, "one.h5: 22 tensors\n"),
        ("export a -o a --force", 2, "bd: a is, or holds, the run itself\n"),
        ("export a --format npz -o bad", 2, "not replaced\n  choose another place with -o"),
        ("export a --steps 2 -o named.npz", 0, "named.npz: 22 tensors (a directory with an archive for each rank"),
        ("export a --steps 2 -o named.HDF5", 0, "named.HDF5: 22 tensors\n"),
        ("export a --format h5 -o other.npz", 2, "bd: other.npz ends like npz, and --format says h5\n"),
        ("export a --format pt -o other.hdf5", 2, "bd: other.hdf5 ends like h5, and --format says pt\n"),
        ("export a --steps 2 -o named.bin", 0, "named.bin: 22 tensors (one HDF5 file; --format npz or pt writes"),
    ],
)
def test_status_and_message(ended: dict[str, Ended], command: str, status: int, text: str):
    """Each command says what it did or why not, with its status."""
    assert ended[command].status == status, ended[command].text
    assert text in ended[command].text


def test_problems_as_json(ended: dict[str, Ended]):
    """Programs get each problem."""
    document = json.loads(ended["check bad --format json"].text)

    assert document["files"][0]["state"] == "complete"
    assert len(document["files"][0]["problems"]) == 1


def test_only_whole_exports_are_there(ended: dict[str, Ended], folder: Path):
    """What failed left nothing."""
    assert ended
    named = ["named.HDF5", "named.bin", "named.npz"]
    assert sorted(path.name for path in folder.iterdir()) == ["a", "a.h5", "bad", *named, "one.h5", "out"]


def test_the_name_of_an_export_says_its_form(ended: dict[str, Ended], folder: Path):
    """What is called like a form holds that form."""
    assert ended
    for file in ("named.HDF5", "named.bin"):
        assert h5py.is_hdf5(folder / file)
    assert [path.suffix for path in (folder / "named.npz").rglob("step-*")] == [".npz"]
    assert _form(Path("named.PT"), None)[0] == "pt"
