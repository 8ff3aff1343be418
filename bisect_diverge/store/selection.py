"""Chooses kept tensors of a run and gives each a name that any archive can hold."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bisect_diverge.model.record import Flag

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from bisect_diverge.model.address import Address
    from bisect_diverge.model.record import TensorRecord
    from bisect_diverge.store.reader import RunFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which records to export."""

    steps: tuple[int, int | None] | None = None
    """Steps ``[first, end)``; None: all; end None: to the last."""
    modules: tuple[str, ...] = ()
    """Globs; a record is taken if one of them fits its FQN or its address. Empty: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """One tensor to export."""

    record: TensorRecord
    """Its record."""
    parts: tuple[str, ...]
    """Its name: rank, step, micro-batch, phase, place (``root:fqn#call``) and slot; no part holds a slash or is a
    dot; each name occurs once in a run."""

    def attributes(self) -> dict[str, Any]:
        """Return what is known of it beside its elements, as plain JSON values."""
        record = self.record
        return {
            "address": str(record.address),
            "dtype": record.dtype,
            "shape": list(record.shape),
            "digest": record.digest,
            "module_type": record.module_type,
            "site": record.site,
            "row": record.row,
        }


def chosen_rows(file: RunFile, wanted: Wanted) -> dict[int, NDArray[np.int64]]:
    """Return the rows to export for each step, both in order."""
    events = file.events
    rows = np.arange(len(events))
    if wanted.steps is not None:
        first, end = wanted.steps
        inside = events["step"] >= first
        rows = rows[inside if end is None else inside & (events["step"] < end)]
    if wanted.modules:
        rows = rows[_fitting(file, rows, wanted.modules)]
    steps = events["step"][rows]
    return {int(step): rows[steps == step] for step in np.unique(steps)}


def chosen(file: RunFile, rows: NDArray[np.int64]) -> Iterator[Chosen]:
    """Yield the rows whose tensor is in the file, each with its name; a repeated address gets ``~2``, ``~3``, ...

    Args:
        file: The recording.
        rows: Numbers of its rows.
    """
    taken: dict[tuple[str, ...], int] = {}  # how often each name was used
    for row in rows.tolist():
        record = file.record_at(row)
        if not record.kept or record.flags & Flag.IN_BASELINE:
            continue
        parts = _parts(record.address)
        taken[parts] = taken.get(parts, 0) + 1
        if taken[parts] > 1:
            parts = (*parts[:-1], f"{parts[-1]}~{taken[parts]}")
        yield Chosen(record=record, parts=parts)


def _fitting(file: RunFile, rows: NDArray[np.int64], globs: tuple[str, ...]) -> NDArray[np.bool_]:
    patterns = [re.compile(fnmatch.translate(glob)) for glob in globs]
    by_name = np.array([any(pattern.match(fqn) for pattern in patterns) for _, fqn, _ in file.names], np.bool_)
    fits: NDArray[np.bool_] = by_name[file.events["name"][rows]]
    if any("/" in glob for glob in globs):  # only a glob of a whole address can hold one: an FQN seldom does
        texts = (str(file.address(row)) for row in rows.tolist())
        whole = [any(pattern.match(text) for pattern in patterns) for text in texts]
        fits |= np.array(whole, np.bool_)
    return fits


def _parts(address: Address) -> tuple[str, ...]:
    """Return the name of an address in parts: its own text, split, with what an archive cannot hold encoded."""
    rank, step, micro_batch, phase, rest = str(address).split("/", 4)
    place, _, slot = rest.rpartition(":")
    return rank, step, micro_batch, phase, _encoded(place), _encoded(slot)


def _encoded(part: str) -> str:
    """Return a part of a name without slash or tilde, that is neither empty nor a dot; other characters stay.

    A lone surrogate, which UTF-8 lacks, is written as its code point.
    """
    text = part.replace("/", "%2F").replace("~", "%7E").encode("utf-8", "backslashreplace").decode()
    return text.replace(".", "%2E") if set(text) == {"."} else text or "%"
