"""Builds small recorded runs from lists of addresses and arrays, through the real writer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bisect_diverge import __version__
from bisect_diverge.model.address import PHASE_CODE, Address, micro_batch_code
from bisect_diverge.model.elements import BY_NAME
from bisect_diverge.model.record import Flag
from bisect_diverge.model.run import RunRecord, State
from bisect_diverge.numerics.digest import ALGORITHM, digest, header
from bisect_diverge.store.schema import rank_path
from bisect_diverge.store.writer import RunWriter

_TYPES = {np.dtype(e.storage): e.name for e in BY_NAME.values() if e.name not in ("bytes", "bool") and e.storage}
_TYPES |= {np.dtype("<u1"): "uint8", np.dtype("<u2"): "uint16", np.dtype("<u4"): "uint32"}

_INDEPENDENT = ("DataLoader", "Settings", "Generator", "Parameter")
"""Types of rows of `training_rows` that are made from nothing in the trace."""


@dataclass
class Row:
    """One record to write."""

    address: str
    """Text form; the rank in it says which file the row belongs to."""
    value: Any = 0.0
    """Array, number, or seed text: equal texts give equal tensors."""
    dtype: str = ""
    """Element type; empty: that of the array (float32 for numbers)."""
    source: int = -1
    flags: int = 0
    site: str = "train.py:1"
    module_type: str = "Linear"

    def array(self) -> np.ndarray:
        """Return the tensor in its storage type."""
        if isinstance(self.value, str):
            seed = np.frombuffer(self.value.encode(), np.uint8)
            return np.random.default_rng(seed).standard_normal(4).astype(np.float32)
        if isinstance(self.value, float | int):
            return np.array(self.value, np.float32)
        return np.asarray(self.value)


def write_run(
    path: Path,
    rows: Iterable[Row | tuple[Any, ...]],
    *,
    record: RunRecord | None = None,
    state: State = State.COMPLETE,
    exit_status: int | None = 0,
    keep_bytes: int = 1 << 30,
    algorithm: str = ALGORITHM,
) -> Path:
    """Write a run and return its directory.

    Args:
        path: Directory to create.
        rows: Records in execution order, as `Row` or as its positional arguments; one file for each rank.
        record: What is known of the run.
        state: How the recording ended.
        exit_status: Of the script.
        keep_bytes: Budget for tensor bytes; 0 keeps digests only.
        algorithm: Name of the digest algorithm.
    """
    record = record or RunRecord(version=__version__)
    path.mkdir(parents=True)
    by_rank: dict[int, list[tuple[Address, Row]]] = {}
    for entry in rows:
        row = entry if isinstance(entry, Row) else Row(*entry)
        address = Address.parse(row.address)
        by_rank.setdefault(address.rank, []).append((address, row))
    for rank, of_rank in (by_rank or {0: []}).items():
        writer = RunWriter(
            rank_path(path, rank), record.with_(rank=rank), keep_bytes=keep_bytes, digest_algorithm=algorithm
        )
        try:
            for address, row in of_rank:
                add_row(writer, address, row)
        finally:
            writer.close(state, exit_status)
        assert writer.error is None
    return path


def add_row(writer: RunWriter, address: Address, row: Row) -> int:
    """Write one record and return its number."""
    array = row.array()
    name = row.dtype or _TYPES[array.dtype]
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return writer.add(
        digest(header(name, array.shape), data),
        address.step,
        micro_batch_code(address.micro_batch),
        PHASE_CODE[address.phase],
        writer.name(address.root, address.fqn, row.module_type),
        address.call,
        writer.slot(address.slot),
        BY_NAME[name].code,
        writer.shape(array.shape),
        site=writer.site(row.site),
        flags=row.flags,
        value=float(array.reshape(-1)[0]) if array.size == 1 and array.dtype.kind in "fiu" else float("nan"),
        source=row.source,
        data=data if BY_NAME[name].storage else None,
    )


def training_rows(
    steps: int = 3, *, blocks: int = 2, rank: int = 0, change: dict[str, Any] | None = None, seed: str = ""
) -> list[Row]:
    """Return the records of a small training run in the order of a recorder: data, forward, backward, update.

    The network is `model` with modules `0`, `1`, ...; its input comes from the loader `train`, its output
    goes to the criterion `loss_fn`.

    Args:
        steps: Number of steps.
        blocks: Number of modules.
        rank: Rank in all addresses.
        change: Address to a value that stands there, and changes every later record made from it.
        seed: Part of every value.
    """
    change = change or {}
    rows: list[Row] = []
    spoilt: list[str] = []

    def add(address: str, *, source: int = -1, like: int = -1, flags: int = 0, kind: str = "Linear") -> int:
        text = f"r{rank}/{address}"
        if text in change:
            spoilt.append(f"{text}={change[text]}")
        apart = spoilt if kind not in _INDEPENDENT else [entry for entry in spoilt if entry.startswith(f"{text}=")]
        value = rows[like].value if like >= 0 and text not in change else f"{text} {seed} {apart}"
        rows.append(Row(text, value, source=source, flags=flags, module_type=kind, site=f"train.py:{10 + len(kind)}"))
        return len(rows) - 1

    grad = int(Flag.REQUIRES_GRAD)
    names = [f"{block}.weight" for block in range(blocks)]
    for name in names:
        add(f"0/-/init/model:{name}#0:param", kind="Parameter")
    add("0/-/rng/-:#0:torch.cpu", kind="Generator")
    for step in range(steps):
        batch = add(f"{step}/-/data/train:#0:batch.0", kind="DataLoader")
        at = add(f"{step}/0/forward/model:#0:input.0", source=batch, like=batch, kind="Sequential")
        for block in range(blocks):
            at = add(f"{step}/0/forward/model:{block}#0:input.0", source=at, like=at, flags=grad)
            at = add(f"{step}/0/forward/model:{block}#0:output.0", flags=grad)
        at = add(f"{step}/0/forward/model:#0:output.0", source=at, like=at, flags=grad, kind="Sequential")
        at = add(f"{step}/0/forward/loss_fn:#0:input.0", source=at, like=at, flags=grad, kind="MSELoss")
        at = add(f"{step}/0/forward/loss_fn:#0:output.0", flags=grad, kind="MSELoss")
        add(f"{step}/0/forward/loss_fn:loss#0:value", source=at, like=at, flags=grad, kind="")
        add(f"{step}/0/backward/loss_fn:#0:grad_output.0", kind="MSELoss")
        add(f"{step}/0/backward/model:#0:grad_output.0", kind="Sequential")
        for block in reversed(range(blocks)):
            add(f"{step}/0/backward/model:{block}#0:grad_output.0")
        add(f"{step}/-/optimizer/opt:group0#0:lr", kind="Settings")
        for slot in ("grad", "param", "state.momentum_buffer"):
            for name in names:
                add(f"{step}/-/optimizer/opt:{name}#0:{slot}", kind="SGD")
        add(f"{step}/-/rng/-:#0:torch.cpu", kind="Generator")
    return rows
