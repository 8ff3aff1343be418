"""Compares two recorded runs: the entry of this room."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.diff.batches import batches_at
from bisect_diverge.diff.comparison import Comparison
from bisect_diverge.diff.edges import StepView
from bisect_diverge.diff.first import First, first_divergence, kind_of
from bisect_diverge.diff.growth import growth
from bisect_diverge.diff.heat import heat
from bisect_diverge.diff.ignored import IdleGenerator, leave_out
from bisect_diverge.diff.lone import Lone, Reach, Reason, lone_rows, reach
from bisect_diverge.diff.names import check_names
from bisect_diverge.diff.notes import (
    algorithms_note,
    damage_note,
    evaluation_note,
    generator_note,
    length_notes,
    partner_notes,
    run_notes,
    same_run_note,
    step_rule_note,
    stranger_note,
    unhashable_note,
    unreadable,
)
from bisect_diverge.diff.offset import proposed_offset
from bisect_diverge.diff.options import DiffOptions
from bisect_diverge.diff.origin import JUDGED_LIMIT, Judge, Ranks
from bisect_diverge.diff.places import address_at, late_starts, place_at, types_at, values_at
from bisect_diverge.diff.remarks import order_note, remade_note
from bisect_diverge.diff.renamed import renamed_note
from bisect_diverge.diff.statistics import cast_at, measured
from bisect_diverge.diff.stretch import stretch_at
from bisect_diverge.diff.structure import structure_sentence
from bisect_diverge.diff.trace import RowState, Trace, build_trace
from bisect_diverge.diff.unpaired import unpaired
from bisect_diverge.diff.unshown import same_memory
from bisect_diverge.model.address import PHASE_CODE, Address, Phase
from bisect_diverge.model.divergence import Compared, Divergence, DivergenceKind, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.diff.offset import ProposedOffset
    from bisect_diverge.model.environment import Difference
    from bisect_diverge.store.reader import Run


@dataclass(frozen=True, slots=True)
class _Ranks:
    """The common ranks of two runs, compared."""

    traces: list[Trace]
    lone: list[Lone]
    reach: list[tuple[Reach, Reach]]
    notes: list[str]
    idle: list[IdleGenerator]


def compare(a: Run, b: Run, options: DiffOptions | None = None) -> Comparison:
    """Return the comparison of two runs.

    Only digests are compared; tensor bytes are read for the element statistics of the first divergence alone.
    Runs that cannot be compared give the verdict *not-comparable* and a note that says why.

    Args:
        a: The baseline, open; closed with the comparison.
        b: The candidate, open; closed with the comparison.
        options: What to do otherwise than usual.

    Raises:
        DamagedRunError: if a file cannot be read to its end.
        UsageError: if a renamed module is in neither run.
    """
    options = options or DiffOptions()
    reason = _obstacle(a, b)
    if reason:
        return _not_comparable(a, b, [], reason)
    check_names(a, b, options)
    ranks = _compare_ranks(a, b, options)
    reason = _nothing_left(ranks, options)
    if reason:
        return _not_comparable(a, b, ranks.traces, reason)
    first = first_divergence(ranks.traces, ranks.lone)
    divergence = _equal(a, b, ranks, options) if first is None else _diverged(a, b, ranks, first, options)
    return Comparison(a, b, ranks.traces, divergence, None if first is None else (first.trace, first.index))


def _obstacle(a: Run, b: Run) -> str:
    """Return why two runs cannot be compared; empty if they can."""
    common = sorted(a.ranks.keys() & b.ranks.keys())
    if not common:
        return "the two runs have no rank in common"
    for rank in common:
        algorithms = a.ranks[rank].digest_algorithm, b.ranks[rank].digest_algorithm
        if algorithms[0] != algorithms[1]:
            return f"digests of different algorithms: A has {algorithms[0]}, B has {algorithms[1]}"
    for name, run in (("A", a), ("B", b)):
        if not any(len(file.events) for file in run.ranks.values()):
            return f"{name} ({run.path}) holds no records"
    return ""


def _nothing_left(ranks: _Ranks, options: DiffOptions) -> str:
    """Return why nothing can be compared; empty where something can."""
    traces = ranks.traces
    if any((trace.state <= RowState.DIFFERS).any() for trace in traces):
        return ""
    paired = [trace.rows.step[trace.paired] for trace in traces]
    if not any(len(steps) for steps in paired):
        how = next(renamed_note(traces, ranks.lone), "--map OLD=NEW pairs renamed modules")
        return f"the two runs share no address; {how}"
    last = max(int(steps.max()) for steps in paired if len(steps))
    if options.from_step > last:
        return f"--from {options.from_step} leaves nothing to compare: the last step that both have is {last}"
    for note in algorithms_note(traces):
        return f"nothing is left to compare: {note}"
    globs = " ".join(f"--ignore {shlex.quote(glob)}" for glob in options.ignore)
    return f"nothing is left to compare: {globs or 'no generator is drawn from'}"


def _not_comparable(a: Run, b: Run, traces: Sequence[Trace], reason: str) -> Comparison:
    divergence = Divergence(
        verdict=Verdict.NOT_COMPARABLE, environment=_environment(a, b), notes=(reason, *run_notes(a, b))
    )
    return Comparison(a, b, traces, divergence, None)


def _compare_ranks(a: Run, b: Run, options: DiffOptions) -> _Ranks:
    ranks = _Ranks([], [], [], [], [])
    for rank in sorted(a.ranks.keys() & b.ranks.keys()):
        trace = build_trace(rank, a.ranks[rank], b.ranks[rank], options)
        ends = reach(trace.a, 0), reach(trace.b, options.offset_b)
        ranks.idle.extend(leave_out(trace, options))
        ranks.traces.append(trace)
        ranks.reach.append(ends)
        ranks.lone.append(lone_rows(trace, *ends))
        ranks.notes.extend(length_notes(trace, *ends))
    return ranks


def _equal(a: Run, b: Run, ranks: _Ranks, options: DiffOptions) -> Divergence:
    limited, compared = _limit(ranks), _compared(ranks.traces)
    return Divergence(
        verdict=Verdict.EQUAL_SO_FAR if limited else Verdict.EQUAL,
        limited=limited,
        compared=compared,
        environment=_environment(a, b),
        unpaired=tuple(unpaired(ranks.traces, ranks.lone)),
        heat=heat(ranks.traces) if options.heat else None,
        notes=(*stranger_note(ranks.traces, ranks.lone), *ranks.notes, *_common_notes(a, b, ranks, compared)),
    )


def _limit(ranks: _Ranks) -> str:
    """Return why equal runs are equal only as far as they were recorded; empty where they are equal as a whole."""
    parts = []
    if any(end.cut for ends in ranks.reach for end in ends):
        parts.append("a recording stops before its run's end")
    if any(len(lone.among((Reason.FILTERED,))) for lone in ranks.lone):
        parts.append("only the modules that both recordings have were compared (--modules)")
    return "; ".join(parts)


def _diverged(a: Run, b: Run, ranks: _Ranks, first: First, options: DiffOptions) -> Divergence:
    trace, index = ranks.traces[first.trace], first.index
    step = int(trace.rows.step[index])
    view = StepView(trace, step)
    row = view.local(index)
    judge = Judge(view, _other_ranks(ranks.traces, first.trace, step))
    origin, origins = judge.judge(row), judge.origins()
    kind = kind_of(trace, index, has_producer=bool(view.edge[row] >= 0) and same_memory(view, row) is None)
    place, addresses = place_at(trace, index), origins.addresses
    differing = int(np.count_nonzero(trace.state[view.index] == RowState.DIFFERS))
    propagated = differing - len(addresses)
    if origin.holds and place.address not in addresses:
        addresses = (place.address, *addresses)
    compared = _compared(ranks.traces)
    notes = [*ranks.notes, *_common_notes(a, b, ranks, compared)]
    if origins.not_judged:
        notes.append(f"only the first {JUDGED_LIMIT} differing records of step {step} were examined for origins")
    proposed = None
    if kind is DivergenceKind.INITIALIZATION and not options.offset_b:
        proposed = proposed_offset(trace.a, trace.b)
        notes.extend(_offset_note(proposed))
    statistics, numbers = measured(trace, index, computed=kind is not DivergenceKind.DATA)
    remarks = (*remade_note(trace), *order_note(trace, step))
    notes = [*damage_note(trace, statistics), *stranger_note(ranks.traces, ranks.lone), *remarks, *notes]
    return Divergence(
        verdict=Verdict.DIVERGED,
        kind=kind,
        first=place,
        is_origin=origin.holds,
        origin_reason=origin.reason,
        origins_in_first_step=addresses,
        tensor=statistics,
        types=types_at(trace, index),
        cast=cast_at(trace, index),
        values=values_at(trace, index),
        structure=structure_sentence(trace, index),
        compared=compared,
        environment=_environment(a, b),
        propagated=propagated,
        stretch=stretch_at(view, row) if origin.holds is not False else None,
        numbers=numbers,
        batches=batches_at(trace, index) if kind is DivergenceKind.DATA else None,
        unpaired=tuple(unpaired(ranks.traces, ranks.lone)),
        growth=growth(ranks.traces, step) if options.growth else None,
        heat=heat(ranks.traces) if options.heat else None,
        offset_b=None if proposed is None else proposed.offset,
        notes=tuple(notes),
    )


def _other_ranks(traces: Sequence[Trace], own: int, step: int) -> Ranks:
    """Return what is known of ranks other than one in a step, before its update."""
    differing: Address | None = None
    for number, trace in enumerate(traces):
        spoilt = (trace.rows.step == step) & (trace.state == RowState.DIFFERS)
        rows = np.flatnonzero(spoilt & (trace.rows.phase != PHASE_CODE[Phase.OPTIMIZER]))
        if number != own and len(rows) and differing is None:
            differing = address_at(trace, int(rows[0]))
    world = max(max(trace.a.record.world_size, trace.b.record.world_size) for trace in traces)
    return Ranks(world, len(traces), differing)


def _compared(traces: Sequence[Trace]) -> Compared:
    counts = sum((np.bincount(trace.state, minlength=len(RowState)) for trace in traces), np.zeros(len(RowState), int))
    return Compared(
        steps=len(np.unique(np.concatenate([_compared_steps(trace) for trace in traces]))),
        records=int(counts[RowState.EQUAL] + counts[RowState.DIFFERS]),
        equal=int(counts[RowState.EQUAL]),
        differing=int(counts[RowState.DIFFERS]),
        only_in_a=int(counts[RowState.ONLY_A]),
        only_in_b=int(counts[RowState.ONLY_B]),
        unreadable=unreadable(traces),
    )


def _compared_steps(trace: Trace) -> NDArray[np.signedinteger[Any]]:
    """Return the step of each pair; what a run starts from is no part of the step that the other had ended by then."""
    chosen = trace.paired & (trace.state != RowState.IGNORED)
    chosen[late_starts(trace)] = False
    return np.asarray(trace.rows.step[chosen])


def _environment(a: Run, b: Run) -> tuple[Difference, ...]:
    """Return what differs in the environment of the two runs' first ranks."""
    of_a, of_b = a.first.record.environment, b.first.record.environment
    if of_a == of_b:
        return ()
    from bisect_diverge.environment.differences import differences

    return differences(of_a, of_b)


def _common_notes(a: Run, b: Run, ranks: _Ranks, compared: Compared) -> Iterator[str]:
    yield from same_run_note(a, b)
    yield from step_rule_note(a, b)
    yield from partner_notes(ranks.traces, ranks.lone)
    yield from evaluation_note(ranks.traces, ranks.lone)
    yield from renamed_note(ranks.traces, ranks.lone)
    yield from run_notes(a, b)
    yield from unhashable_note(compared.unreadable)
    yield from algorithms_note(ranks.traces)
    yield from generator_note(ranks.idle)


def _offset_note(found: ProposedOffset | None) -> Iterator[str]:
    if found is not None:
        yield (
            f"B's initial parameters are A's after step {found.after}: if B was resumed there, compare with "
            f"--offset-b {found.offset}"
        )
