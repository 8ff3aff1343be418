"""What happens when things go wrong: killed writers, damaged files, full disks, forks."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from bisect_diverge.errors import DamagedRunError, NewerSchemaError, NoSuchRunError, NotARunError, RunError
from bisect_diverge.model.address import Address
from bisect_diverge.model.run import RunRecord, State
from bisect_diverge.numerics.digest import ALGORITHM, digest, header
from bisect_diverge.store import writer
from bisect_diverge.store.reader import Run, RunFile
from bisect_diverge.store.writer import RunWriter
from tests.helpers.runs import Row, add_row, training_rows, write_run

WRITER = textwrap.dedent("""
    import sys, time
    from pathlib import Path
    import numpy as np
    from bisect_diverge.model.address import Address
    from bisect_diverge.model.run import RunRecord
    from bisect_diverge.numerics.digest import ALGORITHM
    from bisect_diverge.store.writer import RunWriter
    from tests.helpers.runs import Row, add_row

    writer = RunWriter(Path(sys.argv[1]), RunRecord(), keep_bytes=1 << 30, digest_algorithm=ALGORITHM)
    step = 0
    while True:
        with writer.lock:
            for module in range(5):
                address = Address.parse(f"r0/{step}/0/forward/m:block_{step % 50}.{module}#0:output.0")
                add_row(writer, address, Row("", np.full((3, 50), step * 10 + module, "<f8")))
            writer.hand_over()
        print(step, time.time(), flush=True)
        step += 1
        time.sleep(0.001)
""")


def killed_writers(folder: Path, seconds: list[float]) -> Iterator[tuple[Path, list[tuple[int, float]], float]]:
    """Start writers side by side and kill each after some time.

    Yields:
        The file, (step, time) of every step that its writer ended, and the time of the kill.
    """
    writers = []
    for number in range(len(seconds)):
        path = folder / str(number) / "rank-00000.h5"
        path.parent.mkdir()
        command = [sys.executable, "-c", WRITER, str(path)]
        root = Path(__file__).parent.parent.parent
        writers.append((path, subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)))
    killed = []
    begin = time.time()
    for _, process in writers:
        assert process.stdout is not None
        process.stdout.readline()
    for (_, process), after in sorted(zip(writers, seconds, strict=True), key=lambda pair: pair[1]):
        time.sleep(max(0.0, begin + after - time.time()))
        process.send_signal(signal.SIGKILL)
        killed.append((process, time.time()))
    times = dict(killed)
    for path, process in writers:
        with process:
            assert process.stdout is not None
            ends = [line.split() for line in process.stdout.read().splitlines() if len(line.split()) == 2]
        yield path, [(int(step), float(at)) for step, at in ends[:-1]], times[process]


def check_kills(folder: Path, seed: int, count: int) -> None:
    """Kill writers at random moments: every step older than a second is there, and every row is right."""
    chance = random.Random(seed)
    for path, ended, killed in killed_writers(folder, [chance.uniform(0.2, 2.0) for _ in range(count)]):
        with Run(path) as run:
            file = run.first
            assert file.status.state is State.INTERRUPTED
            assert file.steps > max((step for step, at in ended if at < killed - 1.0), default=-1)
            for row in range(len(file.events)):
                record = file.record_at(row)
                tensor = file.tensor(row)
                assert tensor is not None
                assert record.address.fqn == f"block_{row // 5 % 50}.{row % 5}"
                assert record.address.step == row // 5
                np.testing.assert_array_equal(np.full((3, 50), row // 5 * 10 + row % 5, "<f8"), tensor)
                assert record.digest == digest(header("float64", (3, 50)), tensor.tobytes()).hex()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_killed_writers_leave_every_flushed_step_readable(tmp_path: Path, seed: int):
    """E1: after kill -9 at ten random moments nothing is missing and nothing is wrong."""
    check_kills(tmp_path, seed, 5)


@pytest.mark.matrix
@pytest.mark.parametrize("seed", range(100, 125))
def test_a_hundred_killed_writers(tmp_path: Path, seed: int):
    """The same at a hundred moments."""
    check_kills(tmp_path, seed, 4)


def shown(path: Path) -> tuple[int, str]:
    """Return number of rows and state of a recording as another process sees them.

    HDF5 does not let one process open a file twice with different locking.
    """
    command = [sys.executable, "-m", "bisect_diverge", "show", str(path), "--format", "json"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    (rank,) = json.loads(result.stdout)["ranks"]
    return rank["records"], rank["state"]


def test_a_run_can_be_read_while_it_is_written(tmp_path: Path):
    """A reader sees the flushed rows of a living writer, and that it is in progress."""
    path = tmp_path / "rank-00000.h5"
    keeper = RunWriter(path, RunRecord(), keep_bytes=1 << 20, digest_algorithm=ALGORITHM)
    with keeper.lock:
        add_row(keeper, Address.parse("r0/0/0/forward/m:#0:input.0"), Row("", 1.0))
    # Nobody hands the row over: the writing thread takes what is there when a step takes long.
    time.sleep(3 * writer.FLUSH_SECONDS)
    seen = shown(path)
    keeper.close(State.COMPLETE)

    assert seen == (1, "in progress")
    assert shown(path) == (1, "complete")


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """Return the file of a complete run."""
    return write_run(tmp_path / "whole", training_rows(4)) / "rank-00000.h5"


def read_all(path: Path) -> int:
    """Read everything that a recording holds, and return the number of its rows."""
    with Run(path) as run:
        file = run.first
        for row in range(len(file.events)):
            file.record_at(row)
            file.tensor(row)
        return len(file.events)


def test_a_path_without_anything_is_no_such_run(tmp_path: Path):
    """A path that does not exist is said to be missing."""
    with pytest.raises(NoSuchRunError, match="nothing"):
        Run(tmp_path / "nothing")
    with pytest.raises(NoSuchRunError):
        RunFile(tmp_path / "nothing.h5")


def test_a_folder_without_recording_is_not_a_run(tmp_path: Path):
    """An empty directory is told apart from a missing one."""
    with pytest.raises(NotARunError, match="without a recording"):
        Run(tmp_path)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x89HDF", os.urandom(4096)])
def test_a_file_that_is_not_hdf5_is_not_a_run(tmp_path: Path, content: bytes):
    """Any other file is named as such."""
    path = tmp_path / "x.h5"
    path.write_bytes(content)

    with pytest.raises(NotARunError, match="not an HDF5 file"):
        Run(path)


def test_another_programs_hdf5_file_is_not_a_run(tmp_path: Path):
    """An HDF5 file of someone else is not read as a recording."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["data"] = np.arange(3)

    with pytest.raises(NotARunError, match="not a recording"):
        Run(path)


def test_a_recording_of_a_newer_schema_is_refused(whole: Path):
    """A later version's file says which version it needs."""
    with h5py.File(whole, "r+", libver=("v110", "v110")) as file:
        file.attrs["schema"] = 999

    with pytest.raises(NewerSchemaError, match="999"):
        Run(whole)


@pytest.mark.parametrize("name", ["events", "run", "status", "names", "pool"])
def test_a_recording_without_a_part_is_damaged(whole: Path, name: str):
    """A missing dataset is one of our errors, not a traceback."""
    with h5py.File(whole, "r+", libver=("v110", "v110")) as file:
        del file[name]

    with pytest.raises(DamagedRunError):
        read_all(whole)


@pytest.mark.parametrize("part", [0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_a_truncated_file_is_one_of_our_errors_or_reads_right(whole: Path, part: float):
    """A file cut anywhere is damaged, or what can still be read of it is correct."""
    size = int(whole.stat().st_size * part)
    with whole.open("r+b") as file:
        file.truncate(size)

    with contextlib.suppress(RunError):
        read_all(whole)


@pytest.mark.parametrize("seed", range(20))
def test_flipped_bytes_never_end_in_a_traceback(whole: Path, seed: int):
    """A file with damaged bytes is refused or read; it raises none but our errors."""
    random_ = random.Random(seed)
    content = bytearray(whole.read_bytes())
    for _ in range(30):
        content[random_.randrange(len(content))] ^= 1 << random_.randrange(8)
    whole.write_bytes(content)

    with contextlib.suppress(RunError):
        read_all(whole)


class FullDisk:
    """A dataset that cannot grow."""

    def __init__(self, inner: Any) -> None:
        self.shape = inner.shape

    def resize(self, shape: tuple[int, ...]) -> None:
        """Fail as HDF5 does on a full disk."""
        raise OSError(28, "No space left on device")

    def flush(self) -> None:
        """Do nothing."""


def test_an_error_in_the_writing_thread_does_not_reach_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A full disk stops the recording, not the run: adding rows goes on, and the error is kept."""
    keeper = RunWriter(tmp_path / "a.h5", RunRecord(), keep_bytes=1 << 30, digest_algorithm=ALGORITHM)
    monkeypatch.setattr(writer, "QUEUE_BYTES", 1 << 16)
    monkeypatch.setattr(keeper, "_events", FullDisk(keeper._events))
    address = Address.parse("r0/0/0/forward/m:#0:input.0")
    start = time.monotonic()
    for number in range(3000):
        add_row(keeper, address, Row("", np.full(64, number, "<f8")))
        if number % 100 == 0:
            keeper.hand_over()
    deadline = time.monotonic() + 10
    while keeper.error is None and time.monotonic() < deadline:
        time.sleep(0.05)
    for number in range(1000):
        add_row(keeper, address, Row("", np.full(64, -number, "<f8")))
    keeper.hand_over()
    keeper.close(State.COMPLETE, 0)

    assert isinstance(keeper.error, OSError)
    assert time.monotonic() - start < 30
    with Run(tmp_path / "a.h5") as run:
        assert len(run.first.events) == 0


def test_a_writer_that_cannot_be_created_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A failure while the file is set up raises, and no half a file stays."""
    monkeypatch.setattr(writer.schema, "create", lambda *_: (_ for _ in ()).throw(OSError("no")))

    with pytest.raises(OSError, match="no"):
        RunWriter(tmp_path / "a.h5", RunRecord(), keep_bytes=0, digest_algorithm=ALGORITHM)
    assert list(tmp_path.iterdir()) == []


def test_a_forked_child_cannot_write_into_the_parents_file(tmp_path: Path):
    """E2: a child abandons its copy; what it closes or flushes does not reach the parent's recording."""
    path = tmp_path / "a.h5"
    code = textwrap.dedent("""
        import os, sys
        from pathlib import Path
        from bisect_diverge.model.address import Address
        from bisect_diverge.model.run import RunRecord, State
        from bisect_diverge.numerics.digest import ALGORITHM
        from bisect_diverge.store.writer import RunWriter
        from tests.helpers.runs import Row, add_row

        writer = RunWriter(Path(sys.argv[1]), RunRecord(), keep_bytes=1 << 20, digest_algorithm=ALGORITHM)
        address = Address.parse("r0/0/0/forward/m:#0:input.0")
        with writer.lock:
            child = os.fork()
        if child == 0:
            writer.abandon()
            writer.close(State.INTERRUPTED, 1)
            os._exit(0)
        os.waitpid(child, 0)
        add_row(writer, address, Row("", 2.0))
        writer.close(State.COMPLETE, 0)
        assert writer.error is None
    """)
    root = Path(__file__).parent.parent.parent
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(path)], check=True, cwd=root)
    with Run(path) as run:
        assert run.first.status.state is State.COMPLETE
        assert run.first.events["value"].tolist() == [2.0]


def test_a_copied_run_reads_the_same(whole: Path, tmp_path: Path):
    """A recording may be moved: nothing in it depends on its path."""
    shutil.copy(whole, tmp_path / "elsewhere.h5")

    assert read_all(tmp_path / "elsewhere.h5") == read_all(whole)
