"""Damages recordings, byte by byte and through HDF5, and runs `bd` on them in a process with limits."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import json
import resource
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np

REPOSITORY = Path(__file__).resolve().parents[2]
SECONDS = 20
"""Time after which a command counts as one that hangs."""
MEMORY = 512 << 20
"""Address space that a command may take beyond what the process has at its start."""

EXTREME = (0, 1, 2**7, 2**8 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)


@dataclass(frozen=True)
class Ended:
    """How one command ended."""

    command: tuple[str, ...]
    status: int
    """Exit status; below 0: the process died or was stopped."""
    seconds: float
    text: str
    """What it printed, both streams, and the traceback if it ended in one."""


def filled(whole: bytes) -> list[int]:
    """Return the positions of a file around which anything is written: most of a small recording is zeros."""
    blocks = np.frombuffer(whole + b"\0" * (-len(whole) % 64), np.uint8).reshape(-1, 64)
    return [int(block) * 64 + byte for block in np.flatnonzero(blocks.any(axis=1)) for byte in range(64)]


def mutated(whole: bytes, random: Random, places: Sequence[int]) -> bytes:
    """Return a file with some of its bytes changed, or cut off."""
    content = bytearray(whole)
    at = min(random.choice(places), len(content) - 16)
    change = random.randrange(7)
    if change == 0:
        return bytes(content[: random.choice([at, random.randrange(len(content))])])
    if change == 1:
        for _ in range(random.randrange(1, 40)):
            content[min(random.choice(places), len(content) - 1)] ^= 1 << random.randrange(8)
    elif change == 2:
        content[at] ^= 1 << random.randrange(8)
    elif change == 3:
        width = random.choice([1, 2, 4, 8])
        content[at : at + width] = (random.choice(EXTREME) % 2 ** (8 * width)).to_bytes(width, "little")
    elif change == 4:
        size = random.choice([8, 72, 512, 4096])
        content[at : at + size] = random.choice([b"\0", b"\xff"]) * len(content[at : at + size])
    elif change == 5:
        size = random.choice([8, 72, 512])
        other = random.choice(places)
        content[at : at + size] = content[other : other + size].ljust(len(content[at : at + size]), b"\0")
    else:
        content[at:at] = random.randbytes(random.choice([1, 8, 72]))
    return bytes(content)


def _cell(file: Any, random: Random) -> None:
    table = file[random.choice(["events"] * 4 + ["status"])]
    rows = table[:]
    column = random.choice(rows.dtype.names)
    row = random.randrange(len(rows))
    kind = rows.dtype[column]
    if kind.kind in "iu":
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        rows[column][row] = random.choice([low, high, high // 2, 0, 1, int(rows[column][row]) ^ 1 << 3 & high])
    elif kind.kind == "f":
        rows[column][row] = random.choice([np.nan, np.inf, -1e300, 0])
    else:
        rows[column][row] = b"\xff\x1b[2J"
    table[:] = rows


def _index(file: Any, random: Random) -> None:
    table = file[random.choice(["names/ends", "slots/ends", "sites/ends", "shapes/ends", "shapes/dims"])]
    values = table[:]
    kind = np.iinfo(values.dtype)
    values[random.randrange(len(values))] = random.choice([0, kind.max, kind.min, kind.max // 2, 2**32, 2**20, 3])
    table[:] = values


def _text(file: Any, random: Random) -> None:
    table = file[random.choice(["names/bytes", "slots/bytes", "sites/bytes"])]
    values = table[:]
    at = random.randrange(len(values))
    new = random.choice([b"\xff\xfe", b"\0\0\0", b"\x1b[31m", b"\xed\xa0\x80", b"<script>", "\u202e ".encode()])
    piece = np.frombuffer(new, "u1")[: len(values) - at]
    values[at : at + len(piece)] = piece
    table[:] = values


def _length(file: Any, random: Random) -> None:
    name = random.choice(["events", "run", "names/bytes", "names/ends", "slots/ends", "shapes/dims", "pool/float32"])
    table = file[name]
    table.resize((random.choice([0, 1, len(table) // 2, len(table) + 1, len(table) + 5000, 2**33, 2**48]),))


DOCUMENTS = (
    b"[]",
    b"null",
    b"1e999",
    b"{" + b'"a":[' * 100_000,
    b'{"rank": -1}',
    b'{"rank": 1e400}',
    b'{"rank": 99999999999999999999}',
    b'{"rank": "x"}',
    b'{"world_size": ' + b"9" * 5000 + b"}",
    b'{"command": 5}',
    b'{"command": [1, null, {}], "argv": [[]]}',
    b'{"command": "python", "notes": 7, "cwd": ["x"], "started": {}}',
    b'{"options": []}',
    b'{"options": {"steps": [1]}}',
    b'{"options": {"steps": "ab", "modules": 3, "capture": "no"}}',
    b'{"options": {"modules": [1, 2], "keep_bytes": NaN}}',
    b'{"environment": {"a": 1}}',
    b'{"environment": [1, "x", null]}',
    b'{"environment": [{"layer": "no", "knob": 1, "value": 2, "resolved": 3}]}',
    b'{"environment": [{"layer": "seeds", "knob": {}, "value": [], "resolved": ""}]}',
    b'{"aliases": [1], "coverage": [2], "written": "x"}',
    b'{"aliases": {"a": 5}, "coverage": {"a": "x"}}',
    b'{"aliases": {"a": [[1]]}, "written": {"a": [1]}}',
    b'{"notes": [1, {"x": "\\ud800"}], "cwd": "\\u001b[2J"}',
)
"""Run records that none of ours could be."""


def _document(file: Any, random: Random) -> None:
    run = file["run"]
    document = np.frombuffer(random.choice(DOCUMENTS) + b"\n", "u1")
    old = len(run)
    run.resize((old + len(document),))
    run[old:] = document


OTHER_DATA: tuple[Callable[[], Any], ...] = (
    lambda: np.zeros(3),
    lambda: np.zeros((2, 2), "u1"),
    lambda: 5,
    lambda: "text",
    lambda: np.zeros(0, "u1"),
    lambda: np.array([b"x"], object),
    lambda: np.zeros(4, [("digest0", "f8"), ("step", "S3")]),
)


def _object(file: Any, random: Random) -> None:
    name = random.choice(
        ["events", "run", "status", "names", "names/ends", "shapes/dims", "pool/float32", "slots/bytes"]
    )
    del file[name]
    change = random.randrange(5)
    if change == 0:
        file.create_group(name)
    elif change == 1:
        kind = h5py.string_dtype()
        value = random.choice(OTHER_DATA)()
        is_text = isinstance(value, np.ndarray) and value.dtype == object
        file.create_dataset(name, data=value, dtype=kind if is_text else None)
    elif change == 2:
        file[name] = random.choice([h5py.SoftLink("/events"), h5py.SoftLink("/"), h5py.ExternalLink("/etc/hosts", "/")])
    elif change == 3:
        data = np.zeros(1 << 16, "u1")
        file.create_dataset(name, data=data, chunks=(1 << 12,), maxshape=(None,), compression="gzip").resize((1 << 40,))


def _attribute(file: Any, random: Random) -> None:
    name = random.choice(["format", "schema", "digest"])
    file.attrs[name] = random.choice([1, -1, "x", "", np.zeros(3), np.zeros(0), b"\xff", 2.5, "bisect-diverge run"])


CHANGES = (_cell, _cell, _cell, _index, _index, _text, _length, _document, _document, _object, _attribute)


def altered(path: Path, random: Random) -> None:
    """Change something in a file through HDF5, so that all its checksums are right."""
    with h5py.File(path, "r+", libver=("v110", "v110")) as file:
        random.choice(CHANGES)(file, random)


def run_all(commands: Iterable[Sequence[str]], cwd: Path) -> list[Ended]:
    """Run `bd` commands in one process with limits on time and memory, or in a next one where that died."""
    left = [list(map(str, command)) for command in commands]
    ended: list[Ended] = []
    while left:
        got = _some(left, cwd)
        ended += got
        left = left[len(got) :]
    return ended


def _some(commands: list[list[str]], cwd: Path) -> list[Ended]:
    """Run commands until one of them takes the process down; return those that ended, and that one."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.helpers.mutations", str(cwd)],
        cwd=REPOSITORY,
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        check=False,
    )
    ended = [Ended(tuple(row[0]), *row[1:]) for row in map(json.loads, done.stdout.splitlines())]
    if len(ended) < len(commands):
        ended.append(Ended(tuple(commands[len(ended)]), -abs(done.returncode or 1), SECONDS, done.stderr[-4000:]))
    return ended


def _worker() -> None:
    """Run the commands that stdin holds; one line of JSON for each on stdout."""
    import os

    from bisect_diverge.cli.main import main

    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmSize:"):
            limit = int(line.split()[1]) * 1024 + MEMORY
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    commands = json.load(sys.stdin)
    out = sys.stdout
    os.chdir(sys.argv[1])
    for command in commands:
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        print(json.dumps([command, *_one(main, command)]), file=out, flush=True)
    faulthandler.cancel_dump_traceback_later()


def _one(main: Callable[[], None], command: list[str]) -> tuple[int, float, str]:
    sys.argv = ["bd", *command]
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
    start = time.monotonic()
    status = 99
    with contextlib.redirect_stdout(stream), contextlib.redirect_stderr(stream):
        try:
            main()
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else 0
        except BaseException:
            traceback.print_exc()
    return status, round(time.monotonic() - start, 3), raw.getvalue().decode()[-4000:]


if __name__ == "__main__":
    _worker()
