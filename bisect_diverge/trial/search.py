"""Sets up the trials of two recorded runs: what differs, how far each trial runs, where it is remembered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bisect_diverge.diff.compare import compare
from bisect_diverge.diff.options import DiffOptions
from bisect_diverge.errors import NotComparableError, ReplayError
from bisect_diverge.model.divergence import Verdict
from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import Outcome, Unit, Untested
from bisect_diverge.trial.circumstances import changed_files, circumstances
from bisect_diverge.trial.configuration import check
from bisect_diverge.trial.journal import Journal, key_of
from bisect_diverge.trial.oracle import Trials, merged_record
from bisect_diverge.trial.units import Units, left_over, units_of
from bisect_diverge.trial.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from bisect_diverge.model.address import Address
    from bisect_diverge.model.trial import Bisection
    from bisect_diverge.store.reader import Run

MOST_MOVED = 4
"""So many values that moved by themselves are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOptions:
    """How trials are made."""

    offset_b: int = 0
    """A's step at which a resumed B begins."""
    fresh: bool = False
    """Forget the trials of earlier searches."""
    keep: Path | None = None
    """Directory in which the trials' folders are kept; None: they are removed."""
    should_stop: Callable[[], bool] = lambda: False
    """Asked while a trial runs."""
    announce: Callable[[frozenset[Unit]], None] = lambda _: None
    """Called before a trial is started."""


def first_divergence(a: Run, b: Run, offset_b: int = 0) -> Address | None:
    """Return where two runs first differ; None where they do not.

    Raises:
        NotComparableError: if they cannot be compared.
    """
    divergence = compare(a, b, DiffOptions(offset_b=offset_b)).divergence
    if divergence.verdict is Verdict.NOT_COMPARABLE:
        raise NotComparableError(f"{a.path} and {b.path} cannot be compared: {divergence.notes[0]}")
    return None if divergence.first is None else divergence.first.address


def differing_units(a: Run, b: Run, only: Sequence[str] = (), skip: Sequence[str] = ()) -> Units:
    """Return what differs between two runs.

    Args:
        a: The baseline.
        b: The candidate.
        only: Layers to search; empty: all.
        skip: Layers to leave out.
    """
    units = units_of(merged_record(a), merged_record(b))
    out = {unit: "--skip" for unit in units.units if unit.layer in skip}
    out |= {unit: "--only" for unit in units.units if only and unit.layer not in only and unit not in out}
    left = tuple(Untested(unit=unit, reason=f"left out by {out[unit]}") for unit in units.units if unit in out)
    return Units(
        units=tuple(unit for unit in units.units if unit not in out),
        untestable=(*units.untestable, *left),
        resolved=tuple(d for d in units.resolved if not (only and d.layer not in only) and d.layer not in skip),
    )


@contextmanager
def trials(a: Run, b: Run | None, first: Address | None, options: TrialOptions) -> Iterator[Trials]:
    """Yield the oracle of two runs, and remove what it made.

    Args:
        a: The baseline.
        b: The candidate; None: trials are compared with A alone.
        first: Where they first differ: a trial ends at the end of the step after it. None: at A's end.
        options: How trials are made.

    Raises:
        ReplayError: if A's command cannot be started any more.
    """
    record = merged_record(a)
    trouble = check(record)
    if trouble:
        raise ReplayError(trouble, hint="trials run the recorded command again, in the recorded directory")
    last_step = max(file.steps for file in a.ranks.values()) - 1 if first is None else first.step + 1
    folder = a.path / "trials" if a.path.is_dir() else None
    journal = Journal(
        folder,
        key_of(a),
        "" if b is None else key_of(b),
        f"step {last_step}, offset {options.offset_b}, {circumstances(record, merged_record(b or a))}",
        fresh=options.fresh,
    )
    with Workspace(options.keep) as workspace:
        yield Trials(
            a,
            b,
            last_step,
            first=first,
            journal=journal,
            workspace=workspace,
            offset_b=options.offset_b,
            should_stop=options.should_stop,
            announce=options.announce,
        )


def with_left_over(units: Units, oracle: Trials, b: Run) -> Units:
    """Return the units, with those resolved values that the others do not bring about in B.

    Runs the two controls that every search begins with: A must run, and B is what a swap of everything makes.

    Raises:
        ReplayError: if the recorded command fails now.
    """
    baseline = oracle(frozenset())
    if baseline.outcome is Outcome.SKIP and not oracle.interrupted:
        raise ReplayError(
            f"the recorded command fails now, which it did not when it was recorded: {baseline.reason}",
            hint="trials run it again in the recorded directory; does it need something that is gone?",
        )
    everything = frozenset(units.units)
    oracle.always_run(everything)
    if not units.resolved or baseline.outcome is not Outcome.A:
        return units
    if everything and oracle(everything).outcome is Outcome.B:
        return units
    more = left_over(units, oracle.read_back(everything), merged_record(b).environment)
    oracle.always_run(frozenset(more.units))
    if len(more.units) > len(units.units) and oracle(frozenset(more.units)).outcome is Outcome.B:
        return Units(units=more.units, untestable=units.untestable, resolved=())  # the others moved with them
    return more


def with_what_moved(bisection: Bisection) -> Bisection:
    """Return a bisection that says what is no longer as A was recorded: the machine, the system, a library.

    Nobody swapped it, so that nothing can be said of it; the search compares runs that all have it.
    """
    baseline = next((trial for trial in bisection.trials if not trial.swapped), None)
    moved = [] if baseline is None else [d for d in baseline.consequences if d.layer is not Layer.SEEDS]
    if not moved:
        return bisection
    names = "; ".join(f"{d.layer} {d.knob}: {d.a or '(not set)'} -> {d.b}" for d in moved[:MOST_MOVED])
    more = f"; and {len(moved) - MOST_MOVED} more" if len(moved) > MOST_MOVED else ""
    note = f"since A was recorded this has moved by itself, and is the same in every trial here: {names}{more}"
    return replace(bisection, notes=(*bisection.notes, note))


def with_changes(bisection: Bisection, a: Run) -> Bisection:
    """Return a bisection that says which of A's files are no longer as they were recorded."""
    said = changes(a)
    return replace(bisection, notes=(*bisection.notes, said)) if said else bisection


def changes(a: Run) -> str:
    """Return a sentence that names A's script and modules that have changed since; empty if none has."""
    return changed_files(merged_record(a))
