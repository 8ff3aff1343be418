"""Reads recordings: the index first and at once, tensors on demand.

A file that was not closed is opened in SWMR mode: a run can be read while it is recorded and after a kill.
"""

from __future__ import annotations

import json
import os
import re
import socket
from functools import cached_property
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bisect_diverge.errors import (
    DamagedRunError,
    NewerSchemaError,
    NoSuchAddressError,
    NoSuchRunError,
    NotARunError,
)
from bisect_diverge.model.address import PHASE_CODE, PHASES, Address, micro_batch_code, micro_batch_text
from bisect_diverge.model.elements import ELEMENT_TYPES
from bisect_diverge.model.record import Flag, TensorRecord
from bisect_diverge.model.run import SCHEMA, RunRecord, State, Status
from bisect_diverge.store import schema

_READ_ERRORS = (OSError, KeyError, ValueError, TypeError, RuntimeError, OverflowError)
"""What h5py and numpy raise when the bytes of a file are not what its structure says."""

RUNS_NAMED = 10
"""Runs in a directory that a message names."""

_RANK_FILE = re.compile(r"rank-(\d+)(?:\.(\d+))?\.h5")


class RunFile:
    """The recording of one rank.

    Args:
        path: An ``.h5`` file.

    Raises:
        NoSuchRunError, NotARunError, DamagedRunError, NewerSchemaError: if it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = _open(path)
        try:
            self.digest_algorithm = str(self._file.attrs["digest"])
            self.record = self._read_record()
            self.status = self._read_status()
        except (*_READ_ERRORS, IndexError) as error:
            self._file.close()
            raise _damaged(path, error) from error

    def close(self) -> None:
        """Close the file; tensors can no longer be read."""
        self._file.close()

    @cached_property
    def events(self) -> NDArray[Any]:
        """All rows, in execution order: structured array of `store.schema.EVENT`; read once, then kept."""
        try:
            rows: NDArray[Any] = self._file["events"][:]
            # A writer killed inside a flush can leave the length ahead of the rows: they read as zeros.
            holes = np.flatnonzero((rows["digest0"] == 0) & (rows["digest1"] == 0))
            rows = rows[: holes[0]] if len(holes) else rows
            self._check(rows)
        except _READ_ERRORS as error:
            raise _damaged(self.path, error) from error
        return rows

    @cached_property
    def names(self) -> list[tuple[str, str, str]]:
        """Root, FQN and module type for each name number."""
        out = []
        for text in self._texts("names"):
            root, _, rest = text.partition(schema.NAME_SEPARATOR)
            fqn, _, kind = rest.partition(schema.NAME_SEPARATOR)
            out.append((root, fqn, kind))
        return out

    @cached_property
    def slots(self) -> list[str]:
        """Slot for each slot number."""
        return self._texts("slots")

    @cached_property
    def sites(self) -> list[str]:
        """``file:line`` for each site number."""
        return self._texts("sites")

    @cached_property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shape for each shape number."""
        try:
            dims = self._file["shapes/dims"][:].tolist()
            ends = self._file["shapes/ends"][:].tolist()
            return [tuple(dims[start:end]) for start, end in zip([0, *ends][: len(ends)], ends, strict=True)]
        except _READ_ERRORS as error:
            raise _damaged(self.path, error) from error

    @property
    def steps(self) -> int:
        """Number of steps that have rows: one more than the last step; 0 for an empty recording."""
        return int(self.events["step"].max()) + 1 if len(self.events) else 0

    @property
    def step_count(self) -> int:
        """Number of steps that have rows; fewer than `steps` where ``--steps`` left some out."""
        return int(np.count_nonzero(np.bincount(self.events["step"]))) if len(self.events) else 0

    def address(self, row: int) -> Address:
        """Return the address of a row."""
        event = self.events[row]
        root, fqn, _ = self.names[event["name"]]
        return Address(
            rank=self.record.rank,
            step=int(event["step"]),
            micro_batch=micro_batch_text(int(event["micro_batch"])),
            phase=PHASES[event["phase"]],
            root=root,
            fqn=fqn,
            call=int(event["call"]),
            slot=self.slots[event["slot"]],
        )

    def record_at(self, row: int) -> TensorRecord:
        """Return a row as a value."""
        event = self.events[row]
        return TensorRecord(
            row=row,
            address=self.address(row),
            module_type=self.names[event["name"]][2],
            site=self.sites[event["site"]] if self.sites else "",
            dtype=ELEMENT_TYPES[event["dtype"]].name,
            shape=self.shapes[event["shape"]],
            digest=(event["digest0"].tobytes() + event["digest1"].tobytes()).hex(),
            flags=Flag(int(event["flags"])),
            value=float(event["value"]),
            source=int(event["source"]),
            kept=bool(event["offset"] >= 0),
        )

    def rows_at(self, address: Address) -> NDArray[np.intp]:
        """Return the numbers of the rows at an address: one, or more where it was recorded repeatedly.

        Raises:
            NoSuchAddressError: if there is none.
        """
        events = self.events
        place = (address.root, address.fqn)
        names = [number for number, (root, fqn, _) in enumerate(self.names) if (root, fqn) == place]
        slots = [number for number, slot in enumerate(self.slots) if slot == address.slot]
        found = np.flatnonzero(
            (events["step"] == address.step)
            & (events["micro_batch"] == micro_batch_code(address.micro_batch))
            & (events["phase"] == PHASE_CODE[address.phase])
            & (events["call"] == address.call)
            & np.isin(events["name"], names)
            & np.isin(events["slot"], slots)
        )
        if address.rank != self.record.rank or not len(found):
            raise NoSuchAddressError(
                f"{self.path} has no record at {address}",
                hint=f"bd show {self.path} lists what it has",
            )
        return found

    def tensor(self, row: int) -> NDArray[Any] | None:
        """Return the tensor of a row with its recorded shape, in the storage type of its pool; None if not kept."""
        event = self.events[row]
        element = ELEMENT_TYPES[event["dtype"]]
        if event["offset"] < 0 or not element.storage:
            return None
        shape = self.shapes[event["shape"]]
        count = int(np.prod(shape, dtype=np.int64))
        start = int(event["offset"])
        try:
            flat: NDArray[Any] = self._file[schema.pool_name(element)][start : start + count]
            if len(flat) == count:
                return flat.reshape(shape)
        except _READ_ERRORS as error:
            raise _damaged(self.path, error) from error
        raise DamagedRunError(f"{self.path} is cut off: the bytes of {self.address(row)} are missing")

    def _texts(self, table: str) -> list[str]:
        try:
            body = self._file[f"{table}/bytes"][:].tobytes()
            ends = self._file[f"{table}/ends"][:].tolist()
            starts = [0, *ends][: len(ends)]
            return [body[a:b].decode("utf-8", "surrogatepass") for a, b in zip(starts, ends, strict=True)]
        except _READ_ERRORS as error:
            raise _damaged(self.path, error) from error

    def _check(self, rows: NDArray[Any]) -> None:
        """Raise ValueError where a row points outside of a table, so that whoever indexes one need not look."""
        sizes = {
            "name": len(self.names),
            "slot": len(self.slots),
            "shape": len(self.shapes),
            "phase": len(PHASES),
            "dtype": len(ELEMENT_TYPES),
        }
        if self.sites:
            sizes["site"] = len(self.sites)
        for column, size in sizes.items():
            if len(rows) and int(rows[column].max()) >= size:
                raise ValueError(f"a record has {column} {int(rows[column].max())} of {size}")

    def _read_record(self) -> RunRecord:
        documents = self._file["run"][:].tobytes().split(b"\n")
        whole = [document for document in documents[:-1] if document]
        return RunRecord.from_json(json.loads(whole[-1])) if whole else RunRecord()

    def _read_status(self) -> Status:
        row = self._file["status"][0]
        state = list(State)[row["state"]]
        host, pid = row["host"].decode("utf-8", "replace"), int(row["pid"])
        if state is State.IN_PROGRESS and not _alive(host, pid, float(row["started"])):
            state = State.INTERRUPTED
        exit_status = int(row["exit_status"])
        return Status(
            state=state,
            exit_status=None if exit_status == schema.NO_EXIT_STATUS else exit_status,
            host=host,
            pid=pid,
            started=float(row["started"]),
        )


class Run:
    """A recorded run: one file per rank.

    Args:
        path: The run's directory, or one of its files.

    Raises:
        NoSuchRunError, NotARunError, DamagedRunError, NewerSchemaError: if it cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.ranks: dict[int, RunFile] = {}
        """The first recording of each rank."""
        self.extra: list[Path] = []
        """Recordings of further processes of the same rank; not compared."""
        files = self._files()
        for file in files:
            match = _RANK_FILE.fullmatch(file.name)
            if match and match[2] and file.with_name(f"rank-{match[1]}.h5") in files:
                self.extra.append(file)
                continue
            opened = RunFile(file)
            if opened.record.rank in self.ranks:
                opened.close()
                self.extra.append(file)
            else:
                self.ranks[opened.record.rank] = opened

    @property
    def first(self) -> RunFile:
        """The recording of the lowest rank."""
        return self.ranks[min(self.ranks)]

    def close(self) -> None:
        """Close all files."""
        for file in self.ranks.values():
            file.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _files(self) -> list[Path]:
        if not self.path.exists():
            raise NoSuchRunError(
                f"no such run: {self.path}",
                hint=f"record one with: bd record -o {self.path} -- python train.py",
            )
        if not self.path.is_dir():
            return [self.path]
        files = sorted(self.path.glob("rank-*.h5"))
        if not files:
            raise NotARunError(
                f"{self.path} is a directory without a recording (no rank-*.h5 in it)", hint=_inside(self.path)
            )
        return files


def _inside(folder: Path) -> str:
    """Return what to do with a directory that is no run: name the runs in it."""
    runs = sorted({str(file.parent) for file in folder.glob("*/rank-*.h5")})
    if not runs:
        return "if it was just recorded: the script called no module, or it never imported torch"
    more = f", ... ({len(runs) - RUNS_NAMED} more)" if len(runs) > RUNS_NAMED else ""
    return f"it holds {'this run' if len(runs) == 1 else 'these runs'}: {', '.join(runs[:RUNS_NAMED])}{more}"


def _open(path: Path) -> Any:
    if not path.exists():
        raise NoSuchRunError(f"no such run: {path}")
    try:
        hdf5 = h5py.is_hdf5(path)
    except OSError:
        hdf5 = False
    if not hdf5:
        raise NotARunError(f"{path} is not an HDF5 file", hint="give a run directory or one of its rank-*.h5 files")
    try:
        # No locks: they fail on some network file systems, and SWMR needs none. A closed file is read without SWMR:
        # with it HDF5 reads damaged metadata again and again, for minutes, in case a writer is about to mend it.
        file = h5py.File(path, "r", swmr=_is_open_for_swmr(path), locking=False)
    except OSError as error:
        raise _damaged(path, error) from error
    if file.id.get_filesize() > path.stat().st_size:  # in SWMR mode HDF5 itself does not look, and may never return
        file.close()
        raise _damaged(path, EOFError("its end is missing"))
    found = file.attrs.get("format")
    if found != schema.FORMAT:
        file.close()
        raise NotARunError(
            f"{path} is an HDF5 file, but not a recording",
            hint="record one with: bd record -o RUN -- python train.py",
        )
    version = int(file.attrs.get("schema", 0))
    if version > SCHEMA:
        file.close()
        raise NewerSchemaError(
            f"{path} was recorded by a newer version (schema {version}; this one reads up to {SCHEMA})",
            hint="pip install --upgrade bisect-diverge",
        )
    return file


def _is_open_for_swmr(path: Path) -> bool:
    """Whether a file is being written, or its writer was killed: what its superblock says (version 3, byte 11)."""
    with path.open("rb") as file:
        head = file.read(12)
    return len(head) == 12 and head[8] >= 3 and bool(head[11] & 0x04)


def _damaged(path: Path, error: BaseException) -> DamagedRunError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return DamagedRunError(
        f"{path} is damaged or cut off: {reason}",
        hint="copy it again from where it was recorded, or record the run again",
    )


def _alive(host: str, pid: int, started: float) -> bool:
    """Whether the process that wrote a file may still be writing it."""
    if host != socket.gethostname():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # The number may belong to another process by now: one that is younger than the recording.
    try:
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        uptime = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return True
    import time

    born = time.time() - uptime + ticks / os.sysconf("SC_CLK_TCK")
    return born <= started + 1.0


def progress(run: Path) -> tuple[int, int] | None:
    """Return last step and number of rows of a run that is being recorded; None while there is no file."""
    path = schema.rank_path(run, 0)
    try:
        with h5py.File(path, "r", swmr=True, locking=False) as file:
            events = file["events"]
            count = int(events.shape[0])
            return (int(events[count - 1]["step"]) if count else 0), count
    except (OSError, KeyError):
        return None
