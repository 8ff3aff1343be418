"""The trials of a search, one a line."""

from __future__ import annotations

import textwrap
from statistics import median
from typing import TYPE_CHECKING

from bisect_diverge.report.bisection_apart import Apart, apart_of, collapsed, with_parts
from bisect_diverge.report.bisection_commands import unit_name
from bisect_diverge.report.words import Paint, plural, printable, setting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.model.trial import Bisection, Trial, Unit

LONGEST_REASON = 300
"""Characters of a reason that are shown below a trial, in whole words."""
NAMED = 4
"""Swapped units that a row of the table names; more are counted."""
HEAD = ("n", "configuration", "outcome", "seconds")
"""Columns of `trial_rows`."""


def trial_line(trial: Trial, of: str = "", *, values: bool = False) -> str:
    """Return one trial as a line of progress: ``trial 3 of ~7 · A + {OMP_NUM_THREADS} · =A · 34.0 s``.

    Args:
        trial: The trial.
        of: How many there will be, in words.
        values: Say what each unit is swapped to, where one knob is tried at several values.
    """
    names = _braced([assigned(unit) for unit in trial.swapped]) if values else _names(trial.swapped)
    moved = f"A + {names}" if trial.swapped else "A"
    parts = [f"trial {trial.n}{of}", moved + _clamps(trial), str(trial.outcome)]
    parts.append("from the journal" if trial.reused else f"{trial.seconds:.1f} s")
    return " · ".join(parts)


def assigned(unit: Unit) -> str:
    """Return a unit as it is once swapped: ``threads.intra_op=1``; a long value is cut."""
    return printable(f"{unit.knob}={setting(unit.b)}" if unit.b is not None else f"{unit.knob} not set")


def trial_rows(bisection: Bisection) -> list[tuple[str, str, str, str]]:
    """Return number, configuration in words, outcome and seconds of each trial."""
    apart = apart_of(bisection)
    trials = with_parts(bisection, apart).trials
    wholes = [unit for unit, _ in bisection.taken_apart if unit not in apart]
    whole = _largest(trials)
    mixed = len({trial.clamps for trial in trials}) > 1  # where all are clamped, the notes say so
    return [
        (
            str(t.n),
            _configuration(t.swapped, whole, apart, wholes) + (_clamps(t) if mixed else ""),
            str(t.outcome),
            _time(t),
        )
        for t in trials
    ]


def _largest(trials: Sequence[Trial]) -> tuple[Unit, ...]:
    """Return what is swapped in B, and in what was added to it: parts in the place of a unit are another thing."""
    whole: tuple[Unit, ...] = ()
    for trial in trials:
        if set(whole) <= set(trial.swapped):
            whole = trial.swapped
    return whole


def table_lines(bisection: Bisection, paint: Paint) -> Iterator[str]:
    """Yield the title, the columns and a line for each trial; why one did not run stands below it."""
    trials = bisection.trials
    if not trials:
        return
    head, rows = HEAD, trial_rows(bisection)
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(3)]
    yield paint(plural(len(trials), "trial"), "title")
    for row, reason in zip([head, *rows], ["", *(trial.reason for trial in trials)], strict=True):
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)) + f"  {row[3]}"
        if reason:  # below, so that a long one moves no column
            yield f"    {' ' * widths[0]}{textwrap.shorten(printable(reason), LONGEST_REASON, placeholder=' ...')}"
    startups = [trial.startup for trial in trials if trial.startup and not trial.reused]
    if startups:
        yield f"  of each, {median(startups):.1f} s pass before its first record"


def _configuration(swapped: Sequence[Unit], whole: Sequence[Unit], apart: Apart, wholes: Sequence[Unit]) -> str:
    """Return a configuration in words, from A or from B, whichever is nearer.

    Args:
        swapped: What has B's value.
        whole: What has it in the largest configuration, which is B as far as it can be had here.
        apart: Units whose parts stand in both.
        wholes: Units of which a step stands in both.
    """
    missing = [unit for unit in whole if unit not in swapped]
    if not swapped:
        return "A"
    if not missing:
        return "B" if len(whole) > 1 else f"B = A + {_names(swapped, wholes)}"
    less, more = collapsed(missing, apart), collapsed(swapped, apart)
    near = len(less) < len(more) and len(missing) + len(swapped) == len(whole)
    return f"B - {_braced([printable(unit.knob) for unit in less])}" if near else f"A + {_names(more, wholes)}"


def _clamps(trial: Trial) -> str:
    return f" (clamped: {', '.join(trial.clamps)})" if trial.clamps else ""


def _names(units: Sequence[Unit], wholes: Sequence[Unit] = ()) -> str:
    return _braced([unit_name(unit, wholes) for unit in units])


def _braced(names: list[str]) -> str:
    if len(names) > NAMED:
        names = [*names[: NAMED - 1], f"{len(names) - NAMED + 1} more"]
    return f"{{{', '.join(names)}}}"


def _time(trial: Trial) -> str:
    return "reused" if trial.reused else f"{trial.seconds:.1f}"
