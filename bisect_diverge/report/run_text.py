"""What a run holds, as text for people."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from bisect_diverge.model.coverage import HOOKS_CALLED, HOOKS_SET, OPERATIONS
from bisect_diverge.model.run import StepOn
from bisect_diverge.report.words import plural, printable, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bisect_diverge.model.run import RunRecord
    from bisect_diverge.report.run_overview import RankOverview, RunOverview, StepCounts

STEPS_LISTED = 10
"""Steps that are listed; the rest is counted."""
LAST_LISTED = 3
"""Of these, steps at the end of a longer run."""


def run_text(overview: RunOverview, steps: int = STEPS_LISTED) -> str:
    """Return what a run holds as text, without a line end.

    Args:
        overview: What it holds.
        steps: Steps to list: of a longer run the first and the last.
    """
    lines = [f"run {printable(overview.path)}"]
    for rank in overview.ranks:
        lines += [*_rank(rank, several=len(overview.ranks) > 1)]
        lines += [*_steps(rank.steps, steps)]
    lines += [f"also {printable(path)}: another process of the same rank" for path in overview.extra]
    return "\n".join(lines)


def _rank(rank: RankOverview, *, several: bool) -> Iterator[str]:
    if several or rank.record.rank:
        yield f"rank {rank.record.rank} of {rank.record.world_size}"
    ended = "" if rank.status.exit_status is None else f", exit status {rank.status.exit_status}"
    yield f"  state     {rank.failure or f'{rank.status.state}{ended}'}"
    yield from _origin(rank.record)
    kept = f"{size(rank.kept_bytes)}: the tensors of {rank.kept_records} of {plural(rank.records, 'record')}"
    yield f"  records   {rank.records} in {plural(len(rank.steps), 'step')}"
    yield f"  kept      {kept}"
    yield f"  digest    {printable(rank.digest)}"
    roots = [f"{printable(root)} ({plural(count, 'module')})" for root, count in rank.roots.items()]
    none = "no module that --modules names was called" if rank.record.options.modules else "none was called"
    yield f"  roots     {', '.join(roots) or none}"
    if rank.record.coverage:
        yield "  coverage"
        yield from (f"    {printable(line)}" for line in _coverage(rank.record.coverage))
    if rank.record.notes:
        yield "  notes"
        yield from (f"    {printable(note)}" for note in rank.record.notes)


def _coverage(counts: dict[str, int]) -> Iterator[str]:
    """Return what could be recorded and what not, in words."""
    watched = counts.get(HOOKS_SET, 0)
    if watched:
        yield f"gradients of module outputs: {counts.get(HOOKS_CALLED, 0)} of {watched} arrived"
    if OPERATIONS in counts:
        yield f"differentiable operations of the first pass: {counts[OPERATIONS]}"
        parts = sorted((-count, name) for name, count in counts.items() if name.startswith(f"{OPERATIONS} "))
        yield from (f"  {name.removeprefix(OPERATIONS).strip()}: {-count}" for count, name in parts)
    others = (name for name in sorted(counts) if name not in (HOOKS_SET, HOOKS_CALLED, OPERATIONS))
    yield from (f"{name}: {counts[name]}" for name in others if not name.startswith(f"{OPERATIONS} "))


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
    if options.step_on is not StepOn.OPTIMIZER:
        asked.append(f"--step-on {options.step_on}")
    asked += [f"--modules {shlex.quote(glob)}" for glob in options.modules]
    yield f"  asked     {printable(' '.join(asked))}"


def _steps(steps: tuple[StepCounts, ...], limit: int) -> Iterator[str]:
    if not steps:
        return
    yield "  steps"
    if len(steps) <= limit + 1:  # a line that says that one is left out costs the line that it saves
        yield from map(_step, steps)
        return
    last = min(LAST_LISTED, limit // 2)
    left_out = steps[limit - last : len(steps) - last]
    yield from map(_step, steps[: limit - last])
    ends = f"{left_out[0].step} to {left_out[-1].step}" if len(left_out) > 1 else f"step {left_out[0].step}"
    how = f"--limit {len(steps)} lists all, --step N the records of one"
    yield f"    ... {plural(len(left_out), 'step')} left out, {ends} ({how})"
    yield from map(_step, steps[len(steps) - last :])


def _step(step: StepCounts) -> str:
    phases = ", ".join(f"{count} {phase}" for phase, count in step.phases.items())
    passes = f", {plural(step.micro_batches, 'micro-batch')}" if step.micro_batches else ""
    cut = ", cut short" if step.cut else ""
    return f"    {step.step:>6}  {plural(step.records, 'record')}{passes}: {phases}{cut}"
