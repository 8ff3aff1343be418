"""What the recording file takes for granted about h5py and HDF5, one small test for each fact.

Nothing of this package is used here. Writers that are killed or read from outside are processes of their own: inside
one process HDF5 shares the state of a file between all its handles.
"""

import os
import signal
import subprocess
import sys
import textwrap
from contextlib import contextmanager

import h5py
import numpy as np
import pytest

SETUP = """
import os, signal, sys
import h5py, numpy as np
path = sys.argv[1]

def create(libver="v110"):
    file = h5py.File(path, "x", libver=libver, locking=False)
    rows = file.create_dataset("rows", shape=(0,), maxshape=(None,), dtype="i4", chunks=(16,))
    file.attrs["format"] = "test"
    return file, rows

def append(rows, values):
    start = len(rows)
    rows.resize((start + len(values),))
    rows[start:] = values

def wait():
    print("ready", flush=True)
    return sys.stdin.readline()

def kill():
    os.kill(os.getpid(), signal.SIGKILL)
"""


@contextmanager
def writer(path, body):
    """Run a writer in another process; yield a function that lets it go on and waits until it is ready again."""
    code = SETUP + textwrap.dedent(body)
    process = subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"

    def go_on():
        process.stdin.write("\n")
        process.stdin.flush()
        return process.stdout.readline()

    try:
        yield go_on
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


def written(path, body):
    """Run a writer to its end, however it ends; return its exit status."""
    code = SETUP + textwrap.dedent(body)
    return subprocess.run([sys.executable, "-c", code, path], check=False, timeout=60).returncode


def read(path, swmr):
    """Return the rows of a file, opened in a process that has no other handle on it."""
    with h5py.File(path, "r", swmr=swmr, locking=False) as file:
        return file["rows"][:].tolist()


# Reading while writing, and after a kill


def test_a_file_that_is_being_written_is_readable_with_swmr_only(tmp_path):
    """While its writer is alive a file opens with `swmr=True`, and only so."""
    path = tmp_path / "a.h5"
    body = """
        file, rows = create()
        file.swmr_mode = True
        append(rows, [1, 2])
        rows.flush()
        wait()
    """
    with writer(path, body):
        assert read(path, swmr=True) == [1, 2]
        with pytest.raises(OSError, match="already open for write"):
            read(path, swmr=False)
    assert read(path, swmr=False) == [1, 2]


def test_a_reader_sees_what_is_appended(tmp_path):
    """An open SWMR reader sees rows that were appended and flushed, once it refreshes the dataset."""
    path = tmp_path / "a.h5"
    body = """
        file, rows = create()
        file.swmr_mode = True
        wait()
        append(rows, range(20))
        rows.flush()
        wait()
    """
    with writer(path, body) as go_on, h5py.File(path, "r", swmr=True, locking=False) as file:
        rows = file["rows"]
        assert len(rows) == 0
        go_on()
        assert len(rows) == 0
        rows.refresh()
        assert rows[:].tolist() == list(range(20))


def test_what_is_not_flushed_is_not_there(tmp_path):
    """Rows that were written but not flushed are not in the file when its writer is killed."""
    path = tmp_path / "a.h5"
    status = written(
        path,
        """
        file, rows = create()
        file.swmr_mode = True
        append(rows, [1, 2])
        rows.flush()
        append(rows, [3, 4])
        kill()
        """,
    )
    assert status == -signal.SIGKILL
    assert read(path, swmr=True) == [1, 2]


@pytest.mark.parametrize("end", ["kill()", "os._exit(0)"])
def test_a_killed_writer_leaves_a_file_for_swmr_readers_only(tmp_path, end):
    """After `kill -9` or `os._exit` of an SWMR writer the file opens with `swmr=True`, and not without."""
    path = tmp_path / "a.h5"
    written(path, f"file, rows = create()\nfile.swmr_mode = True\nappend(rows, [1])\nrows.flush()\n{end}")
    assert read(path, swmr=True) == [1]
    with pytest.raises(OSError, match="already open for write"):
        read(path, swmr=False)
    with pytest.raises(OSError, match="already open"):
        h5py.File(path, "r+", locking=False)


def test_a_file_of_a_killed_writer_without_swmr_is_unreadable(tmp_path):
    """Without SWMR mode a flushed v110 file of a killed writer opens in no way."""
    path = tmp_path / "a.h5"
    written(path, "file, rows = create()\nappend(rows, [1])\nrows.flush()\nfile.flush()\nkill()")
    for swmr in (False, True):
        with pytest.raises(OSError, match="already open"):
            read(path, swmr=swmr)


def test_the_flag_of_a_killed_writer_is_one_byte_of_the_superblock(tmp_path):
    """The flag that keeps others out is byte 11; with it zeroed the file opens in every way.

    The superblock's checksum (bytes 44 to 47) has to be made again, or taken from the same file closed properly.
    """
    path, closed = tmp_path / "a.h5", tmp_path / "b.h5"
    body = "file, rows = create()\nfile.swmr_mode = True\nappend(rows, [1])\nrows.flush()\n"
    written(path, body + "kill()")
    written(closed, body + "file.close()")
    head, clean = path.read_bytes()[:48], closed.read_bytes()[:48]
    assert head[:8] == b"\x89HDF\r\n\x1a\n"
    assert head[8] == 3
    assert (head[11], clean[11]) == (5, 0)


def test_an_swmr_file_that_was_closed_is_an_ordinary_file(tmp_path):
    """After `close()` an SWMR-written file can be opened for reading and writing as any other."""
    path = tmp_path / "a.h5"
    assert written(path, "file, rows = create()\nfile.swmr_mode = True\nappend(rows, [1])\nfile.close()") == 0
    assert read(path, swmr=False) == [1]
    with h5py.File(path, "r+") as file:
        file.attrs["more"] = 1


def test_a_writer_that_ends_without_closing_closes(tmp_path):
    """A Python process that ends normally closes its open files, also after an exception."""
    path = tmp_path / "a.h5"
    assert written(path, "file, rows = create()\nfile.swmr_mode = True\nappend(rows, [1])\nsys.exit(3)") == 3
    assert read(path, swmr=False) == [1]


# What SWMR mode permits


def test_swmr_needs_a_new_file_format(tmp_path):
    """SWMR mode can be switched on with `libver` v110 or later, not with the default."""
    with h5py.File(tmp_path / "a.h5", "x", libver="v110") as file:
        assert file.libver[0] == "v110"
        file.swmr_mode = True
        assert file.swmr_mode
    with h5py.File(tmp_path / "b.h5", "x") as file, pytest.raises(RuntimeError, match="superblock version"):
        file.swmr_mode = True


def test_swmr_mode_cannot_be_left(tmp_path):
    """Once on, SWMR mode lasts until the file is closed."""
    with h5py.File(tmp_path / "a.h5", "x", libver="v110") as file:
        file.swmr_mode = True
        with pytest.raises(ValueError, match="not possible"):
            file.swmr_mode = False


def test_nothing_stops_new_objects_in_swmr_mode(tmp_path):
    """HDF5 forbids new datasets and attributes once SWMR is on, but refuses none: it is up to us."""
    with h5py.File(tmp_path / "a.h5", "x", libver="v110") as file:
        file.swmr_mode = True
        file.create_dataset("late", data=[1])
        file.create_group("group")
        file.attrs["late"] = 1
        assert file.swmr_mode


def test_a_reader_that_is_open_does_not_see_new_objects(tmp_path):
    """A dataset created after SWMR was switched on never appears to a reader that was open before."""
    path = tmp_path / "a.h5"
    body = """
        file, rows = create()
        file.swmr_mode = True
        wait()
        file.create_dataset("late", data=[1])
        file.flush()
        wait()
    """
    with writer(path, body) as go_on, h5py.File(path, "r", swmr=True, locking=False) as file:
        assert "late" not in file
        go_on()
        file["rows"].refresh()
        assert "late" not in file


def test_new_objects_are_lost_in_a_kill(tmp_path):
    """A dataset created in SWMR mode is gone after a kill when only the datasets from before were flushed."""
    path = tmp_path / "a.h5"
    written(
        path,
        """
        file, rows = create()
        file.swmr_mode = True
        late = file.create_dataset("late", data=[1])
        append(rows, [1])
        rows.flush()
        kill()
        """,
    )
    with h5py.File(path, "r", swmr=True, locking=False) as file:
        assert "late" not in file
        assert file["rows"][:].tolist() == [1]


def test_nothing_stops_variable_length_text_in_swmr_mode(tmp_path):
    """HDF5 forbids variable-length types in SWMR mode, but does not refuse them: it is up to us."""
    with h5py.File(tmp_path / "a.h5", "x", libver="v110") as file:
        text = file.create_dataset("text", shape=(0,), maxshape=(None,), dtype=h5py.string_dtype())
        file.swmr_mode = True
        text.resize((1,))
        text[0] = "word"
        assert text.asstr()[0] == "word"


def test_writing_rows_in_place_is_seen(tmp_path):
    """A row that is overwritten (the status) is new to a reader after a flush and a refresh."""
    path = tmp_path / "a.h5"
    body = """
        file, rows = create()
        append(rows, [1])
        file.swmr_mode = True
        wait()
        rows[0] = 7
        rows.flush()
        wait()
    """
    with writer(path, body) as go_on, h5py.File(path, "r", swmr=True, locking=False) as file:
        assert file["rows"][0] == 1
        go_on()
        file["rows"].refresh()
        assert file["rows"][0] == 7


# Opening


def test_x_refuses_a_file_that_exists(tmp_path):
    """Mode `x` raises FileExistsError and leaves the file that is there as it was."""
    path = tmp_path / "a.h5"
    path.write_bytes(b"something")
    with pytest.raises(FileExistsError):
        h5py.File(path, "x")
    assert path.read_bytes() == b"something"


LONG = """
    file, rows = create()
    file.swmr_mode = True
    append(rows, range(1, 10001))
    rows.flush()
"""


@pytest.mark.parametrize("keep", [0, 7, 100, 0.5, -1])
def test_a_file_that_was_closed_and_cut_off_does_not_open_without_swmr(tmp_path, keep):
    """A closed file that was cut off anywhere raises OSError when it is opened, if `swmr=True` is not given."""
    path = tmp_path / "a.h5"
    written(path, LONG + "    file.close()")
    size = path.stat().st_size
    os.truncate(path, int(size * keep) if isinstance(keep, float) else keep % size)
    with pytest.raises(OSError, match=r"truncated file|file signature not found"):
        h5py.File(path, "r")


@pytest.mark.parametrize("end", ["file.close()", "kill()"])
def test_swmr_readers_get_zeros_for_what_was_cut_off(tmp_path, end):
    """With `swmr=True` a file that was cut off opens, and rows that are gone read as zeros without any error."""
    path = tmp_path / "a.h5"
    written(path, LONG + f"    {end}")
    os.truncate(path, path.stat().st_size - 40)
    rows = read(path, swmr=True)
    assert len(rows) == 10000
    assert rows[0] == 1
    assert rows[-1] == 0


def test_swmr_readers_hang_where_the_index_was_cut_off(tmp_path):
    """With `swmr=True` a read whose chunk index is cut off is tried again without end: look at the size before."""
    path = tmp_path / "a.h5"
    written(path, LONG + "    kill()")
    os.truncate(path, path.stat().st_size // 2)
    code = "import sys, h5py; h5py.File(sys.argv[1], 'r', swmr=True, locking=False)['rows'][:]"
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-c", code, path], check=False, timeout=2.5)


def test_flushing_the_file_stores_its_length(tmp_path):
    """`File.flush` writes the file's length (superblock, byte 28) to disk, flushing a dataset does not.

    So a file that was cut off at more than the last flush is known by `File.id.get_filesize()` being larger than the
    file, whether it was closed or its writer killed.
    """
    path = tmp_path / "a.h5"
    written(path, LONG + "    kill()")
    size = path.stat().st_size
    assert int.from_bytes(path.read_bytes()[28:36], "little") < size
    path.unlink()
    written(path, LONG + "    file.flush()\n    kill()")
    size = path.stat().st_size
    assert int.from_bytes(path.read_bytes()[28:36], "little") == size
    os.truncate(path, size - 1)
    with h5py.File(path, "r", swmr=True, locking=False) as file:
        assert file.id.get_filesize() == size


def test_anything_else_is_not_hdf5(tmp_path):
    """`is_hdf5` tells a file of another kind, and a missing one, without raising."""
    path = tmp_path / "a.txt"
    path.write_text("text")
    assert not h5py.is_hdf5(path)
    assert not h5py.is_hdf5(tmp_path / "missing")


def test_two_writers_of_one_file_do_not_get_in_each_others_way_unseen(tmp_path):
    """A second writer of a file that is being written is refused, with locks or without."""
    path = tmp_path / "a.h5"
    with writer(path, "file, rows = create()\nfile.swmr_mode = True\nwait()"):
        for locking in (True, False):
            with pytest.raises(OSError, match=r"already open for write|lock file"):
                h5py.File(path, "r+", locking=locking)


def test_one_process_shares_the_state_of_a_file(tmp_path):
    """In one process a file that is open for writing opens for reading too, locking options have to agree."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "x", libver="v110", locking=False) as file:
        file.swmr_mode = True
        with pytest.raises(OSError, match="locking flag"):
            h5py.File(path, "r", locking=True)
        with h5py.File(path, "r", locking=False) as again:
            assert again.swmr_mode


# Values


def test_compound_rows_survive(tmp_path):
    """A packed compound type keeps its layout, and rows given as raw bytes are those bytes."""
    kind = np.dtype([("a", "<u8"), ("b", "<f8"), ("c", "u1"), ("d", "<u2"), ("e", "S4")])
    rows = np.array([(2**64 - 1, -0.0, 255, 65535, b"abc"), (0, np.inf, 0, 1, b"")], dtype=kind)
    with h5py.File(tmp_path / "a.h5", "x", libver="v110") as file:
        out = file.create_dataset("rows", shape=(0,), maxshape=(None,), dtype=kind, chunks=(2,))
        out.resize((2,))
        out[:] = np.frombuffer(rows.tobytes(), kind)
    with h5py.File(tmp_path / "a.h5", "r") as file:
        assert file["rows"].dtype == kind
        assert file["rows"].dtype.itemsize == 23
        assert file["rows"][:].tobytes() == rows.tobytes()


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "c8", "c16"])
def test_bits_of_unusual_numbers_survive(tmp_path, kind):
    """NaN payloads, signalling NaNs, -0.0 and subnormal numbers come back bit for bit."""
    bits = {2: "u2", 4: "u4", 8: "u8"}[np.dtype(kind).itemsize // (2 if kind[0] == "c" else 1)]
    width = np.dtype(bits).itemsize * 8
    exponent = {16: 0x7C00, 32: 0x7F800000, 64: 0x7FF0000000000000}[width]
    patterns = [1 << (width - 1), exponent + 1, exponent + 5, (1 << (width - 1)) + exponent + 3, 1, exponent]
    values = np.array(patterns, dtype=bits).view(kind)
    with h5py.File(tmp_path / "a.h5", "x", libver="v110") as file:
        file.create_dataset("values", data=values)
    with h5py.File(tmp_path / "a.h5", "r") as file:
        assert file["values"].dtype == values.dtype
        assert file["values"][:].tobytes() == values.tobytes()


def test_scalar_datasets_cannot_have_chunks(tmp_path):
    """A 0-d dataset has no chunks: single numbers go into a pool too."""
    with h5py.File(tmp_path / "a.h5", "x") as file, pytest.raises(TypeError, match="Scalar datasets"):
        file.create_dataset("scalar", data=1.5, chunks=(1,))


def test_names_with_slashes_make_groups(tmp_path):
    """A slash in a name makes a group, and `.` is no name: names of modules are data here, not names."""
    with h5py.File(tmp_path / "a.h5", "x") as file:
        file.create_dataset("a/b", data=1)
        assert isinstance(file["a"], h5py.Group)
        with pytest.raises(ValueError, match=r"(?i)unable"):
            file.create_dataset(".", data=1)
        with pytest.raises(ValueError, match="name already exists"):
            file.create_dataset("a/b", data=1)


def test_chunks_that_were_never_written_read_as_zeros(tmp_path):
    """Rows of a dataset that was resized but not written are zeros: a row's digest tells it from a hole."""
    with h5py.File(tmp_path / "a.h5", "x", libver="v110") as file:
        rows = file.create_dataset("rows", shape=(0,), maxshape=(None,), dtype="i4", chunks=(16,))
        rows.resize((40,))
        assert not rows[:].any()


# Processes


def test_fork_child_with_a_detached_handle_leaves_the_file_intact(tmp_path):
    """A forked child whose descriptor of the file leads to /dev/null may write, close and exit as it likes."""
    path = tmp_path / "a.h5"
    status = written(
        path,
        """
        file, rows = create()
        file.swmr_mode = True
        append(rows, [1, 2])
        rows.flush()
        append(rows, [3])  # not flushed yet: the child has it in its buffers too
        child = os.fork()
        if child == 0:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, file.id.get_vfd_handle())
            append(rows, range(100, 200))
            rows.flush()
            file.close()
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        append(rows, [4])
        rows.flush()
        file.close()
        """,
    )
    assert status == 0
    assert read(path, swmr=False) == [1, 2, 3, 4]


def test_fork_child_that_exits_normally_with_a_detached_handle_is_silent(tmp_path):
    """The same child may also just end: h5py closes the file at exit without a message and without harm."""
    path = tmp_path / "a.h5"
    code = SETUP + textwrap.dedent(
        """
        file, rows = create()
        file.swmr_mode = True
        append(rows, range(50))
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_RDWR), file.id.get_vfd_handle())
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        append(rows, [50])
        rows.flush()
        os._exit(0)
        """
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, path], capture_output=True, check=True, timeout=60
    )
    assert done.stderr == b""
    assert read(path, swmr=True) == list(range(51))


def test_the_descriptor_of_a_file_is_known(tmp_path):
    """`get_vfd_handle` returns the descriptor that HDF5 writes to."""
    with h5py.File(tmp_path / "a.h5", "x") as file:
        stat = os.fstat(file.id.get_vfd_handle())
    assert stat.st_ino == (tmp_path / "a.h5").stat().st_ino
