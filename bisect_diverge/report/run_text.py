"""What a run holds, as text for people."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from bisect_diverge.report.words import plural, printable, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bisect_diverge.model.run import RunRecord
    from bisect_diverge.report.run_overview import RankOverview, RunOverview, StepCounts

STEPS_LISTED = 10
"""Steps that are listed; the rest is counted."""


def run_text(overview: RunOverview) -> str:
    """Return what a run holds as text, without a line end."""
    lines = [f"run {printable(overview.path)}"]
    for rank in overview.ranks:
        lines += [*_rank(rank, several=len(overview.ranks) > 1)]
    lines += [f"also {printable(path)}: another process of the same rank" for path in overview.extra]
    return "\n".join(lines)


def _rank(rank: RankOverview, *, several: bool) -> Iterator[str]:
    if several or rank.record.rank:
        yield f"rank {rank.record.rank} of {rank.record.world_size}"
    ended = "" if rank.status.exit_status is None else f", exit status {rank.status.exit_status}"
    yield f"  state     {rank.status.state}{ended}"
    yield from _origin(rank.record)
    kept = f"{size(rank.kept_bytes)}: the tensors of {rank.kept_records} of {plural(rank.records, 'record')}"
    yield f"  records   {rank.records} in {plural(len(rank.steps), 'step')}"
    yield f"  kept      {kept}"
    yield f"  digest    {printable(rank.digest)}"
    roots = [f"{printable(root)} ({plural(count, 'module')})" for root, count in rank.roots.items()]
    yield f"  roots     {', '.join(roots) or 'none was called'}"
    if rank.record.coverage:
        yield "  coverage"
        yield from (f"    {printable(what)}: {count}" for what, count in sorted(rank.record.coverage.items()))
    if rank.record.notes:
        yield "  notes"
        yield from (f"    {printable(note)}" for note in rank.record.notes)
    yield from _steps(rank.steps)


def _origin(record: RunRecord) -> Iterator[str]:
    command = record.command or record.argv
    if command:
        yield f"  command   {printable(shlex.join(command))}"
    if record.cwd:
        yield f"  in        {printable(record.cwd)}"
    if record.started:
        yield f"  started   {printable(record.started)}"
    options = record.options
    limits = options.steps
    asked = [f"--capture {options.capture}"]
    if limits:
        asked.append(f"--steps {limits[0]}:{'' if limits[1] is None else limits[1]}")
    asked += [f"--modules {shlex.quote(glob)}" for glob in options.modules]
    yield f"  asked     {printable(' '.join(asked))}"


def _steps(steps: tuple[StepCounts, ...]) -> Iterator[str]:
    if not steps:
        return
    yield "  steps"
    for step in steps[:STEPS_LISTED]:
        phases = ", ".join(f"{count} {phase}" for phase, count in step.phases.items())
        passes = f", {plural(step.micro_batches, 'micro-batch')}" if step.micro_batches else ""
        cut = ", cut short" if step.cut else ""
        yield f"    {step.step:>6}  {plural(step.records, 'record')}{passes}: {phases}{cut}"
    if len(steps) > STEPS_LISTED:
        yield f"    ... {len(steps) - STEPS_LISTED} more (--format json has all)"
