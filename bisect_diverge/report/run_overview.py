"""What a run holds, gathered once and then printed as text or JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.diff.endings import failure
from bisect_diverge.model.address import PHASE_CODE, PHASES, Phase
from bisect_diverge.model.elements import ELEMENT_TYPES
from bisect_diverge.model.record import Flag

if TYPE_CHECKING:
    from bisect_diverge.model.run import RunRecord, Status
    from bisect_diverge.store.reader import Run, RunFile

_ITEMSIZE = np.array([element.itemsize for element in ELEMENT_TYPES], np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCounts:
    """How much one step recorded."""

    step: int
    """The step."""
    records: int
    """Its records."""
    micro_batches: int
    """Training passes of the root that had most."""
    phases: dict[str, int]
    """Records by phase, phases without any left out."""
    cut: bool
    """The step was cut short."""

    def to_json(self) -> dict[str, Any]:
        """Return the counts as plain JSON values."""
        names = ("step", "records", "micro_batches", "phases", "cut")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankOverview:
    """What the recording of one rank holds."""

    file: str
    """Path of the file."""
    record: RunRecord
    """What is known of the run."""
    status: Status
    """How far the recording got."""
    digest: str
    """Name of the digest algorithm."""
    steps: tuple[StepCounts, ...]
    """One entry for each step that has records, in order."""
    records: int
    """Number of records."""
    kept_records: int
    """Records whose tensor is kept."""
    kept_bytes: int
    """Bytes of tensors kept, each stored tensor counted once."""
    roots: dict[str, int]
    """Root modules to the number of different modules called in them."""
    failure: str = ""
    """What ended a script that did not reach its end, and in which step; empty: nothing that is known."""

    def to_json(self) -> dict[str, Any]:
        """Return the overview as plain JSON values."""
        record = self.record
        return {
            "file": self.file,
            "rank": record.rank,
            "state": str(self.status.state),
            "exit_status": self.status.exit_status,
            "host": self.status.host,
            "pid": self.status.pid,
            "digest": self.digest,
            "records": self.records,
            "kept_records": self.kept_records,
            "kept_bytes": self.kept_bytes,
            "roots": self.roots,
            "run": {key: value for key, value in record.to_json().items() if key not in ("environment", "rank")},
            "steps": [step.to_json() for step in self.steps],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOverview:
    """What a run holds."""

    path: str
    """The run as the user named it."""
    ranks: tuple[RankOverview, ...]
    """One entry for each rank, in order."""
    extra: tuple[str, ...]
    """Files of further processes of a rank."""

    def to_json(self) -> dict[str, Any]:
        """Return the overview as plain JSON values."""
        ranks = [rank.to_json() for rank in self.ranks]
        return {"schema": 1, "run": self.path, "ranks": ranks, "extra": list(self.extra)}


def run_overview(run: Run) -> RunOverview:
    """Return what a run holds; a run that is being recorded is read up to its last flushed record."""
    return RunOverview(
        path=str(run.path),
        ranks=tuple(_rank(run.ranks[rank]) for rank in sorted(run.ranks)),
        extra=tuple(str(path) for path in run.extra),
    )


def _rank(file: RunFile) -> RankOverview:
    events = file.events
    return RankOverview(
        file=str(file.path),
        record=file.record,
        status=file.status,
        digest=file.digest_algorithm,
        steps=_step_counts(events),
        records=len(events),
        kept_records=int(np.count_nonzero(events["offset"] >= 0)),
        kept_bytes=_kept_bytes(file),
        roots=_roots(file),
        failure=failure(file),
    )


def _step_counts(events: NDArray[Any]) -> tuple[StepCounts, ...]:
    steps, number = np.unique(events["step"], return_inverse=True)
    by_phase = np.zeros((len(steps), len(PHASES)), np.int64)
    np.add.at(by_phase, (number, events["phase"]), 1)
    passes = np.full(len(steps), -1, np.int64)
    np.maximum.at(passes, number, events["micro_batch"].astype(np.int64))
    cut = np.zeros(len(steps), np.bool_)
    np.logical_or.at(cut, number, events["flags"] & Flag.PARTIAL != 0)
    return tuple(
        StepCounts(
            step=step,
            records=sum(counts),
            micro_batches=max(last, -1) + 1,
            phases={str(phase): count for phase, count in zip(PHASES, counts, strict=True) if count},
            cut=was_cut,
        )
        for step, counts, last, was_cut in zip(
            steps.tolist(), by_phase.tolist(), passes.tolist(), cut.tolist(), strict=True
        )
    )


def _kept_bytes(file: RunFile) -> int:
    events = file.events[file.events["offset"] >= 0]
    stored = np.unique(events[["dtype", "offset", "shape"]])
    numel = np.array([int(np.prod(shape, dtype=np.int64)) for shape in file.shapes], np.int64)
    return int((numel[stored["shape"]] * _ITEMSIZE[stored["dtype"]]).sum()) if len(stored) else 0


def _roots(file: RunFile) -> dict[str, int]:
    others = [number for number, slot in enumerate(file.slots) if slot in ("param", "buffer")]
    forward = (file.events["phase"] == PHASE_CODE[Phase.FORWARD]) & ~np.isin(file.events["slot"], others)
    called = np.unique(file.events["name"][forward]).tolist()
    places = {file.names[number][:2] for number in called if file.names[number][1] != "loss"}
    counts: dict[str, int] = {}
    for root, _ in sorted(places):
        counts[root] = counts.get(root, 0) + 1
    return counts
