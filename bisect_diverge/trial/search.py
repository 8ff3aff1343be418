"""Sets up the trials of two recorded runs: what differs, how far each trial runs, where it is remembered."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bisect_diverge.diff.compare import compare
from bisect_diverge.diff.options import DiffOptions
from bisect_diverge.errors import NotComparableError, ReplayError
from bisect_diverge.model.divergence import Divergence, Verdict
from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import LEFT_OUT, Unit, Untested
from bisect_diverge.store.reader import Run
from bisect_diverge.trial.circumstances import changed_files, circumstances
from bisect_diverge.trial.clamp import split
from bisect_diverge.trial.configuration import check, missing_ranks
from bisect_diverge.trial.draft import Sides
from bisect_diverge.trial.images import image_of
from bisect_diverge.trial.journal import Journal, key_of
from bisect_diverge.trial.oracle import NOTHING, Pair, Trials, merged_record
from bisect_diverge.trial.units import Units, units_of
from bisect_diverge.trial.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from bisect_diverge.model.address import Address
    from bisect_diverge.model.trial import Bisection

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
    observing: Callable[[frozenset[Unit]], None] = lambda _: None
    """Called before a configuration is run unrecorded."""
    warn: Callable[[str], None] = lambda _: None
    """Gets what the user should know at once, a sentence a time."""
    found: Callable[[Sequence[Unit], Sequence[Untested]], None] = lambda _units, _cannot: None
    """Called when more is moved than `units` says, with all that is, and with what cannot be."""
    units: Units = NOTHING
    """What differs (`differing_units`)."""
    left_out: Mapping[Layer, str] = field(default_factory=dict)
    """Layer that is not moved to the option that says so (`left_out`)."""
    must_run: bool = False
    """Whether it is an error when A itself fails."""
    image_cmd: str = ""
    """What starts a command in a container image, with ``{image}`` in it; empty: not known."""
    measured: bool = False
    """Whether it is measured how far each trial is on the way from A to B."""
    until_step: int | None = None
    """Step that trials run to at least; None: the one after the divergence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clamped:
    """A search with every clamp on in every trial."""

    oracle: Trials
    """Compares with A and B as they are with the clamps."""
    first: Address | None
    """Where these first differ; None: nowhere that far."""
    held: tuple[Untested, ...]
    """What cannot be blamed."""
    runs: int
    """Runs of A and B that this took."""


def first_divergence(a: Run, b: Run, offset_b: int = 0) -> Address | None:
    """Return where two runs first differ; None where they do not.

    Raises:
        NotComparableError: if they cannot be compared.
    """
    first = divergence_of(a, b, offset_b).first
    return None if first is None else first.address


def divergence_of(a: Run, b: Run, offset_b: int = 0) -> Divergence:
    """Return how two runs differ.

    Raises:
        NotComparableError: if they cannot be compared.
    """
    divergence = compare(a, b, DiffOptions(offset_b=offset_b)).divergence
    if divergence.verdict is Verdict.NOT_COMPARABLE:
        raise NotComparableError(f"{a.path} and {b.path} cannot be compared: {divergence.notes[0]}")
    return divergence


def left_out(only: Sequence[str] = (), skip: Sequence[str] = ()) -> dict[Layer, str]:
    """Return the layers that are not moved, each with the option that says so.

    Args:
        only: Layers to search; empty: all.
        skip: Layers to leave out.
    """
    return {
        layer: "--skip" if layer in skip else "--only"
        for layer in Layer
        if layer in skip or (only and layer not in only)
    }


def differing_units(a: Run, b: Run, out: Mapping[Layer, str] | None = None, image_cmd: str = "") -> Units:
    """Return what differs between two runs.

    Args:
        a: The baseline.
        b: The candidate.
        out: Layers that are not moved (`left_out`). Their resolved values stay among the evidence: what another layer
            moves is no unit, whatever its layer.
        image_cmd: What starts a command in a container image; empty: not known.
    """
    units, out = units_of(merged_record(a), merged_record(b), image_cmd), out or {}
    left = tuple(Untested(unit=u, reason=f"{LEFT_OUT}{out[u.layer]}") for u in units.units if u.layer in out)
    return Units(
        units=tuple(unit for unit in units.units if unit.layer not in out),
        untestable=(*units.untestable, *left),
        resolved=units.resolved,
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
    other = record if b is None else merged_record(b)
    trouble = check(record, in_image=bool(options.image_cmd and image_of(record)))
    if trouble:
        raise ReplayError(
            f"{trouble}{_elsewhere(a)}",
            hint="trials run the recorded command again, in the recorded directory; bd diff and bd env need neither",
        )
    trouble = missing_ranks(record, len(a.ranks))
    if trouble:
        raise ReplayError(
            trouble, hint="record all ranks by one command: bd record -o RUN -- torchrun --nproc-per-node 2 train.py"
        )
    last_step = max(file.steps for file in a.ranks.values()) - 1 if first is None else first.step + 1
    last_step = max(last_step, options.until_step or 0)
    folder = a.path / "trials" if a.path.is_dir() else None
    lies_about = circumstances(record, other) + options.image_cmd
    journal = Journal(
        folder,
        key_of(a),
        "" if b is None else key_of(b),
        f"step {last_step}, offset {options.offset_b}, {lies_about}",
        fresh=options.fresh,
        warn=options.warn,
    )
    with Workspace(options.keep) as workspace:
        yield Trials(
            Pair(
                a=a,
                b=b,
                sides=Sides(a=record, b=other, last_step=last_step, image_cmd=options.image_cmd),
                first=first,
                journal=journal,
                workspace=workspace,
                offset_b=options.offset_b,
                units=options.units,
                left_out=options.left_out,
                must_run=options.must_run,
                should_stop=options.should_stop,
                announce=options.announce,
                observing=options.observing,
                found=options.found,
                measured=options.measured,
            )
        )


def _elsewhere(run: Run) -> str:
    """Return that a run is one of another machine, as the end of a sentence; empty where it is not."""
    host, here = run.first.status.host, platform.node()
    return f"; the run was recorded on {host}, and this is {here}" if host and host != here else ""


@contextmanager
def clamped(oracle: Trials) -> Iterator[Clamped]:
    """Yield a search whose oracle compares with A and B as they are with every clamp on, in which all its trials run.

    Runs A and B so once each; again where seeds move by themselves, which are held from then on, and where one fails
    without a file that it can be lent. What a clamp holds is no unit any more.

    Raises:
        ReplayError: if one of them does not run.
        NotComparableError: if they cannot be compared any more.
    """
    names = tuple(oracle.clamps())
    pair = oracle.clamped(names).pair
    free, held = split(pair.units.units, names)
    runner = Trials(pair)
    with ExitStack() as stack:
        runs = []
        made = 0
        for swapped in (frozenset[Unit](), frozenset(pair.units.units)):
            place, times = runner.settled(swapped, lambda: stack.enter_context(pair.workspace.folder()))
            runs.append(stack.enter_context(Run(place)))
            made += times
        first = first_divergence(runs[0], runs[1])
        resolved, _ = split((Unit(layer=d.layer, knob=d.knob, a=d.a, b=d.b) for d in pair.units.resolved), names)
        kept = {(unit.layer, unit.knob) for unit in resolved}
        units = Units(
            units=free,
            untestable=pair.units.untestable,
            resolved=tuple(d for d in pair.units.resolved if (d.layer, d.knob) in kept),
        )
        again = runner.over(replace(runner.pair, a=runs[0], b=runs[1], first=first, offset_b=0, units=units))
        yield Clamped(oracle=again, first=first, held=held, runs=made)


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


def with_held_seeds(bisection: Bisection, oracle: Trials) -> Bisection:
    """Return a bisection that says which seeds were held in every trial, since every process has others."""
    held = oracle.held_seeds()
    if not held:
        return bisection
    note = f"another value in every process, and so held at A's in every trial unless swapped: {', '.join(held)}"
    return replace(bisection, notes=(*bisection.notes, note))


def with_overridden(bisection: Bisection) -> Bisection:
    """Return a bisection that says which of the script's own calls were overridden in trials, and in which first."""
    first: dict[str, int] = {}
    for trial in bisection.trials:
        for note in trial.overridden:
            first.setdefault(note, trial.n)
    notes = [f"in trial {n}: {note}" for note, n in list(first.items())[:MOST_MOVED]]
    more = [f"{len(first) - MOST_MOVED} more calls of the script were overridden"] if len(first) > MOST_MOVED else []
    return replace(bisection, notes=(*bisection.notes, *notes, *more)) if notes else bisection


def with_prepared(bisection: Bisection, oracle: Trials) -> Bisection:
    """Return a bisection that names the files that A made before its first module call and that are others now."""
    names, does = oracle.prepared_anew()
    if not names:
        return bisection
    note = f"made by A before its first module call, and made again since: {names}; {does}"
    return replace(bisection, notes=(*bisection.notes, note))


def with_changes(bisection: Bisection, a: Run) -> Bisection:
    """Return a bisection that says which of A's files are no longer as they were recorded."""
    said = changes(a)
    return replace(bisection, notes=(*bisection.notes, said)) if said else bisection


def changes(a: Run) -> str:
    """Return a sentence that names A's script and modules that have changed since; empty if none has."""
    return changed_files(merged_record(a))
