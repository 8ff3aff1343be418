"""What is written is what is read: rows, names, shapes, bytes, documents."""

import math
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bisect_diverge.errors import NoSuchAddressError
from bisect_diverge.model.address import Address, Phase
from bisect_diverge.model.elements import ELEMENT_TYPES
from bisect_diverge.model.environment import Environment, Layer, Setting
from bisect_diverge.model.record import Flag
from bisect_diverge.model.run import Capture, RecordOptions, RunRecord, State
from bisect_diverge.numerics.digest import ALGORITHM
from bisect_diverge.store import schema, writer
from bisect_diverge.store.reader import Run, RunFile
from bisect_diverge.store.writer import RunWriter, set_exit_status
from tests.helpers.runs import Row, add_row, training_rows, write_run

text = st.text(st.characters(exclude_characters="\0"), max_size=12)
micro_batch = st.integers(0, 9).map(str) | st.just("-") | st.integers(0, 9).map("e{}".format)
addresses = st.builds(
    Address,
    rank=st.just(0),
    step=st.integers(0, 2**31 - 1),
    micro_batch=micro_batch,
    phase=st.sampled_from(Phase),
    root=text,
    fqn=text,
    call=st.integers(0, 2**32 - 1),
    slot=text,
)
stored = [element for element in ELEMENT_TYPES if element.storage]


@st.composite
def rows(draw: st.DrawFn) -> Row:
    """Return a record of any type, shape and address."""
    element = draw(st.sampled_from(stored))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    count = math.prod(shape) * element.itemsize
    array = np.frombuffer(draw(st.binary(min_size=count, max_size=count)), element.storage).reshape(shape)
    flags = draw(st.sampled_from([0, int(Flag.REQUIRES_GRAD), int(Flag.HOOKED | Flag.SCALAR)]))
    source, site, kind = -1, draw(text), draw(text)
    return Row(str(draw(addresses)), array, element.name, source, flags, site, kind)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(entries=st.lists(rows(), max_size=8), data=st.data())
def test_records_are_read_as_they_were_written(tmp_path_factory, entries, data):
    """Every field and every bit of every record survives, whatever it holds."""
    for number, row in enumerate(entries):
        row.source = data.draw(st.integers(-1, number - 1))
    path = write_run(tmp_path_factory.mktemp("run") / "a", entries)
    with Run(path) as run:
        file = run.first
        assert len(file.events) == len(entries)
        for number, row in enumerate(entries):
            record = file.record_at(number)
            assert record.address == Address.parse(row.address)
            assert (record.dtype, record.shape) == (row.dtype, row.array().shape)
            assert (record.site, record.module_type) == (row.site, row.module_type)
            assert (record.source, record.flags & ~Flag.DIGEST_ONLY) == (row.source, row.flags)
            tensor = file.tensor(number)
            assert tensor is not None
            assert tensor.tobytes() == row.array().tobytes()
            assert tensor.shape == row.array().shape


@given(addresses)
def test_addresses_parse_back_to_themselves(address):
    """The text form loses nothing, whatever the names hold."""
    assert Address.parse(str(address)) == address


def test_equal_tensors_are_stored_once(tmp_path: Path):
    """A second tensor of the same digest points at the first one's bytes."""
    big = np.arange(1000, dtype="<f4")
    with Run(write_run(tmp_path / "a", [(f"r0/{n}/0/forward/m:#0:input.0", big) for n in range(9)])) as run:
        assert set(run.first.events["offset"].tolist()) == {0}
        np.testing.assert_array_equal(big, run.first.tensor(8))


def test_beyond_the_budget_digests_go_on(tmp_path: Path):
    """When the budget is used up the rows say so, and the writer tells once."""
    told = []
    path = tmp_path / "a.h5"
    keeper = RunWriter(
        path, RunRecord(), keep_bytes=100, digest_algorithm=ALGORITHM, on_budget=lambda: told.append(True)
    )
    for step in range(4):
        array = np.full(10, step, "<f4")
        add_row(keeper, Address.parse(f"r0/{step}/0/forward/m:#0:input.0"), Row("", array))
    keeper.close(State.COMPLETE)
    with Run(path) as run:
        flags = run.first.events["flags"].tolist()

        assert [bool(flag & Flag.DIGEST_ONLY) for flag in flags] == [False, False, True, True]
        assert run.first.tensor(3) is None
        assert not run.first.record_at(3).kept
    assert told == [True]
    assert keeper.kept_bytes == 80


def test_tensors_larger_than_a_stage_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A tensor that is handed over in pieces reads back whole, with its neighbours."""
    monkeypatch.setattr(writer, "STAGE_BYTES", 1 << 10)
    arrays = [np.arange(n * 1000, n * 1000 + size, dtype="<f8") for n, size in enumerate((3, 1000, 5, 128, 4000))]
    entries = [(f"r0/{n}/0/forward/m:#0:input.0", array) for n, array in enumerate(arrays)]
    with Run(write_run(tmp_path / "a", entries)) as run:
        for number, array in enumerate(arrays):
            np.testing.assert_array_equal(array, run.first.tensor(number))


def test_many_rows_pass_through_several_blocks(tmp_path: Path):
    """More rows than a block keep their order."""
    count = writer.BLOCK_ROWS * 2 + 17
    entries = [("r0/0/0/forward/m:#0:input.0", float(number)) for number in range(count)]
    with Run(write_run(tmp_path / "a", entries, keep_bytes=0)) as run:
        np.testing.assert_array_equal(np.arange(count, dtype=np.float64), run.first.events["value"])


def test_the_run_record_is_read_back_and_the_last_one_counts(tmp_path: Path):
    """All fields survive, and an update replaces what was known at the start."""
    first = RunRecord(command=("python", "train.py", "--name", "é\n"), world_size=2)
    settings_ = (Setting(layer=Layer.KERNELS, knob="tf32", value="True", resolved=True),)
    last = first.with_(
        options=RecordOptions(capture=Capture.DIGEST, keep_bytes=7, steps=(1, None), modules=("a.*",)),
        environment=Environment(settings_),
        aliases={"model:a": ["b"]},
        coverage={"hooks": 3},
        notes=("budget reached",),
    )
    path = tmp_path / "a.h5"
    keeper = RunWriter(path, first, keep_bytes=0, digest_algorithm=ALGORITHM)
    keeper.update(last)
    keeper.close(State.COMPLETE, 0)
    with Run(path) as run:
        assert run.first.record == last


@pytest.mark.parametrize("state", list(State))
def test_the_status_is_read_back(tmp_path: Path, state: State):
    """How the recording ended is in the file; one in progress belongs to a living process."""
    with Run(write_run(tmp_path / "a", training_rows(1), state=state, exit_status=3)) as run:
        assert run.first.status.state is state
        assert run.first.status.exit_status == 3


def test_the_exit_status_can_be_added_afterwards(tmp_path: Path):
    """The process that started the script notes its status in the closed file."""
    path = write_run(tmp_path / "a", training_rows(1), exit_status=None) / "rank-00000.h5"
    with Run(path) as run:
        assert run.first.status.exit_status is None

    assert set_exit_status(path, 137)
    with Run(path) as run:
        assert run.first.status.exit_status == 137
    assert not set_exit_status(tmp_path / "none.h5", 0)


def test_a_file_that_exists_is_never_overwritten(tmp_path: Path):
    """Two processes that claim one path collide before anything is lost."""
    path = write_run(tmp_path / "a", training_rows(1)) / "rank-00000.h5"
    before = path.read_bytes()

    with pytest.raises(OSError, match="exist"):
        RunWriter(path, RunRecord(), keep_bytes=0, digest_algorithm=ALGORITHM)
    assert path.read_bytes() == before


def test_rows_at_finds_every_record_of_an_address(tmp_path: Path):
    """An address that was recorded twice has two rows; one that was not is an error that names the run."""
    address = "r0/0/0/forward/m:a%3Ab#0:input.0"
    with Run(write_run(tmp_path / "a", [(address, 1.0), (address, 2.0)])) as run:
        assert run.first.rows_at(Address.parse(address)).tolist() == [0, 1]
        with pytest.raises(NoSuchAddressError, match="no record"):
            run.first.rows_at(Address.parse("r1/0/0/forward/m:a%3Ab#0:input.0"))


def test_the_reader_tolerates_what_later_versions_may_add(tmp_path: Path):
    """Unknown datasets, attributes and keys of the run record are passed over; missing keys have defaults."""
    path = write_run(tmp_path / "a", training_rows(1)) / "rank-00000.h5"
    with h5py.File(path, "r+", libver=("v110", "v110")) as file:
        file.create_dataset("future/table", data=np.arange(3))
        file["events"].attrs["future"] = "yes"
        document = b'{"command": ["x"], "future": {"a": 1}}\n'
        run = file["run"]
        run.resize((run.shape[0] + len(document),))
        run[-len(document) :] = np.frombuffer(document, "u1")
    with Run(path) as opened:
        assert opened.first.record == RunRecord(command=("x",))
        assert len(opened.first.events) == len(training_rows(1))


def test_further_columns_are_passed_over(tmp_path: Path):
    """Rows with columns that this version does not know are read by the names of the others."""
    path = write_run(tmp_path / "a", training_rows(1)) / "rank-00000.h5"
    with h5py.File(path, "r+", libver=("v110", "v110")) as file:
        rows_ = file["events"][:]
        wider = np.zeros(len(rows_), [*schema.EVENT.descr, ("future", "<f8")])
        for name in schema.EVENT.names or ():
            wider[name] = rows_[name]
        del file["events"]
        file.create_dataset("events", data=wider, maxshape=(None,), chunks=(64,))
    file_ = RunFile(path)
    assert str(file_.record_at(0).address) == training_rows(1)[0].address
    assert file_.tensor(0) is not None
    file_.close()


def test_a_half_written_document_is_passed_over(tmp_path: Path):
    """Only whole lines of /run count."""
    path = write_run(tmp_path / "a", [], record=RunRecord(cwd="/x")) / "rank-00000.h5"
    with h5py.File(path, "r+", libver=("v110", "v110")) as file:
        run = file["run"]
        run.resize((run.shape[0] + 5,))
        run[-5:] = np.frombuffer(b'{"cwd', "u1")
    with Run(path) as opened:
        assert opened.first.record.cwd == "/x"


def test_bytes_on_disk_are_named_after_their_type(tmp_path: Path):
    """HDF5 tools see plain numbers, and each pool says what they mean."""
    array = np.array([1.5, -2.0], "<f4")
    path = write_run(tmp_path / "a", [("r0/0/0/forward/m:#0:input.0", array)]) / "rank-00000.h5"
    with h5py.File(path, "r") as file:
        assert file["pool/float32"][:].tolist() == [1.5, -2.0]
        assert file["pool/bfloat16"].attrs["dtype"] == "bfloat16"
        assert file["pool/bfloat16"].dtype == np.dtype("<u2")
