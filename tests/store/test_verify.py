"""What a check of a file finds, and what a repair changes."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from bisect_diverge.errors import DamagedRunError, NotARunError, UsageError
from bisect_diverge.model.address import Address
from bisect_diverge.model.elements import BY_NAME, ELEMENT_TYPES
from bisect_diverge.model.record import Flag
from bisect_diverge.model.run import RunRecord, State
from bisect_diverge.numerics.digest import ALGORITHM, device_digest, header, word_sums
from bisect_diverge.store import superblock
from bisect_diverge.store.heap import check_heaps
from bisect_diverge.store.reader import Run, RunFile
from bisect_diverge.store.verify import check_file, repair
from bisect_diverge.store.writer import RunWriter
from tests.helpers.runs import Row, add_row, training_rows, write_run


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """Return the file of a complete run with a tensor of every element type."""
    rows = list(training_rows(2))
    for number, element in enumerate(element for element in ELEMENT_TYPES if element.storage):
        array = np.arange(1, 5).astype(element.storage)
        rows.append(Row(f"r0/2/0/forward/model:{number}#0:output.0", array, element.name))
    return write_run(tmp_path / "whole", rows) / "rank-00000.h5"


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """Return a file as a killed writer leaves it: with its mark, in progress, by a process that is gone."""
    path = tmp_path / "k" / "rank-00000.h5"
    path.parent.mkdir()
    keeper = RunWriter(path, RunRecord(), keep_bytes=1 << 20, digest_algorithm=ALGORITHM)
    for row in training_rows(2):
        add_row(keeper, Address.parse(row.address), row)
    keeper.close(State.IN_PROGRESS)
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True
    )
    change(path, lambda file: set_cell(file["status"], 0, "pid", int(gone.stdout)))
    mark(path)
    return path


def mark(path: Path) -> None:
    """Put a writer's mark into a file."""
    content = bytearray(path.read_bytes())
    content[11] |= 5
    content[44:48] = superblock._checksum(bytes(content[:44]))
    path.write_bytes(content)


def change(path: Path, how: Callable[[Any], object]) -> None:
    """Change a file through HDF5."""
    with h5py.File(path, "r+", libver=("v110", "v110")) as file:
        how(file)


def set_cell(table: Any, row: int, column: str, value: Any) -> None:
    """Set one cell of a table."""
    cells = table[row]
    cells[column] = value
    table[row] = cells


def set_item(dataset: Any, at: int, value: Any) -> None:
    """Set one element of a dataset."""
    dataset[at] = value


def read_all(path: Path) -> None:
    """Read every tensor of a recording."""
    with Run(path) as run:
        for row in range(len(run.first.events)):
            run.first.tensor(row)


def test_a_whole_file_has_no_problems(whole: Path):
    """Every tensor's digest is made again and fits, of each element type."""
    found = check_file(whole)

    assert (found.problems, found.notes, found.state) == ((), (), State.COMPLETE)
    assert (found.records, found.tensors) == (69, 58)


DAMAGE: dict[str, tuple[Callable[[Any], object], str]] = {
    "element": (lambda f: set_item(f["pool/float32"], 3, 7.0), "the digest and the elements of r0/0/-/init/model:0"),
    "digest": (lambda f: set_cell(f["events"], 0, "digest0", 5), "do not fit"),
    "pool cut off": (lambda f: f["pool/float32"].resize((9,)), "the bytes of"),
    "pool missing": (lambda f: f.__delitem__("pool/int8"), "/pool/int8 is missing"),
    "offset": (lambda f: set_cell(f["events"], 5, "offset", 2**60), "the bytes of"),
    "name": (lambda f: set_cell(f["events"], 5, "name", 10**6), "a record has name 1000000"),
    "source": (lambda f: set_cell(f["events"], 5, "source", 5), "itself or a later record as its source"),
    "step": (lambda f: set_cell(f["events"], 5, "step", -5), "a record has step -5"),
    "ends": (lambda f: set_item(f["names/ends"], 1, 10**9), "an entry of /names/ends lies outside"),
    "shape": (lambda f: set_item(f["shapes/dims"], 0, -4), "negative size"),
    "large shape": (lambda f: set_item(f["shapes/dims"], 0, 2**62), "the bytes of"),
    "status": (lambda f: set_cell(f["status"], 0, "state", 77), "list index out of range"),
    "slots": (lambda f: f.__delitem__("slots"), "/slots is missing"),
}


@pytest.mark.parametrize("name", list(DAMAGE))
def test_damage_is_found_and_named(whole: Path, name: str):
    """Each part of a file that does not fit the rest is a problem with its place."""
    how, problem = DAMAGE[name]
    change(whole, how)
    found = check_file(whole)

    assert any(problem in text for text in found.problems), found.problems


def elsewhere(file: Any) -> None:
    """Let the rows be those of another file."""
    del file["events"]
    file["events"] = h5py.ExternalLink("/etc/hosts", "/events")


def outside(file: Any) -> None:
    """Let the pool be the bytes of another file."""
    del file["pool/uint8"]
    file.create_dataset("pool/uint8", shape=(8,), dtype="u1", external=[("/etc/hosts", 0, 8)])


def packed(file: Any) -> None:
    """Let the rows be packed: few bytes that become many."""
    rows = file["events"][:]
    del file["events"]
    file.create_dataset("events", data=rows, maxshape=(None,), chunks=(64,), compression="gzip")


@pytest.mark.parametrize("how", [elsewhere, outside, packed])
def test_what_reaches_out_of_a_file_or_unpacks_is_refused(whole: Path, how: Callable[[Any], None]):
    """A recording shows nothing of other files, and takes no more memory than it has bytes."""
    change(whole, how)

    assert check_file(whole).problems
    with pytest.raises(DamagedRunError):
        read_all(whole)


def test_a_length_ahead_of_what_is_stored_costs_nothing(whole: Path):
    """Rows and elements that were never written are not read, however many the file says there are."""
    rows = len(RunFile(whole).events)
    change(whole, lambda file: [file[name].resize((1 << 48,)) for name in ("events", "pool/float32")])
    with Run(whole) as run:
        assert len(run.first.events) == rows
        assert run.first.tensor(0) is not None


def test_digests_of_a_device_are_made_again(tmp_path: Path):
    """A digest that an accelerator made is checked by its own algorithm."""
    array = np.arange(6, dtype="<f4")
    path = (
        write_run(tmp_path / "a", [Row("r0/0/0/forward/m:#0:output.0", array, flags=int(Flag.ON_DEVICE))])
        / "rank-00000.h5"
    )
    assert "do not fit" in check_file(path).problems[0]
    made = device_digest(header("float32", (6,)), word_sums(array.view(np.uint8)))
    for column, part in (("digest0", made[:8]), ("digest1", made[8:])):
        change(
            path, lambda f, column=column, part=part: set_cell(f["events"], 0, column, int.from_bytes(part, "little"))
        )

    assert check_file(path).problems == ()


def test_an_unknown_algorithm_is_said_and_nothing_is_blamed(tmp_path: Path):
    """Digests that this version cannot make are not called wrong."""
    found = check_file(write_run(tmp_path / "a", training_rows(1), algorithm="sum-7") / "rank-00000.h5")

    assert found.problems == ()
    assert found.notes == ("digests were not made again: this version does not know sum-7",)


def test_a_killed_writers_file_is_repaired(killed: Path):
    """The mark goes, the state is interrupted, every row stays; other HDF5 tools open it."""
    with pytest.raises(OSError, match="h5clear"):
        h5py.File(killed, "r")
    before = RunFile(killed)
    rows = before.events.copy()
    before.close()
    assert check_file(killed).unclosed
    assert check_file(killed).problems == ()

    assert repair(killed)
    assert not repair(killed)
    with h5py.File(killed, "r") as file:
        assert file["status"][0]["state"] == 2
        assert file["events"][:].tobytes() == rows.tobytes()
    assert check_file(killed).state is State.INTERRUPTED


def test_a_living_writers_file_is_not_touched(tmp_path: Path):
    """A file in progress is refused, unless the user knows better."""
    path = write_run(tmp_path / "a", training_rows(1), state=State.IN_PROGRESS) / "rank-00000.h5"
    mark(path)
    before = path.read_bytes()

    with pytest.raises(UsageError, match="may still be being written"):
        repair(path)
    assert path.read_bytes() == before
    assert repair(path, force=True)


def test_a_damaged_superblock_is_not_made_worse(killed: Path):
    """Where the checksum of the first block is wrong nothing is written over it."""
    head = bytearray(killed.read_bytes()[: superblock.SIZE])
    head[30] ^= 1

    with pytest.raises(ValueError, match="superblock"):
        superblock.as_closed(bytes(head), killed.stat().st_size)


def test_a_damaged_heap_is_refused_before_hdf5_goes_round_in_it(whole: Path):
    """HDF5 never returns from some damaged heaps: they are recognised first."""
    check_heaps(whole)
    content = bytearray(whole.read_bytes())
    at = content.find(b"GCOL")
    content[at + 16 + 8 : at + 32] = bytes(8)
    content[at + 16 : at + 18] = bytes(2)
    whole.write_bytes(content)

    with pytest.raises(DamagedRunError, match="texts of its attributes"):
        Run(whole)


def test_no_recording_is_an_error_not_a_result(tmp_path: Path):
    """Something else cannot be checked."""
    (tmp_path / "x.h5").write_bytes(b"hello")
    with pytest.raises(NotARunError):
        check_file(tmp_path / "x.h5")


def test_every_stored_type_is_covered():
    """The fixture has all of them."""
    assert len([element for element in BY_NAME.values() if element.storage]) == 22
