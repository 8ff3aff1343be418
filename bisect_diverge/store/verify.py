"""Checks a recording against its own format: structure, tables, ranges of pools, digests, status; mends its mark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from bisect_diverge.errors import DamagedRunError, UsageError
from bisect_diverge.model.elements import ELEMENT_TYPES
from bisect_diverge.model.record import Flag
from bisect_diverge.model.run import State
from bisect_diverge.numerics.digest import ALGORITHM, DEVICE_ALGORITHM, device_digest, digest, header, word_sums
from bisect_diverge.store import schema, superblock
from bisect_diverge.store.reader import RunFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

LISTED = 20
"""Problems of one sort that are named; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What a check of one file found."""

    path: str
    """The file."""
    state: State | None
    """How far the recording got; None where it cannot be read."""
    records: int = 0
    """Records."""
    tensors: int = 0
    """Different stored tensors whose digest was made again."""
    problems: tuple[str, ...] = ()
    """What is wrong, one clause each; empty: nothing."""
    notes: tuple[str, ...] = ()
    """What was not checked and why; what is unfinished without being wrong."""
    unclosed: bool = False
    """The file has the mark of a writer: one that writes, or was killed."""

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values."""
        return {
            "file": self.path,
            "state": None if self.state is None else str(self.state),
            "records": self.records,
            "tensors": self.tensors,
            "problems": list(self.problems),
            "notes": list(self.notes),
            "unclosed": self.unclosed,
        }


def check_file(path: Path) -> Checked:
    """Return what is wrong with a recording; a damaged one is a result, not an error.

    Args:
        path: An ``.h5`` file.

    Raises:
        NoSuchRunError, NotARunError, NewerSchemaError: if it is no recording that this version knows.
    """
    try:
        file = RunFile(path)
    except DamagedRunError as error:
        return Checked(path=str(path), state=None, problems=(error.what,))
    try:
        return _checked(file, superblock.is_open_for_swmr(path))
    finally:
        file.close()


def _checked(file: RunFile, unclosed: bool) -> Checked:
    path = str(file.path)
    problems = _structure(file)
    try:
        records = len(file.events)
    except DamagedRunError as error:
        return Checked(path=path, state=file.status.state, problems=(*problems, error.what), unclosed=unclosed)
    problems += [
        f"{file.address(row)} names itself or a later record as its source" for row in file.wrong_sources[:LISTED]
    ]
    tensors, of_tensors, notes = _tensors(file)
    return Checked(
        path=path,
        state=file.status.state,
        records=records,
        tensors=tensors,
        problems=(*problems, *of_tensors),
        notes=(*_status_notes(file, unclosed), *notes),
        unclosed=unclosed,
    )


def _structure(file: RunFile) -> list[str]:
    """Return which pools are missing or of another type; the other datasets are read, which tells more."""
    problems = []
    for element in schema.POOLED:
        try:
            file.pool(element)
        except (OSError, KeyError, ValueError, TypeError, RuntimeError) as error:
            problems.append(str(error).strip("'"))
    return problems


def _status_notes(file: RunFile, unclosed: bool) -> Iterator[str]:
    status = file.status
    if status.state is State.IN_PROGRESS:
        yield f"it is still being recorded (process {status.pid} on {status.host})"
    elif unclosed:
        yield "its writer was killed: other HDF5 tools open it after bd check --repair"
    elif status.state is State.INTERRUPTED:
        yield "the recording was interrupted: it holds what came before"


def _tensors(file: RunFile) -> tuple[int, list[str], list[str]]:
    """Return how many stored tensors there are, what is wrong with them, and what could not be checked."""
    events = file.events
    kept = np.flatnonzero(events["offset"] >= 0)
    columns = ["digest0", "digest1", "offset", "shape", "dtype", "flags"]
    _, first = np.unique(events[columns][kept], return_index=True)
    wrong: list[str] = []
    unknown: set[str] = set()
    for row in np.sort(kept[first]).tolist():
        problem, algorithm = _tensor(file, row)
        wrong += [problem] if problem else []
        unknown |= {algorithm} if algorithm else set()
    notes = [f"digests were not made again: this version does not know {name or 'their algorithm'}" for name in unknown]
    elsewhere = int(np.count_nonzero(events["flags"] & int(Flag.IN_BASELINE)))
    notes += [f"the tensors of {elsewhere} records are in the baseline's file"] if elsewhere else []
    more = [f"... {len(wrong) - LISTED} more"] if len(wrong) > LISTED else []
    return len(first), wrong[:LISTED] + more, notes


def _tensor(file: RunFile, row: int) -> tuple[str, str]:
    """Return what is wrong with the tensor of a row, and the name of the algorithm if its digest cannot be made."""
    event = file.events[row]
    on_device = bool(event["flags"] & int(Flag.ON_DEVICE))
    algorithm = file.device_algorithm if on_device else file.digest_algorithm
    try:
        tensor = file.tensor(row)
    except DamagedRunError as error:
        return error.what.removeprefix(f"{file.path} is "), ""
    if tensor is None:
        return f"a row of type {ELEMENT_TYPES[event['dtype']].name} points at elements: {file.address(row)}", ""
    if algorithm not in _DIGESTS:
        return "", algorithm
    head = header(ELEMENT_TYPES[event["dtype"]].name, tensor.shape)
    made = _DIGESTS[algorithm](head, np.ascontiguousarray(tensor).reshape(-1).view(np.uint8))
    if made == schema.digest_of(event):
        return "", ""
    return f"the digest and the elements of {file.address(row)} do not fit", ""


def _on_device(head: bytes, data: NDArray[np.uint8]) -> bytes:
    return device_digest(head, word_sums(data))


_DIGESTS: dict[str, Callable[[bytes, NDArray[np.uint8]], bytes]] = {ALGORITHM: digest, DEVICE_ALGORITHM: _on_device}
"""How the digest of each algorithm is made again from a header and elements."""


def repair(path: Path, *, force: bool = False) -> bool:
    """Clear the mark of a killed writer and note that the recording was interrupted; False if there was no mark.

    Nothing else is changed: rows that were written stay as they are.

    Args:
        path: An ``.h5`` file.
        force: Also where it cannot be told that the writer is gone, as on another host.

    Raises:
        UsageError: if the writer may still be at work, or the file is damaged otherwise.
        RunError: if it cannot be read.
    """
    if not superblock.is_open_for_swmr(path):
        return False
    file = RunFile(path)
    status = file.status
    file.close()
    if status.state is State.IN_PROGRESS and not force:
        raise UsageError(
            f"{path} may still be being written by process {status.pid} on {status.host}",
            hint="if that process is gone: bd check --repair --force",
        )
    try:
        superblock.clear(path)
        _set_interrupted(path)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise UsageError(
            f"{path} cannot be repaired: {error}", hint="copy it to a place where it can be written"
        ) from error
    return True


def _set_interrupted(path: Path) -> None:
    with h5py.File(path, "r+", libver=("v110", "v110"), locking=False) as file:
        row = file["status"][0]
        row["state"] = list(State).index(State.INTERRUPTED)
        file["status"][0] = row
