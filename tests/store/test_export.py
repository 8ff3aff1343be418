"""Exported tensors: every bit, every name, and nothing half-written."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from bisect_diverge.errors import DamagedRunError, OutputExistsError, UsageError
from bisect_diverge.model.elements import BY_NAME, ELEMENT_TYPES
from bisect_diverge.record.torch_file import save_pt
from bisect_diverge.store.export import INDEX, export_archives, export_tree, save_npz
from bisect_diverge.store.reader import Run
from bisect_diverge.store.selection import Wanted
from tests.helpers.runs import Row, training_rows, write_run

NAMES = ("a/b", ".", "..", "a.b", "", "%", "~", "é ü", "x" * 300)
STORED = [element for element in ELEMENT_TYPES if element.storage]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a run with awkward names, a repeated address, and a tensor of every element type."""
    rows = [Row(f"r0/0/0/forward/{root}:{fqn}#0:{slot}", 1.5) for root, fqn, slot in names()]
    rows += [Row("r0/1/0/forward/m:twice#0:output.0", value) for value in (1.0, 2.0)]
    for element in STORED:
        pattern = np.random.default_rng(element.code).integers(0, 256, 6 * element.itemsize, np.uint8)
        pattern = pattern % 2 if element.name == "bool" else pattern
        rows.append(
            Row(
                f"r0/2/0/forward/m:{element.name}#0:output.0", pattern.view(element.storage).reshape(2, 3), element.name
            )
        )
    rows += [
        Row("r0/3/-/optimizer/opt:w#0:grad", np.zeros(0, np.uint8), "none"),
        Row("r0/3/0/forward/m:#0:output.0", np.zeros((0, 4), "<f4")),
    ]
    return Run(write_run(tmp_path / "run", rows))


def names() -> list[tuple[str, str, str]]:
    """Return roots, FQNs and slots as they stand in an address."""
    from bisect_diverge.model.address import _encode

    encoded = [_encode(name) for name in NAMES]
    return [(name, other, third) for name in encoded for other, third in zip(encoded, reversed(encoded), strict=True)]


def datasets(path: Path) -> dict[str, h5py.Dataset]:
    """Return all datasets of an open file, by address."""
    found: dict[str, list[h5py.Dataset]] = {}
    file = h5py.File(path)
    file.visititems(
        lambda _, x: found.setdefault(x.attrs["address"], []).append(x) if isinstance(x, h5py.Dataset) else None
    )
    return found  # type: ignore[return-value]


def test_a_tree_has_every_tensor_under_its_address(run: Run, tmp_path: Path):
    """No two names collide, none is lost, and each dataset says what it is."""
    done = export_tree(run, tmp_path / "out.h5", Wanted())
    found = datasets(tmp_path / "out.h5")
    file = run.first
    kept = [row for row in range(len(file.events)) if file.record_at(row).kept]

    assert (done.tensors, done.left_out) == (len(kept), 1)
    assert sum(map(len, found.values())) == len(kept)
    for row in kept:
        record = file.record_at(row)
        (dataset,) = [each for each in found[str(record.address)] if each.attrs["row"] == row]
        assert dataset.attrs["dtype"] == record.dtype
        assert dataset.attrs["digest"] == record.digest
        assert dataset[()].tobytes() == file.tensor(row).tobytes()
        assert dataset.shape == record.shape
    with h5py.File(tmp_path / "out.h5") as tree:
        assert tree["r0/1/0/forward/m:twice#0/output.0"][()] == 1.0
        assert tree["r0/1/0/forward/m:twice#0/output.0~2"][()] == 2.0


def test_npz_needs_no_pickle_and_says_what_it_holds(run: Run, tmp_path: Path):
    """One archive for each step; the index has the element types that numpy lacks."""
    done = export_archives(run, tmp_path / "out", Wanted(steps=(1, 3)), "npz", save_npz)
    with np.load(tmp_path / "out/rank-00000/step-000002.npz", allow_pickle=False) as archive:
        index = json.loads(archive[INDEX].tobytes())
        assert set(index) == set(archive.files) - {INDEX}
        for name, entry in index.items():
            (row,) = [r for r in range(len(run.first.events)) if str(run.first.address(r)) == entry["address"]]
            assert archive[name].tobytes() == run.first.tensor(row).tobytes()
        assert index["0/forward/m:bfloat16#0/output.0"]["dtype"] == "bfloat16"
        assert archive["0/forward/m:bfloat16#0/output.0"].dtype == np.dtype("<u2")
    assert sorted(path.name for path in (tmp_path / "out/rank-00000").iterdir()) == [
        "step-000001.npz",
        "step-000002.npz",
    ]
    assert done.tensors == 2 + len(STORED)


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
def test_pt_has_the_recorded_element_types(run: Run, tmp_path: Path):
    """Every bit of every type comes back as a tensor of that type, without code being run."""
    export_archives(run, tmp_path / "out", Wanted(steps=(2, 4)), "pt", save_pt)
    content = torch.load(tmp_path / "out/rank-00000/step-000002.pt", weights_only=True)
    for row in range(len(run.first.events)):
        record = run.first.record_at(row)
        if record.address.step == 2:
            tensor = content["tensors"][f"0/forward/m:{record.dtype}#0/output.0"]
            assert tensor.dtype == getattr(torch, record.dtype.replace("bytes", "uint8"))
            assert tuple(tensor.shape) == record.shape
            assert tensor.contiguous().view(torch.uint8).numpy().tobytes() == run.first.tensor(row).tobytes()
    empty = torch.load(tmp_path / "out/rank-00000/step-000003.pt", weights_only=True)["tensors"]
    assert [tuple(tensor.shape) for tensor in empty.values()] == [(0, 4)]


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        (Wanted(), 18),
        (Wanted(steps=(1, None)), 12),
        (Wanted(steps=(1, 2)), 6),
        (Wanted(modules=("a.*",)), 6),
        (Wanted(modules=("r0/2/*", "loss")), 10),
    ],
)
def test_what_is_chosen(tmp_path: Path, wanted: Wanted, count: int):
    """Steps and modules narrow the export; a module's glob fits an FQN or an address."""
    places = [f"{phase}/m:{fqn}" for phase in ("forward", "backward") for fqn in ("a.0", "b", "loss")]
    rows = [Row(f"r0/{step}/0/{place}#0:value", 1.0) for step in range(3) for place in places]
    with Run(write_run(tmp_path / "a", rows)) as run:
        done = export_tree(run, tmp_path / "out.h5", wanted)

    assert (done.tensors, done.left_out) == (count, 0)


def test_nothing_is_overwritten_unasked(run: Run, tmp_path: Path):
    """What is there stays, unless --force is given; a folder of other things and the run itself stay even then."""
    out = tmp_path / "out.h5"
    out.write_text("mine")
    with pytest.raises(OutputExistsError):
        export_tree(run, out, Wanted())
    assert out.read_text() == "mine"
    export_tree(run, out, Wanted(), force=True)
    assert h5py.is_hdf5(out)

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("mine")
    for place in (tmp_path / "mine", run.path, run.path / "rank-00000.h5", tmp_path):
        with pytest.raises(UsageError):
            export_archives(run, place, Wanted(), "npz", save_npz, force=True)
    assert (tmp_path / "mine/thesis.txt").read_text() == "mine"
    assert (run.path / "rank-00000.h5").exists()


def test_an_export_that_fails_leaves_nothing(tmp_path: Path):
    """A tensor that cannot be read ends the export; nothing that looks like a result stays."""
    path = write_run(tmp_path / "a", training_rows()) / "rank-00000.h5"
    with h5py.File(path, "r+", libver=("v110", "v110")) as file:
        file["pool/float32"].resize((50,))
    with Run(path) as run:
        before = sorted(tmp_path.iterdir())
        with pytest.raises(DamagedRunError):
            export_tree(run, tmp_path / "out.h5", Wanted())
        with pytest.raises(DamagedRunError):
            export_archives(run, tmp_path / "out", Wanted(), "npz", save_npz)
    assert sorted(tmp_path.iterdir()) == before


def test_nothing_to_export_is_said(run: Run, tmp_path: Path):
    """A choice that fits no record is an error, not an empty file."""
    with pytest.raises(UsageError, match="no record that fits"):
        export_tree(run, tmp_path / "out.h5", Wanted(steps=(99, None)))


def test_every_type_is_known_to_torch():
    """A type that torch had no name for would fail only when it is met."""
    assert [
        name for name in BY_NAME if BY_NAME[name].storage and not hasattr(torch, name.replace("bytes", "uint8"))
    ] == []
