"""One record of a run, or the records that match a pattern, gathered once and then printed as text or JSON."""

from __future__ import annotations

import fnmatch
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.errors import NoSuchAddressError, UsageError
from bisect_diverge.model.address import Address
from bisect_diverge.model.record import Flag
from bisect_diverge.numerics.bits import decode
from bisect_diverge.numerics.summary import summarize

if TYPE_CHECKING:
    from bisect_diverge.model.record import TensorRecord
    from bisect_diverge.numerics.summary import Summary
    from bisect_diverge.store.reader import Run, RunFile

VALUES_SHOWN = 8
"""Elements of a tensor that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDetail:
    """One record, with its tensor in a few numbers."""

    record: TensorRecord
    """The record."""
    source: Address | None
    """The record of the same tensor or its base; None if not known."""
    summary: Summary | None
    """The tensor in a few numbers; None where only the digest was kept."""
    values: tuple[str, ...]
    """Its first elements, as text."""

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON values; numbers that JSON lacks (nan, inf) are texts."""
        record, summary = self.record, self.summary
        fields = ("numel", "minimum", "maximum", "mean", "nan", "inf")
        return {
            "address": str(record.address),
            "row": record.row,
            "module_type": record.module_type,
            "site": record.site,
            "dtype": record.dtype,
            "shape": list(record.shape),
            "digest": record.digest,
            "flags": flag_names(record.flags),
            "value": json_number(record.value) if math.prod(record.shape) == 1 else None,
            "source": None if self.source is None else str(self.source),
            "kept": record.kept,
            "summary": None if summary is None else {name: json_number(getattr(summary, name)) for name in fields},
            "values": list(self.values),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """The records that match a pattern."""

    shown: tuple[TensorRecord, ...]
    """The first of them, in order of ranks and rows."""
    total: int
    """Number of all."""

    def to_json(self) -> dict[str, Any]:
        """Return the matches as plain JSON values."""
        rows = [
            {
                "address": str(record.address),
                "dtype": record.dtype,
                "shape": list(record.shape),
                "digest": record.digest,
                "value": json_number(record.value) if holds_number(record) else None,
                "kept": record.kept,
            }
            for record in self.shown
        ]
        return {"schema": 1, "matches": rows, "total": self.total}


def holds_number(record: TensorRecord) -> bool:
    """Return whether a record is one number whose value is known without its tensor."""
    return math.prod(record.shape) == 1 and not math.isnan(record.value)


def nothing_matches(run: Run, contains: str, glob: str, step: int | None) -> str:
    """Return what to try where no record matches: the closest names, or how to ask."""
    import difflib

    last = max(file.steps for file in run.ranks.values()) - 1
    if step is not None and step > last:
        return f"the last step with records is {last}"
    names = {part for file in run.ranks.values() for root, fqn, _ in file.names for part in (root, fqn) if part}
    names |= {slot for file in run.ranks.values() for slot in file.slots}
    close = difflib.get_close_matches((contains or glob).strip("*"), sorted(names), 3)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"bd show {run.path} lists roots and steps; --match takes a glob of an address or FQN, as '*attn*'"


def flag_names(flags: Flag) -> list[str]:
    """Return the names of flags as they are written in reports: ``requires-grad``."""
    return [str(flag.name).lower().replace("_", "-") for flag in Flag if flag in flags]


def json_number(value: float | int | None) -> float | int | str | None:
    """Return a number as JSON can hold it: ``nan``, ``inf`` and ``-inf`` as texts."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def record_details(run: Run, address: Address) -> tuple[RecordDetail, ...]:
    """Return the records at an address: one, or more where it was recorded repeatedly.

    Raises:
        NoSuchAddressError: if there is none.
    """
    file = run.ranks.get(address.rank)
    if file is None:
        raise NoSuchAddressError(f"{run.path} has no rank {address.rank}", hint=f"bd show {run.path} lists its ranks")
    return tuple(_detail(file, int(row)) for row in file.rows_at(address))


def matching(run: Run, contains: str, glob: str, step: int | None, limit: int) -> Matches:
    """Return the records whose addresses fit.

    Args:
        run: The run.
        contains: Part of an address. Without a ``/`` it is looked for in ``root:fqn#call:slot`` only.
        glob: Pattern of a whole address or FQN; empty: any.
        step: Step they must be in; None: any.
        limit: Largest number of records to return; all are counted.
    """
    if limit < 0:
        raise UsageError(f"a limit of {limit} records")
    shown: list[TensorRecord] = []
    total = 0
    for rank in sorted(run.ranks):
        file = run.ranks[rank]
        rows = _matching_rows(file, contains, glob, step)
        total += len(rows)
        shown += [file.record_at(int(row)) for row in rows[: limit - len(shown)]]
    return Matches(shown=tuple(shown), total=total)


def _matching_rows(file: RunFile, contains: str, glob: str, step: int | None) -> NDArray[np.int64]:
    """Return the rows that fit; texts are made once for each different address, not for each row."""
    events = file.events
    rows = np.arange(len(events)) if step is None else np.flatnonzero(events["step"] == step)
    whole_glob, whole_part = bool(glob), "/" in contains
    parts = ["phase", "micro_batch", "name", "call", "slot"]
    if whole_glob or whole_part:
        parts.append("step")
    different, first, number = np.unique(events[parts][rows], return_index=True, return_inverse=True)
    pattern = re.compile(fnmatch.translate(glob or "*"))
    fits = np.zeros(len(different), np.bool_)
    for entry, row in enumerate(rows[first].tolist()):
        address = file.address(row)
        text = str(address)
        place = text if whole_part else text.split("/", 4)[4]
        fits[entry] = contains in place and bool(pattern.match(text) or pattern.match(address.fqn))
    return rows[fits[number]] if len(rows) else rows


def _detail(file: RunFile, row: int) -> RecordDetail:
    record = file.record_at(row)
    tensor = file.tensor(row)
    return RecordDetail(
        record=record,
        source=file.address(record.source) if 0 <= record.source < len(file.events) else None,
        summary=None if tensor is None else summarize(tensor, record.dtype),
        values=() if tensor is None else _values(tensor, record.dtype),
    )


def _values(tensor: NDArray[Any], dtype: str) -> tuple[str, ...]:
    """Return the first elements so that different bits of numbers give different texts."""
    return tuple(str(value) for value in decode(tensor.reshape(-1)[:VALUES_SHOWN], dtype).tolist())
