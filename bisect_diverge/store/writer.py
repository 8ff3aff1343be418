"""Writes one rank's recording: rows and bytes are handed over in the training thread, written in another.

The file is in HDF5's single-writer / multiple-reader mode, so that it is consistent on disk at any moment. Order is
what makes it so: bytes reach their pool, and the pool the disk, before the rows that point at them are written.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bisect_diverge.model.elements import ELEMENT_TYPES
from bisect_diverge.model.record import Flag
from bisect_diverge.model.run import SCHEMA, RunRecord, State
from bisect_diverge.store import schema

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STAGE_BYTES = 4 << 20
"""Bytes gathered before they are handed over; a multiple of every element size."""
BLOCK_ROWS = 4096
"""Rows gathered before they are handed over."""
FLUSH_SECONDS = 0.4
"""A row is on disk at most about twice this long after it was added (the promise is one second)."""
QUEUE_BYTES = 192 << 20
"""Bytes handed over and not yet written, at which the training thread waits."""
SEEN_LIMIT = 200_000
"""Digests remembered to avoid storing a tensor twice; older ones are forgotten and stored again."""
SPARE_STAGES = 16

_STORED_FLAG = int(Flag.DIGEST_ONLY)
_ROW_BYTES = schema.PACK.size
_BLOCK_BYTES = BLOCK_ROWS * _ROW_BYTES
_pack_into = schema.PACK.pack_into

Bytes = NDArray[np.uint8]


@dataclass(slots=True)
class _Stage:
    """The bytes of one element type that are waiting to be handed over."""

    code: int
    itemsize: int
    cursor: int = 0
    """Element offset in the pool of the next tensor."""
    buffer: Bytes | None = None
    begin: int = 0
    """First byte of `buffer` that has not been handed over."""
    end: int = 0
    """First free byte of `buffer`."""


@dataclass(slots=True)
class _Chunk:
    """Bytes on their way to a pool."""

    code: int
    start: int
    data: Bytes
    spare: Bytes | None
    """The whole buffer, when this was its last piece."""


@dataclass(slots=True)
class _Table:
    """Interned texts and those of them that are not written yet."""

    numbers: dict[Any, int] = field(default_factory=dict)
    fresh: list[bytes] = field(default_factory=list)


class RunWriter:
    """The recording of one process.

    Every public method but `error` must be called with `lock` held, or from one thread only.

    Args:
        path: File to create; it must not exist.
        record: What is known of the run at the start.
        keep_bytes: Budget for tensor bytes; 0 keeps digests only.
        digest_algorithm: Name of the algorithm that made the digests of the rows.
        on_budget: Called once, from the training thread, when the budget is used up.
        lock: Held by the caller while it adds rows; the writing thread takes it when it hands over what a slow
            step has gathered. None: one of our own, `lock`.

    Raises:
        OSError: if the file cannot be created.
    """

    def __init__(
        self,
        path: Path,
        record: RunRecord,
        *,
        keep_bytes: int,
        digest_algorithm: str,
        on_budget: Callable[[], None] = lambda: None,
        lock: threading.RLock | None = None,
    ) -> None:
        self.path = path
        self.lock = lock if lock is not None else threading.RLock()
        self.error: BaseException | None = None
        """What stopped the writing; the run goes on without us."""
        self.kept_bytes = 0
        self.rows = 0
        self._pid = os.getpid()
        self._keep_bytes = keep_bytes
        self._on_budget = on_budget
        self._budget_left = keep_bytes > 0
        self._block = bytearray(_BLOCK_BYTES)
        self._filled = 0
        self._seen: dict[bytes, int] = {}
        self._stages = {e.code: _Stage(e.code, e.itemsize) for e in schema.POOLED}
        self._dirty_stages: set[int] = set()
        self._spare: deque[Bytes] = deque(maxlen=SPARE_STAGES)
        self._tables = {name: _Table() for name in (*schema.TABLES, "shapes")}
        self._names, self._slots, self._sites, self._shapes = (
            self._tables[name].numbers for name in ("names", "slots", "sites", "shapes")
        )
        self._documents = [self._encode(record)]
        self._queue: deque[_Chunk | bytes] = deque()
        self._waiting = 0
        self._condition = threading.Condition()
        self._closing = False

        # "x": an existing run is never overwritten; two ranks that claim one path collide here, not in the data.
        # No locks: they fail on some network file systems, and nobody else opens this path for writing.
        # No chunk cache: we write large pieces once, and the cache would copy each of them (3 times slower here).
        self._file = h5py.File(path, "x", libver=("v110", "v110"), rdcc_nbytes=0, locking=False)
        try:
            schema.create(self._file, digest_algorithm, SCHEMA)
            self._data = {e.code: self._file[schema.pool_name(e)] for e in schema.POOLED}
            self._events = self._file["events"]
            self._status_row = np.zeros((), schema.STATUS)
            self._status_row["schema"] = SCHEMA
            self._status_row["host"] = socket.gethostname().encode()[:64]
            self._status_row["pid"] = self._pid
            self._status_row["started"] = time.time()
            self._status_row["exit_status"] = schema.NO_EXIT_STATUS
            self._file["status"][0] = self._status_row
            self._file.swmr_mode = True
            self._flush(b"")
        except BaseException:
            self._file.close()
            path.unlink(missing_ok=True)
            raise
        self._thread = threading.Thread(target=self._work, name="bisect-diverge-writer", daemon=True)
        self._thread.start()

    # -- training thread ---------------------------------------------------------------------------------------

    def name(self, root: str, fqn: str, module_type: str) -> int:
        """Return the number of a name, adding it when it is new."""
        key = (root, fqn, module_type)
        number = self._names.get(key)
        return self._intern("names", key, schema.NAME_SEPARATOR.join(key)) if number is None else number

    def slot(self, text: str) -> int:
        """Return the number of a slot, adding it when it is new."""
        number = self._slots.get(text)
        return self._intern("slots", text, text) if number is None else number

    def site(self, text: str) -> int:
        """Return the number of a call site, adding it when it is new."""
        number = self._sites.get(text)
        return self._intern("sites", text, text) if number is None else number

    def shape(self, shape: tuple[int, ...]) -> int:
        """Return the number of a shape, adding it when it is new."""
        number = self._shapes.get(shape)
        if number is None:
            number = self._shapes[shape] = len(self._shapes)
            self._tables["shapes"].fresh.append(np.asarray(shape, "<i8").tobytes())
        return number

    def add(
        self,
        digest: bytes,
        step: int,
        micro_batch: int,
        phase: int,
        name: int,
        call: int,
        slot: int,
        dtype: int,
        shape: int,
        site: int = 0,
        flags: int = 0,
        value: float = float("nan"),
        source: int = -1,
        data: Bytes | None = None,
        offset: int = -1,
    ) -> int:
        """Add one row and return its number.

        Args:
            digest: 16 bytes.
            step: Step of the row.
            micro_batch: Code of the micro-batch (`model.address.micro_batch_code`).
            phase: Code of the phase.
            name: Number from `name`.
            call: n-th call in the micro-batch.
            slot: Number from `slot`.
            dtype: Code of the element type.
            shape: Number from `shape`.
            site: Number from `site`.
            flags: `model.record.Flag` bits; DIGEST_ONLY is set here.
            value: The value of a one-element tensor.
            source: Row of the same tensor or its base.
            data: uint8[n], the logical bytes; copied before this returns. None: digest only.
            offset: What `keep` returned for the bytes, where that was done before.
        """
        if data is not None:
            offset = self.keep(digest, dtype, data)
        if offset < 0:
            flags |= _STORED_FLAG
        filled = self._filled
        _pack_into(
            self._block,
            filled,
            digest,
            value,
            offset,
            source,
            step,
            micro_batch,
            call,
            name,
            slot,
            shape,
            site,
            phase,
            dtype,
            flags,
        )
        self._filled = filled = filled + _ROW_BYTES
        row = self.rows
        self.rows = row + 1
        if filled == _BLOCK_BYTES:
            self.hand_over()
        return row

    def keep(self, digest: bytes, code: int, data: Bytes) -> int:
        """Copy the bytes of a tensor, unless they are there already, and return the first element in their pool.

        -1: they are not kept, the budget being used up.

        Args:
            digest: 16 bytes.
            code: Code of the element type.
            data: uint8[n], the logical bytes.
        """
        if not self._keep_bytes:
            return -1
        known = self._seen.get(digest)
        if known is not None:
            return known
        size = data.nbytes
        if not self._budget_left or self.kept_bytes + size > self._keep_bytes:
            if self._budget_left:
                self._budget_left = False
                self._on_budget()
            return -1
        stage = self._stages[code]
        offset = stage.cursor
        stage.cursor += size // stage.itemsize
        self.kept_bytes += size
        if len(self._seen) >= SEEN_LIMIT:
            for old in list(self._seen)[: SEEN_LIMIT // 2]:
                del self._seen[old]
        self._seen[digest] = offset
        done = 0
        while done < size:
            if stage.buffer is None:
                stage.buffer = self._spare.pop() if self._spare else np.empty(STAGE_BYTES, np.uint8)
                stage.begin = stage.end = 0
            count = min(size - done, STAGE_BYTES - stage.end)
            stage.buffer[stage.end : stage.end + count] = data[done : done + count]
            stage.end += count
            done += count
            if stage.end == STAGE_BYTES:
                self._hand_over_stage(stage, behind=size - done)
        self._dirty_stages.add(code)
        return offset

    def hand_over(self) -> None:
        """Give everything added so far to the writing thread."""
        for code in self._dirty_stages:
            self._hand_over_stage(self._stages[code])
        self._dirty_stages.clear()
        if self._filled:
            self._put(bytes(self._block[: self._filled]))
            self._filled = 0

    def update(self, record: RunRecord) -> None:
        """Append a newer run record; the last whole one counts."""
        self._documents.append(self._encode(record))

    def close(self, state: State, exit_status: int | None = None) -> None:
        """Write what is left, say how the run ended, and close the file. Nothing happens in a forked child."""
        if os.getpid() != self._pid or self._closing:
            return
        self.hand_over()
        with self._condition:
            self._closing = True
            self._condition.notify_all()
        self._thread.join()
        try:
            if self.error is None:
                self._status_row["state"] = list(State).index(state)
                if exit_status is not None:
                    self._status_row["exit_status"] = exit_status
                self._file["status"][0] = self._status_row
                self._file.flush()  # closing then only clears a flag
        except (OSError, RuntimeError) as error:
            self.error = error
        try:
            if self.error is not None:
                self._detach()  # the file stays as it was last flushed whole: closing would write parts of the rest
            self._file.close()
        except (OSError, RuntimeError) as error:
            self.error = self.error or error

    def abandon(self) -> None:
        """Make sure that a forked child can never write into its parent's file."""
        self._closing = True
        self._detach()

    def _detach(self) -> None:
        """Let HDF5 write into nothing from here on: this process's descriptor only, whoever else has the file."""
        handle = self._file.id.get_vfd_handle()
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, handle)
        os.close(null)

    def _intern(self, table_name: str, key: Any, text: str) -> int:
        table = self._tables[table_name]
        number = table.numbers[key] = len(table.numbers)
        table.fresh.append(text.encode("utf-8", "surrogatepass"))
        return number

    def _hand_over_stage(self, stage: _Stage, behind: int = 0) -> None:
        """Queue the bytes gathered in a stage; `behind` bytes of the newest tensor are still to come."""
        buffer = stage.buffer
        if buffer is None or stage.begin == stage.end:
            return
        count = (stage.end - stage.begin) // stage.itemsize
        start = stage.cursor - behind // stage.itemsize - count
        whole = stage.end == STAGE_BYTES
        self._put(_Chunk(stage.code, start, buffer[stage.begin : stage.end], buffer if whole else None))
        stage.begin = stage.end
        if whole:
            stage.buffer = None

    def _put(self, item: _Chunk | bytes) -> None:
        size = item.data.nbytes if isinstance(item, _Chunk) else len(item)
        with self._condition:
            # The writing thread may be waiting for `lock`, never while it holds the condition: no deadlock.
            while self._waiting + size > QUEUE_BYTES and self._waiting and self.error is None:
                self._condition.wait(0.1)
            self._waiting += size
            self._queue.append(item)
            self._condition.notify_all()

    # -- writing thread ----------------------------------------------------------------------------------------

    def _work(self) -> None:
        rows = bytearray()
        last_flush = time.monotonic()
        try:
            while True:
                item = self._take()
                if isinstance(item, _Chunk):
                    self._write_chunk(item)
                elif item is not None:
                    rows += item
                now = time.monotonic()
                finished = item is None and self._closing and not self._queue  # it may be filled since we looked
                if finished or now - last_flush >= FLUSH_SECONDS:
                    if item is None and not finished and self.lock.acquire(blocking=False):
                        try:
                            self.hand_over()  # a slow step: its first rows need not wait for its end
                        finally:
                            self.lock.release()
                        while (more := self._take(0)) is not None:
                            if isinstance(more, _Chunk):
                                self._write_chunk(more)
                            else:
                                rows += more
                    if rows or self._documents:
                        self._flush(bytes(rows))
                        rows.clear()
                    last_flush = time.monotonic()
                if finished:
                    return
        except BaseException as error:
            self.error = error
            with self._condition:
                self._queue.clear()
                self._waiting = 0
                self._condition.notify_all()

    def _take(self, timeout: float = FLUSH_SECONDS) -> _Chunk | bytes | None:
        with self._condition:
            if not self._queue and not self._closing and timeout:
                self._condition.wait(timeout)
            if not self._queue:
                return None
            item = self._queue.popleft()
            self._waiting -= item.data.nbytes if isinstance(item, _Chunk) else len(item)
            self._condition.notify_all()
            return item

    def _write_chunk(self, chunk: _Chunk) -> None:
        data = chunk.data.view(ELEMENT_TYPES[chunk.code].storage)
        _append(self._data[chunk.code], chunk.start, data)
        if chunk.spare is not None:
            self._spare.append(chunk.spare)

    def _flush(self, rows: bytes) -> None:
        for pool in self._data.values():
            pool.flush()
        for name, table in self._tables.items():
            self._write_table(name, table)
        documents = _drain(self._documents)
        if documents:
            run = self._file["run"]
            _append(run, run.shape[0], np.frombuffer(b"".join(documents), "u1"))
            run.flush()
        if rows:
            _append(self._events, self._events.shape[0], np.frombuffer(rows, schema.EVENT))
            self._events.flush()
        self._file.flush()  # notes the file's length in it: how a reader tells a file that was cut off

    def _write_table(self, name: str, table: _Table) -> None:
        fresh = _drain(table.fresh)
        if not fresh:
            return
        is_shape = name == "shapes"
        body = self._file[f"{name}/{'dims' if is_shape else 'bytes'}"]
        ends = self._file[f"{name}/ends"]
        start = body.shape[0]
        lengths = np.array([len(text) for text in fresh], "<u8") // (8 if is_shape else 1)
        _append(body, start, np.frombuffer(b"".join(fresh), "<i8" if is_shape else "u1"))
        body.flush()
        _append(ends, ends.shape[0], start + np.cumsum(lengths, dtype="<u8"))
        ends.flush()

    @staticmethod
    def _encode(record: RunRecord) -> bytes:
        return json.dumps(record.to_json(), ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _drain(gathered: list[bytes]) -> list[bytes]:
    """Take everything out of a list that the training thread appends to meanwhile.

    The list stays the same object: an append that has looked it up already must not be lost.
    """
    taken = gathered[:]
    del gathered[: len(taken)]
    return taken


def _append(dataset: Any, start: int, data: NDArray[Any]) -> None:
    end = start + len(data)
    if dataset.shape[0] < end:
        dataset.resize((end,))
    if len(data):
        dataset[start:end] = data


def set_exit_status(path: Path, exit_status: int) -> bool:
    """Note a script's exit status in a file that its writer has closed; False when that is not possible.

    The recorded process cannot know its own status; the process that started it writes it afterwards. A file whose
    writer was killed is left as it is: its flags say so.
    """
    try:
        with h5py.File(path, "r+", libver=("v110", "v110")) as file:
            row = file["status"][0]
            row["exit_status"] = exit_status
            file["status"][0] = row
    except (OSError, KeyError, RuntimeError):
        return False
    return True
