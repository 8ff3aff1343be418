"""What is handed over and not yet written is bounded: who adds faster than the disk takes has to wait."""

import threading
from pathlib import Path

import numpy as np
import pytest

from bisect_diverge.model.elements import BY_NAME
from bisect_diverge.model.run import RunRecord, State
from bisect_diverge.numerics.digest import ALGORITHM
from bisect_diverge.record import device_copies
from bisect_diverge.store import writer
from bisect_diverge.store.reader import RunFile


def test_memory_for_what_waits_is_bounded():
    """Queue, buffers that fill up and memory for copies from a device are less than 256 MB together."""
    assert writer.QUEUE_BYTES + device_copies.STAGING_BYTES < 256_000_000


def test_who_adds_faster_than_the_disk_takes_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With a disk that stands still, adding stops at the bound; when it goes on, everything arrives."""
    limit = 4 * writer.STAGE_BYTES
    monkeypatch.setattr(writer, "QUEUE_BYTES", limit)
    stands_still, most = threading.Event(), []
    write = writer.RunWriter._write_chunk

    def slow(self: writer.RunWriter, chunk: writer._Chunk) -> None:
        stands_still.wait(30)
        write(self, chunk)

    monkeypatch.setattr(writer.RunWriter, "_write_chunk", slow)
    keeper = writer.RunWriter(tmp_path / "a.h5", RunRecord(), keep_bytes=1 << 30, digest_algorithm=ALGORITHM)
    code, shape = BY_NAME["uint8"].code, keeper.shape((writer.STAGE_BYTES,))
    keeper.name("m", "", ""), keeper.slot("output.0"), keeper.site("")
    count = 12

    def add() -> None:
        for number in range(count):
            data = np.full(writer.STAGE_BYTES, number, np.uint8)
            keeper.add(bytes([number + 1] * 16), 0, 0, 2, 0, number, 0, code, shape, data=data)
            most.append(keeper._waiting)

    adding = threading.Thread(target=add)
    adding.start()
    adding.join(0.5)
    assert adding.is_alive()
    assert len(most) < count
    stands_still.set()
    adding.join(30)
    assert max(most) <= limit
    keeper.close(State.COMPLETE)
    file = RunFile(tmp_path / "a.h5")
    assert [int(file.tensor(row)[-1]) for row in range(count)] == list(range(count))
    file.close()
