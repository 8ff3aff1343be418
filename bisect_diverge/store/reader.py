"""Reads recordings: the index first and at once, tensors on demand.

A file that was not closed is opened in SWMR mode: a run can be read while it is recorded and after a kill.
"""

from __future__ import annotations

import json
import math
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
    NoSuchAddressError,
    NoSuchRunError,
    NotARunError,
)
from bisect_diverge.model.address import PHASE_CODE, PHASES, Address, micro_batch_code, micro_batch_text
from bisect_diverge.model.elements import ELEMENT_TYPES, ElementType
from bisect_diverge.model.record import Flag, TensorRecord
from bisect_diverge.model.run import RunRecord, State, Status
from bisect_diverge.store import schema
from bisect_diverge.store.opening import READ_ERRORS, damaged, dataset, open_recording, written
from bisect_diverge.store.rows import BLOCK, stored_rows

_LARGEST_RANK = 2**31 - 1
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
        self._file = open_recording(path)
        self._pools: dict[str, Any] = {}
        self.wrong_sources: NDArray[np.intp] = np.zeros(0, np.intp)
        """Rows whose source is not an earlier row, known once `events` is read; there it is set to -1."""
        self._size = path.stat().st_size
        try:
            self.digest_algorithm = str(self._file.attrs["digest"])
            self.device_algorithm = str(self._file.attrs.get("digest_on_device", ""))
            self.record = self._read_record()
            self.status = self._read_status()
        except (*READ_ERRORS, IndexError) as error:
            self._file.close()
            raise damaged(path, error) from error

    def close(self) -> None:
        """Close the file; tensors can no longer be read."""
        self._file.close()

    @cached_property
    def events(self) -> NDArray[Any]:
        """All rows, in execution order: structured array of `store.schema.EVENT`, or what is indexed like one."""
        try:
            table = dataset(self._file, "events", "V")
            rows = stored_rows(table, written(table))
            end, self.wrong_sources = self._checked(rows)
            if end < len(rows):
                rows = stored_rows(table, end)
            if len(self.wrong_sources) and not isinstance(rows, np.ndarray):
                raise ValueError("a record names itself or a later one as its source")
        except READ_ERRORS as error:
            raise damaged(self.path, error) from error
        # Only an earlier record can be a source; one that is not says nothing of the tensor itself.
        if len(self.wrong_sources):
            rows["source"][self.wrong_sources] = -1
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
            dims = self._column("shapes/dims").tolist()
            if dims and min(dims) < 0:
                raise ValueError("a shape has a negative size")
            return [tuple(dims[start:end]) for start, end in self._spans("shapes/ends", len(dims))]
        except READ_ERRORS as error:
            raise damaged(self.path, error) from error

    @property
    def steps(self) -> int:
        """Number of steps that have rows: one more than the last step; 0 for an empty recording."""
        return int(self.events["step"].max()) + 1 if len(self.events) else 0

    @property
    def step_count(self) -> int:
        """Number of steps that have rows; fewer than `steps` where ``--steps`` left some out."""
        return len(np.unique(self.events["step"]))

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
            digest=schema.digest_of(event).hex(),
            flags=Flag(int(event["flags"])),
            value=float(event["value"]),
            source=int(event["source"]),
            kept=bool(event["offset"] >= 0 and ELEMENT_TYPES[event["dtype"]].storage),
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
        """Return the tensor of a row with its recorded shape, in the storage type of its pool; None if not kept.

        Raises:
            DamagedRunError: if the file does not have its bytes.
        """
        event = self.events[row]
        element = ELEMENT_TYPES[event["dtype"]]
        if event["offset"] < 0 or not element.storage:
            return None
        shape = self.shapes[event["shape"]]
        count = math.prod(shape)
        start = int(event["offset"])
        try:
            pool = self.pool(element)
            # More than the file has bytes would be a length that nothing was written for: do not even make room.
            if start + count <= len(pool) and count * element.itemsize <= self._size:
                flat: NDArray[Any] = pool[start : start + count]
                return flat.reshape(shape)
        except READ_ERRORS as error:
            raise damaged(self.path, error) from error
        raise DamagedRunError(
            f"{self.path} is cut off: the bytes of {self.address(row)} are missing",
            hint=f"bd check {self.path} lists all that is missing",
        )

    def pool(self, element: ElementType) -> Any:
        """Return the h5py dataset that holds the elements of a type.

        Raises:
            One of `opening.READ_ERRORS`: if it is not there or not what it should be.
        """
        name = schema.pool_name(element)
        if name not in self._pools:
            found = dataset(self._file, name, np.dtype(element.storage).kind)
            if found.dtype.itemsize != element.itemsize:
                raise ValueError(f"/{name} has elements of {found.dtype.itemsize} bytes")
            self._pools[name] = found
        return self._pools[name]

    def _column(self, name: str) -> NDArray[Any]:
        """Return one dataset of integers, as far as it was written."""
        found = dataset(self._file, name, "iu")
        values: NDArray[Any] = found[: written(found)]
        return values

    def _spans(self, name: str, size: int) -> list[tuple[int, int]]:
        """Return start and end of each entry of a table whose body has some size."""
        ends = self._column(name).tolist()
        spans = list(zip([0, *ends][: len(ends)], ends, strict=True))
        if any(not 0 <= start <= end <= size for start, end in spans):
            raise ValueError(f"an entry of /{name} lies outside of its table")
        return spans

    def _texts(self, table: str) -> list[str]:
        try:
            body = self._column(f"{table}/bytes").tobytes()
            spans = self._spans(f"{table}/ends", len(body))
            return [body[start:end].decode("utf-8", "surrogatepass") for start, end in spans]
        except READ_ERRORS as error:
            raise damaged(self.path, error) from error

    def _checked(self, rows: NDArray[Any]) -> tuple[int, NDArray[np.intp]]:
        """Return the number of rows that were written, and those of them whose source is not an earlier row.

        One pass, block by block: the rows of a long recording stay in the file.

        Raises:
            ValueError: if a row points outside of a table, so that whoever indexes one need not look.
        """
        for name, kind in schema.EVENT.fields.items() if schema.EVENT.fields else ():
            if rows.dtype[name].kind != kind[0].kind:
                raise ValueError(f"/events has a column {name} of type {rows.dtype[name]}")
        wrong: list[NDArray[np.intp]] = []
        end = len(rows)
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            # A writer killed inside a flush can leave the length ahead of the rows: they read as zeros.
            holes = np.flatnonzero((block["digest0"] == 0) & (block["digest1"] == 0))
            block = block[: holes[0]] if len(holes) else block
            if len(block):
                self._check(block)
                wrong.append(start + np.flatnonzero(block["source"] >= np.arange(start, start + len(block))))
            if len(holes):
                end = start + int(holes[0])
                break
        return end, np.concatenate(wrong) if wrong else np.zeros(0, np.intp)

    def _check(self, rows: NDArray[Any]) -> None:
        """Raise ValueError where one of some rows points outside of a table."""
        for column, size in self._limits.items():
            largest = int(rows[column].max())
            if largest >= size:
                raise ValueError(f"a record has {column} {largest} of {size}")
        for column, least in (("step", 0), ("offset", -1), ("source", -1)):
            smallest = int(rows[column].min())
            if smallest < least:
                raise ValueError(f"a record has {column} {smallest}")

    @cached_property
    def _limits(self) -> dict[str, int]:
        """How many entries each table has that a column of the rows points into."""
        sizes = {
            "name": len(self.names),
            "slot": len(self.slots),
            "shape": len(self.shapes),
            "phase": len(PHASES),
            "dtype": len(ELEMENT_TYPES),
        }
        return sizes | ({"site": len(self.sites)} if self.sites else {})

    def _read_record(self) -> RunRecord:
        documents = self._column("run").tobytes().split(b"\n")
        whole = [document for document in documents[:-1] if document]
        record = RunRecord.from_json(json.loads(whole[-1])) if whole else RunRecord()
        if not 0 <= record.rank <= _LARGEST_RANK:
            raise ValueError(f"its rank is {record.rank}")
        return record

    def _read_status(self) -> Status:
        row = dataset(self._file, "status", "V")[0]
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
        files = run_files(self.path)
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


def run_files(path: Path) -> list[Path]:
    """Return the files of a run: those of its directory, or the one that was named.

    Raises:
        NoSuchRunError, NotARunError: if there is none.
    """
    if not path.exists():
        raise NoSuchRunError(
            f"no such run: {path}",
            hint=f"record one with: bd record -o {path} -- python train.py",
        )
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("rank-*.h5"))
    if not files:
        raise NotARunError(f"{path} is a directory without a recording (no rank-*.h5 in it)", hint=_inside(path))
    return files


def _inside(folder: Path) -> str:
    """Return what to do with a directory that is no run: name the runs in it."""
    runs = sorted({str(file.parent) for file in folder.glob("*/rank-*.h5")})
    if not runs:
        return "if it was just recorded: the script called no module, or it never imported torch"
    more = f", ... ({len(runs) - RUNS_NAMED} more)" if len(runs) > RUNS_NAMED else ""
    return f"it holds {'this run' if len(runs) == 1 else 'these runs'}: {', '.join(runs[:RUNS_NAMED])}{more}"


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
