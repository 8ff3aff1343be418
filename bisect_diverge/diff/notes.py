"""What a comparison left out, and why: one sentence each, for the end of a report."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import numpy as np

from bisect_diverge.diff.endings import failure, where_ended
from bisect_diverge.diff.ignored import IdleGenerator
from bisect_diverge.diff.lone import Lone, Reach, Reason
from bisect_diverge.diff.places import address_at
from bisect_diverge.diff.trace import RowState
from bisect_diverge.model.address import NO_PASS, PHASE_CODE, Phase
from bisect_diverge.model.coverage import COMPILED, INSIDE_COMPILED
from bisect_diverge.model.elements import BYTES
from bisect_diverge.model.record import Flag
from bisect_diverge.model.run import State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.diff.trace import Trace
    from bisect_diverge.model.divergence import ElementStatistics
    from bisect_diverge.store.reader import Run, RunFile

STRANGERS = 10
"""Records of a run for each one with a partner, beyond which the two look like different programs."""
SAME_RUN = "A and B are one and the same recording: it was compared with itself"
"""Note on a run that is compared with itself."""
_EXCUSED = (
    Reason.BEYOND,
    Reason.FILTERED,
    Reason.OPAQUE,
    Reason.RECOMPUTE,
    Reason.EVALUATION,
    Reason.LABELS,
)
"""Reasons for which a record may lack a partner in two runs of one program."""

WHY = {
    Reason.TRAINING: "in training passes",
    Reason.NO_PASS: "outside of passes (batches, settings, optimizer state, initial values)",
    Reason.EVALUATION: "in passes without grad or in evaluation mode",
    Reason.RECOMPUTE: "made again by activation checkpointing",
    Reason.WRAPPER: "of calls around calls that both runs have",
    Reason.INSIDE: "inside calls that only one run has",
    Reason.OPAQUE: "inside calls of which one run shows no inside",
    Reason.FILTERED: "of modules and parameters that only one run was asked to record (--modules)",
    Reason.BEYOND: "of steps that only one run recorded",
    Reason.LABELS: "of labels that a loss function was given (in the other run another record has them, or none)",
}


def partner_notes(traces: Sequence[Trace], lone: Sequence[Lone]) -> Iterator[str]:
    """Return a sentence for each reason for which records have no partner."""
    for reason, why in WHY.items():
        found = [(trace, rows.among((reason,))) for trace, rows in zip(traces, lone, strict=True)]
        count = sum(len(at) for _, at in found)
        if count:
            trace, at = next((trace, at) for trace, at in found if len(at))
            has = "has" if count == 1 else "have"
            more = " (a compiled region)" if reason is Reason.OPAQUE and _is_compiled(trace) else ""
            yield f"{_records(count)} {why}{more} {has} no partner, the first at {address_at(trace, int(at[0]))}"


def _is_compiled(trace: Trace) -> bool:
    counted = (file.record.coverage for file in (trace.a, trace.b))
    return any(coverage.get(COMPILED) or coverage.get(INSIDE_COMPILED) for coverage in counted)


def evaluation_note(traces: Sequence[Trace], lone: Sequence[Lone]) -> Iterator[str]:
    """Return a sentence where one run alone goes backward through a pass in evaluation mode."""
    for trace, rows in zip(traces, lone, strict=True):
        at = rows.among((Reason.EVALUATION, Reason.INSIDE))
        found = at[trace.rows.phase[at] == PHASE_CODE[Phase.BACKWARD]]
        evaluating = found[trace.rows.micro_batch[found] < NO_PASS]
        if len(evaluating):
            index = int(evaluating[0])
            side = "A" if trace.row_a[index] >= 0 else "B"
            yield (
                f"{side} trains on passes in evaluation mode, the first at {address_at(trace, index)}: model.train() "
                "may not have been called again"
            )
            return


def stranger_note(traces: Sequence[Trace], lone: Sequence[Lone]) -> Iterator[str]:
    """Return a sentence where hardly any record of a run has a partner that it could have."""
    shares = []
    for of_side in ("row_a", "row_b"):
        paired = sum(int(np.count_nonzero(trace.paired)) for trace in traces)
        alone = sum(
            int(np.count_nonzero(getattr(trace, of_side)[rows.index[~np.isin(rows.reason, _EXCUSED)]] >= 0))
            for trace, rows in zip(traces, lone, strict=True)
        )
        shares.append((paired, paired + alone))
    paired, total = max(shares, key=lambda share: share[1])
    if paired * STRANGERS < total:
        has = "has a partner" if paired == 1 else "have a partner"
        yield f"these look like different programs: {paired} of {_records(total)} {has}"


def same_run_note(a: Run, b: Run) -> Iterator[str]:
    """Return a sentence where a run is compared with itself."""
    if a.first.path.resolve() == b.first.path.resolve():
        yield SAME_RUN


def step_rule_note(a: Run, b: Run) -> Iterator[str]:
    """Return a sentence where steps of the two runs are not the same thing."""
    rules = [run.first.record.options.step_on for run in (a, b)]
    if rules[0] is not rules[1]:
        yield (
            f"steps of A end with --step-on {rules[0]}, those of B with --step-on {rules[1]}: a step of one need not "
            "be that step of the other; record both with the same rule"
        )


def damage_note(trace: Trace, statistics: ElementStatistics | None) -> Iterator[str]:
    """Return a sentence where digests differ and what was kept does not, which no two whole recordings can show."""
    if statistics is not None and not statistics.differing and statistics.dtype != BYTES.name:
        paths = " and ".join(shlex.join(["bd", "check", str(file.path)]) for file in (trace.a, trace.b))
        yield (
            "the digests of the first divergence differ, but not the elements that were kept: one of the recordings is "
            f"damaged; {paths} tell which"
        )


def generator_note(idle: Sequence[IdleGenerator]) -> Iterator[str]:
    """Return a sentence on the generators that differ and that neither run draws from."""
    if idle:
        slots = ", ".join(sorted({generator.slot for generator in idle}))
        count = sum(generator.records for generator in idle)
        which = "which does not count" if count == 1 else "which do not count"
        yield f"generators that neither run draws from differ in {_records(count)}, {which}: {slots}"


def run_notes(a: Run, b: Run) -> Iterator[str]:
    """Return a sentence for whatever of the two runs is not part of the comparison."""
    for name, run, other in (("A", a, b), ("B", b, a)):
        for rank in sorted(run.ranks.keys() - other.ranks.keys()):
            yield f"only {name} has rank {rank}: not compared"
        for path in run.extra:
            yield f"{path.name} of {name} is of a further process of its rank: not compared"


def length_notes(trace: Trace, reach_a: Reach, reach_b: Reach) -> Iterator[str]:
    """Return a sentence for each recording that stops before its run's end."""
    for name, file, reach in (("A", trace.a, reach_a), ("B", trace.b, reach_b)):
        if reach.cut:
            yield f"rank {trace.rank} of {name}{_ending(file)}"


def unreadable(traces: Sequence[Trace]) -> int:
    """Return how many records look equal, but say only that there was something."""
    equal = (trace.row_a[trace.state == RowState.EQUAL] for trace in traces)
    flags = (trace.a.events["flags"][rows] for trace, rows in zip(traces, equal, strict=True))
    return sum(int(np.count_nonzero(of_rows & Flag.UNHASHABLE)) for of_rows in flags)


def unhashable_note(count: int) -> Iterator[str]:
    """Return a sentence where records say only that there was something."""
    if count:
        holds = "holds a tensor" if count == 1 else "hold tensors"
        yield f"{_records(count)} {holds} without readable bytes: that they are equal is not known"


def algorithms_note(traces: Sequence[Trace]) -> Iterator[str]:
    """Return a sentence where digests of a host and of an accelerator stand against each other."""
    count = sum(trace.not_comparable for trace in traces)
    if count:
        was, their = ("was", "its digests were") if count == 1 else ("were", "their digests were")
        yield (
            f"{_records(count)} {was} not compared: {their} made by different algorithms (host and accelerator), and "
            "neither run kept the bytes; record one of them with --capture full"
        )


def _ending(file: RunFile) -> str:
    status = file.status
    failed = failure(file)
    if failed:
        return f": {failed}"
    where = f", {where_ended(file)}" if len(file.events) else ""
    if status.state is State.IN_PROGRESS:
        return f" is still being recorded{where}"
    if status.state is State.INTERRUPTED:
        return f" was interrupted{where}"
    if status.exit_status:
        return f" ended with exit status {status.exit_status}{where}"
    limits = file.record.options.steps
    if limits and limits[1] is not None:
        return f" was recorded with --steps, after {_steps(file.steps)}"
    return f" stops inside step {file.steps - 1}"


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"
