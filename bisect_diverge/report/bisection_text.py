"""The result of a bisection as text for people: the answer, its proof, what is left, and every trial."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING

from bisect_diverge.model.trial import BisectVerdict, Outcome, Role
from bisect_diverge.report.bisection_commands import fix_command, trial_command
from bisect_diverge.report.words import Paint, moment, place, plain, plural, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bisect_diverge.model.environment import Difference
    from bisect_diverge.model.trial import Bisection, Cause, Trial, Unit, Untested

LONGEST = 60
"""Characters of a value that are shown."""
NAMED = 4
"""Swapped units that a row of the table names; more are counted."""


def bisection_text(bisection: Bisection, label_a: str, label_b: str, paint: Paint = plain) -> str:
    """Return the result of a bisection as text, without a line end.

    Args:
        bisection: The result, whole or partial.
        label_a: The baseline as the user named it.
        label_b: The candidate as the user named it.
        paint: Gives headings and the verdict a look.
    """
    lines = [
        _verdict(bisection, paint),
        *_proofs(bisection, paint),
        *_units("innocent (tested)", bisection.innocent, paint),
        *_untested("no effect here: these were not tested", bisection.inert, paint),
        *_untested("not testable here", [row for row in bisection.untestable if not _left_out(row)], paint),
        *_untested("not tested: left out", [row for row in bisection.untestable if _left_out(row)], paint),
        *_notes(bisection, paint),
        *_table(bisection.trials, paint),
        *_fix(bisection, paint),
        *_repeat(bisection, label_a, label_b, paint),
        *_next(bisection),
    ]
    return "\n".join(lines)


def _left_out(row: Untested) -> bool:
    return row.reason.startswith("left out by ")


def trial_line(trial: Trial, of: str = "") -> str:
    """Return one trial as a line of progress: ``trial 3 of ~7 · A + {OMP_NUM_THREADS} · =A · 34.0 s``."""
    parts = [f"trial {trial.n}{of}", f"A + {_names(trial.swapped)}" if trial.swapped else "A", str(trial.outcome)]
    parts.append("from the journal" if trial.reused else f"{trial.seconds:.1f} s")
    return " · ".join(parts)


def _verdict(bisection: Bisection, paint: Paint) -> str:
    main = [cause for cause in bisection.causes if cause.role is not Role.MASKED]
    sets = [cause for cause in main if cause.sufficient] or main
    sets = [cause for cause in sets if cause.role is not Role.STARTS] or sets
    match bisection.verdict:
        case BisectVerdict.CAUSE:
            joined = " or ".join(_set(cause.units) for cause in sets)
            word = "starts" if sets[0].role is Role.STARTS else "cause"
            text = f"{word}: {joined}"
        case BisectVerdict.BY_ELIMINATION:
            text = f"by elimination: {_set(sets[0].units)}; it cannot be swapped here, and all else leaves A as it is"
        case BisectVerdict.NO_DIFFERENCE:
            text = "A and B do not differ: there is nothing to bisect"
        case BisectVerdict.NOT_REPEATABLE:
            text = "the baseline does not repeat itself: nothing can be blamed"
        case _:
            suspects = "; suspected, not proved: " + " or ".join(_set(c.units) for c in sets) if sets else ""
            text = f"inconclusive{suspects}"
    partial = "" if bisection.finished else " (the search did not come to its end)"
    return paint(text + partial, "good" if bisection.verdict is BisectVerdict.CAUSE else "bad")


def _set(units: Sequence[Unit]) -> str:
    return " together with ".join(_change(unit) for unit in units)


def _change(unit: Unit | Difference) -> str:
    return printable(f"{unit.layer} {unit.knob}: {_side(unit.a)} -> {_side(unit.b)}")


def _side(value: str | None) -> str:
    if value is None:
        return "(not set)"
    text = value if len(value) <= LONGEST else f"{value[:LONGEST]}..."
    return text or '""'


def _proofs(bisection: Bisection, paint: Paint) -> Iterator[str]:
    if bisection.verdict is BisectVerdict.BY_ELIMINATION:
        return
    trials = {trial.n: trial for trial in bisection.trials}
    several = len(bisection.causes) > 1
    for cause in bisection.causes:
        if several or cause.role is Role.MASKED:
            yield paint(f"  {_set(cause.units)}", "title")
        yield from (f"  {line}" for line in _proof(cause, bisection, trials))
    if sum(cause.role is Role.REDUNDANT for cause in bisection.causes) > 1:
        yield "  Either alone gives B; putting one back is not enough."


def _proof(cause: Cause, bisection: Bisection, trials: dict[int, Trial]) -> Iterator[str]:
    if cause.role is Role.STARTS and any(other.sufficient for other in bisection.causes):
        yield f"the divergence begins with this one ({_numbers(cause)}): there it gives B's bits, and A's before"
        return
    these = "this" if len(cause.units) == 1 else "these"
    if cause.role is Role.MASKED:
        yield f"also changes A ({_numbers(cause)}), but has no part in B: there it is covered"
        return
    for number in cause.proof:
        trial = trials[number]
        forward = set(trial.swapped) == set(cause.units)
        what = f"A with only {these} changed " if forward else f"B with only {these} put back"
        yield f"{what} = {_bits(trial)}   ({_same_trials(trial, bisection)})"
    if cause.role is Role.STARTS:
        yield "the divergence begins with this one: there it gives B's bits, and A's before"
    if cause.role is Role.PARTNERS:
        yield _together(cause, bisection.trials)
    if cause.role is Role.REDUNDANT and len(cause.units) > 1:
        yield f"{_together(cause, bisection.trials)} Something else does the same."
    first = bisection.first
    if first is not None:
        where = f"{moment(first)}, {place(first)}"
        same = "the same place as A against B"
        other = "NOT where the proving trials first differ: theirs may be another divergence"
        yield f"first divergence: {where} - {same if cause.same_divergence else other}"
    yield from (f"moved with it: {_change(row)}" for row in cause.consequences)


def _same_trials(trial: Trial, bisection: Bisection) -> str:
    """Return the numbers of a trial and its repeats with the same bits: ``trials 1, 3: A replayed``."""
    same = [t for t in bisection.trials if set(t.swapped) == set(trial.swapped) and t.outcome is trial.outcome]
    numbers = ", ".join(str(t.n) for t in same)
    side = "A" if not trial.swapped else "B" if set(trial.swapped) == set(_whole(bisection)) else ""
    what = f": {side} {'from the journal' if all(t.reused for t in same) else 'replayed'}" if side else ""
    return f"trial{'s' * (len(same) > 1)} {numbers}{what}"


def _whole(bisection: Bisection) -> tuple[Unit, ...]:
    """Return what is swapped in B as it was replayed: the largest configuration that ran twice; empty if none did."""
    ran = [t for t in bisection.trials if t.swapped and t.outcome in {Outcome.B, Outcome.OTHER}]
    count = Counter(frozenset(t.swapped) for t in ran)
    twice = [t for t in ran if count[frozenset(t.swapped)] > 1]
    best = max(twice, key=lambda t: (t.outcome is Outcome.B, len(t.swapped)), default=None)
    return () if best is None else best.swapped


def _bits(trial: Trial) -> str:
    return {"=A": "A", "=B": "B", "other": "neither A nor B"}.get(str(trial.outcome), f"not known ({trial.outcome})")


def _together(cause: Cause, trials: Sequence[Trial]) -> str:
    """Return the sentence on units that act together: ``Neither alone: X = A, Y = A. Together = B.``."""
    alone = {t.swapped[0]: t for t in trials if len(t.swapped) == 1 and t.swapped[0] in cause.units}
    seen = ", ".join(f"{_assigned(unit)} = {_bits(alone[unit])}" for unit in cause.units if unit in alone)
    word = "Neither alone" if len(cause.units) == 2 else "None alone"
    together = next((_bits(t) for t in trials if set(t.swapped) == set(cause.units)), "B")
    return f"{word}{': ' * bool(seen)}{seen}. Together = {together}."


def _assigned(unit: Unit) -> str:
    return printable(f"{unit.knob}={_side(unit.b)}" if unit.b is not None else f"{unit.knob} not set")


def _numbers(cause: Cause) -> str:
    return ", ".join(f"trial {number}" for number in cause.proof)


def _units(title: str, units: Sequence[Unit], paint: Paint) -> Iterator[str]:
    if units:
        yield paint(title, "title")
        yield from (f"  {_change(unit)}" for unit in units)


def _untested(title: str, rows: Sequence[Untested], paint: Paint) -> Iterator[str]:
    if rows:
        yield paint(title, "title")
        yield from (f"  {_change(row.unit)}: {printable(row.reason)}" for row in rows)


def _notes(bisection: Bisection, paint: Paint) -> Iterator[str]:
    if bisection.notes:
        yield paint("notes", "title")
        yield from (f"  {printable(note)}" for note in bisection.notes)


def _table(trials: Sequence[Trial], paint: Paint) -> Iterator[str]:
    if not trials:
        return
    whole = max((trial.swapped for trial in trials), key=len)
    rows = [(str(t.n), _configuration(t.swapped, whole), _outcome(t), _time(t)) for t in trials]
    head = ("n", "configuration", "outcome", "seconds")
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(3)]
    yield paint(plural(len(trials), "trial"), "title")
    for row in [head, *rows]:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)) + f"  {row[3]}"


def _configuration(swapped: Sequence[Unit], whole: Sequence[Unit]) -> str:
    """Return a configuration in words, from A or from B, whichever is nearer.

    Args:
        swapped: What has B's value.
        whole: What has it in the largest configuration, which is B as far as it can be had here.
    """
    missing = [unit for unit in whole if unit not in swapped]
    if not swapped:
        return "A"
    if not missing:
        return "B" if len(whole) > 1 else f"B = A + {_names(swapped)}"
    near = len(missing) < len(swapped) and len(missing) + len(swapped) == len(whole)
    return f"B - {_names(missing)}" if near else f"A + {_names(swapped)}"


def _names(units: Sequence[Unit]) -> str:
    names = [printable(unit.knob) for unit in units]
    if len(names) > NAMED:
        names = [*names[: NAMED - 1], f"{len(names) - NAMED + 1} more"]
    return f"{{{', '.join(names)}}}"


def _outcome(trial: Trial) -> str:
    return f"{trial.outcome}: {printable(trial.reason)[:LONGEST]}" if trial.reason else str(trial.outcome)


def _time(trial: Trial) -> str:
    return "reused" if trial.reused else f"{trial.seconds:.1f}"


def _fix(bisection: Bisection, paint: Paint) -> Iterator[str]:
    causes = [cause for cause in bisection.causes if cause.role not in {Role.MASKED, Role.STARTS}]
    causes = causes or [cause for cause in bisection.causes if cause.role is Role.STARTS]
    if bisection.verdict is not BisectVerdict.CAUSE or not causes:
        return
    necessary = all(cause.necessary for cause in causes)
    units = [unit for cause in causes for unit in cause.units] if necessary else _put_back(bisection, causes)
    if units:
        yield paint("to make B like A" + (", all of these" if not necessary and len(units) > 1 else ""), "title")
        yield from (f"  {line}" for line in _distinct(fix_command(unit) for unit in units))


def _put_back(bisection: Bisection, causes: Sequence[Cause]) -> list[Unit]:
    """Return the smallest set that a trial showed to give A when put back in B; empty if none but A itself did."""
    whole = _whole(bisection)
    blamed = {unit for cause in causes for unit in cause.units}
    sets = [
        [unit for unit in whole if unit not in trial.swapped]
        for trial in bisection.trials
        if trial.outcome is Outcome.A and set(trial.swapped) <= set(whole)
    ]
    sets = [units for units in sets if len(units) < len(whole) or set(units) == blamed]
    return min(sets, key=len, default=[])


def _distinct(lines: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(lines)


def _repeat(bisection: Bisection, label_a: str, label_b: str, paint: Paint) -> Iterator[str]:
    trials = {trial.n: trial for trial in bisection.trials}
    numbers = dict.fromkeys(number for cause in bisection.causes for number in cause.proof)
    if numbers:
        yield paint("to repeat a proving trial", "title")
        yield from (
            f"  {number}  {shlex.join(trial_command(trials[number].swapped, label_a, label_b))}" for number in numbers
        )


def _next(bisection: Bisection) -> Iterator[str]:
    if bisection.verdict is BisectVerdict.NOT_REPEATABLE:
        yield (
            "next: take away what is random (deterministic algorithms or one thread, PYTHONHASHSEED=0), "
            "then record A and B again"
        )
    elif not bisection.finished:
        yield "next: the same command again; trials that were made are not made twice"
