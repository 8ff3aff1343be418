"""The result of a bisection as text for people: the answer, its proof, what is left, and every trial."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from bisect_diverge.environment.differences import principal
from bisect_diverge.model.divergence import Side
from bisect_diverge.model.trial import LEFT_OUT, BisectVerdict, Observer, Outcome, Role
from bisect_diverge.report.bisection_commands import (
    fix_command,
    search_command,
    trial_command,
    trial_options,
    unit_name,
)
from bisect_diverge.report.commands import command_line
from bisect_diverge.report.elements_text import elements, looks
from bisect_diverge.report.likely_text import NOT_APART, how_sure, likely_proof
from bisect_diverge.report.words import Paint, change, moment, place, plain, plural, printable, setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bisect_diverge.model.trial import Bisection, Cause, Trial, Unit, Untested

LONGEST_REASON = 300
"""Characters of a reason that are shown below a trial, in whole words."""
MOST_SET = 2
"""So many resolved values that moved with a cause are named in the verdict; of more, none."""
NAMED = 4
"""Swapped units that a row of the table names; more are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What shows one cause, in lines."""

    title: str
    """Its units; empty where it is the only one, or where the lines are about all."""
    lines: tuple[str, ...]
    """The proving trials, and what else is known of it."""


def bisection_text(
    bisection: Bisection, label_a: str, label_b: str, paint: Paint = plain, asked: Sequence[str] = ()
) -> str:
    """Return the result of a bisection as text, without a line end.

    Args:
        bisection: The result, whole or partial.
        label_a: The baseline as the user named it.
        label_b: The candidate as the user named it.
        paint: Gives headings and the verdict a look.
        asked: Options of ``bd bisect`` that it was found with, each in one word: ``--offset-b=3``.
    """
    lines = [
        verdict_sentence(bisection, paint),
        *_proofs(bisection, paint),
        *(f"  {line}" for line in kind_lines(bisection)),
        *_recording(bisection),
        *_units("innocent (tested)", bisection.innocent, paint),
        *_untested("no effect here: these were not tested", bisection.inert, paint),
        *_untested("not testable here", [row for row in bisection.untestable if not _left_out(row)], paint),
        *_untested("not tested: left out", [row for row in bisection.untestable if _left_out(row)], paint),
        *_notes(bisection, paint),
        *_table(bisection, paint),
        *_fix(bisection, paint),
        *_repeat(bisection, label_a, label_b, paint, asked),
        *next_lines(bisection, asked),
    ]
    return "\n".join(lines)


Apart = Mapping["Unit", tuple["Unit", ...]]
"""Units to the parts they were taken apart into, the outermost first; steps are no such parts: one stands for all."""


def _apart(bisection: Bisection) -> Apart:
    return {unit: parts for unit, parts in bisection.taken_apart if not _are_steps(unit, parts)}


def _with_parts(bisection: Bisection, apart: Apart) -> Bisection:
    """Return a bisection whose trials name the parts of what was taken apart."""
    return replace(bisection, trials=tuple(replace(t, swapped=_expanded(t.swapped, apart)) for t in bisection.trials))


def _are_steps(unit: Unit, parts: Sequence[Unit]) -> bool:
    """Whether the parts are steps of one way (commits, releases), of which the last that is swapped counts."""
    return all((part.layer, part.knob) == (unit.layer, unit.knob) for part in parts)


def _stepped(cause: Cause) -> list[Unit]:
    """Return the units of a cause that are steps."""
    ways = {(whole.layer, whole.knob) for whole in cause.part_of}
    return [unit for unit in cause.units if (unit.layer, unit.knob) in ways]


def _ends(units: Iterable[Unit]) -> dict[tuple[str, str], str | None]:
    """Return where units lead: a step to the same place as the whole way up to it, the last step as the whole."""
    return {(unit.layer, unit.knob): unit.b for unit in units}


def _expanded(units: Sequence[Unit], apart: Apart) -> tuple[Unit, ...]:
    """Return units with the parts of each that was taken apart in its place."""
    found = tuple(units)
    for unit, parts in apart.items():
        found = tuple(each for old in found for each in (parts if old == unit else (old,)))
    return found


def _collapsed(units: Sequence[Unit], apart: Apart) -> tuple[Unit, ...]:
    """Return units with each unit in the place of its parts where all of them are there."""
    found = tuple(units)
    for unit, parts in reversed(list(apart.items())):
        if set(parts) <= set(found):
            found = tuple(unit if old == parts[0] else old for old in found if old not in parts[1:])
    return found


def _left_out(row: Untested) -> bool:
    return row.reason.startswith(LEFT_OUT)


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


def _clamps(trial: Trial) -> str:
    return f" (clamped: {', '.join(trial.clamps)})" if trial.clamps else ""


def verdict_sentence(bisection: Bisection, paint: Paint = plain) -> str:
    """Return the answer as one sentence."""
    main = [cause for cause in bisection.causes if cause.role is not Role.MASKED]
    sets = [cause for cause in main if cause.sufficient] or main
    sets = [cause for cause in sets if cause.role is not Role.STARTS] or sets
    match bisection.verdict:
        case BisectVerdict.CAUSE:
            joined = " or ".join(f"{_set(cause.units)}{_which_sets(cause)}" for cause in sets)
            word = "starts" if sets[0].role is Role.STARTS else "cause"
            text = f"{word}: {joined}"
        case BisectVerdict.BY_ELIMINATION:
            text = f"by elimination: {_set(sets[0].units)}; it cannot be swapped here, and all else leaves A as it is"
        case BisectVerdict.NO_DIFFERENCE:
            text = "A and B do not differ: there is nothing to bisect"
        case BisectVerdict.LIKELY if bisection.sampling is not None:
            joined = " or ".join(_set(cause.units) for cause in sets)
            text = f"likely cause, not proved: {joined}; {how_sure(bisection.sampling)}"
        case BisectVerdict.NOT_REPEATABLE:
            text = "the baseline does not repeat itself: nothing can be blamed"
        case _:
            suspects = "; suspected, not proved: " + " or ".join(_set(c.units) for c in sets) if sets else ""
            text = f"inconclusive{suspects}"
            if bisection.sampling is not None and not bisection.sampling.apart and bisection.finished:
                text = f"inconclusive: {NOT_APART}"
    partial = "" if bisection.finished else " (the search did not come to its end)"
    return paint(text + partial, "good" if bisection.verdict is BisectVerdict.CAUSE else "bad")


def _which_sets(cause: Cause) -> str:
    """Return the other end of a cause: the values of other layers that it moved, where they are few.

    Of values that move along with others (all threads with torch's own) the first is named.
    """
    own = {unit.layer for unit in cause.units}
    rows = [row for row in cause.consequences if row.layer not in own and row.a is not None and row.b is not None]
    rows = list(principal(rows))
    if not rows or len(rows) > MOST_SET:
        return ""
    return f", which sets {' and '.join(change(row) for row in rows)}"


def _set(units: Sequence[Unit]) -> str:
    return " together with ".join(change(unit) for unit in units)


def _proofs(bisection: Bisection, paint: Paint) -> Iterator[str]:
    for proof in proofs(bisection):
        if proof.title:
            yield paint(f"  {proof.title}", "title")
        yield from (f"{'    ' if proof.title else '  '}{line}" for line in proof.lines)


def proofs(bisection: Bisection) -> Iterator[Proof]:
    """Yield the proof of each cause, then what is to be said of all; where there are several, each under its units."""
    if bisection.verdict is BisectVerdict.BY_ELIMINATION:
        return
    bisection = _with_parts(bisection, _apart(bisection))
    trials = {trial.n: trial for trial in bisection.trials}
    several = len(bisection.causes) > 1
    for cause in bisection.causes:
        title = _set(cause.units) if several or cause.role is Role.MASKED else ""
        shown = _proof(cause, bisection, trials) if bisection.sampling is None else likely_proof(cause, bisection)
        yield Proof(title=title, lines=tuple(shown))
    redundant = [cause for cause in bisection.causes if cause.role is Role.REDUNDANT]
    if len(redundant) > 1:
        lines = ("Either alone gives B; putting one back is not enough.", *_all_put_back(redundant, bisection))
        yield Proof(title="", lines=lines)


def _all_put_back(causes: Sequence[Cause], bisection: Bisection) -> Iterator[str]:
    """Yield the trial that shows that B is A once none of these causes is left; nothing if none was made."""
    left = set(_whole(bisection)) - {unit for cause in causes for unit in cause.units}
    for trial in bisection.trials:
        if trial.outcome is Outcome.A and set(trial.swapped) == left:
            yield f"B with all of these put back = A   ({_same_trials(trial, bisection)})"
            return


def kind_lines(bisection: Bisection) -> Iterator[str]:
    """Yield what kind of difference A and B have where they first differ, and how large it is."""
    found = bisection.divergence
    if found is None or found.first is None:
        return
    look = looks(found)
    yield f"kind: {found.kind}{', ' if look else ''}{look}"
    if found.first.side is Side.BOTH:
        yield f"elements: {printable(elements(found))}"


def _proof(cause: Cause, bisection: Bisection, trials: dict[int, Trial]) -> Iterator[str]:
    if cause.role is Role.STARTS and any(other.sufficient for other in bisection.causes):
        yield f"the divergence begins with this one ({_numbers(cause)}): there it gives B's bits, and A's before"
        return
    if cause.role is Role.MASKED:
        yield f"also changes A ({_numbers(cause)}), but has no part in B: there it is covered"
        return
    rows = [(_what(cause, trials[number]), trials[number]) for number in cause.proof]
    rows[1:1] = [("A with only the steps before it", trial) for trial in _before(cause, bisection.trials)]
    width = max((len(what) for what, _ in rows), default=0)
    for what, trial in rows:
        yield f"{what.ljust(width)} = {_bits(trial)}   ({_same_trials(trial, bisection)})"
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
    yield from (f"part of {change(unit)}" for unit in cause.part_of)
    yield from (f"moved with it: {change(row)}" for row in cause.consequences)


def _what(cause: Cause, trial: Trial) -> str:
    """Return what a proving trial is: of a step it is not that step alone that is changed or put back."""
    these = "this" if len(cause.units) == 1 else "these"
    forward = _ends(trial.swapped) == _ends(cause.units)
    if _stepped(cause):
        before, all_steps = f"A with {these} and the steps before", f"B with {these} and all other steps put back"
        return before if forward else all_steps
    return f"A with only {these} changed" if forward else f"B with only {these} put back"


def _before(cause: Cause, trials: Sequence[Trial]) -> list[Trial]:
    """Return the trial that has all of a cause but its step, in whose place it has the steps before that one."""
    steps = _stepped(cause)
    if len(steps) != 1:
        return []
    step = steps[0]
    ends = _ends(cause.units) | {(step.layer, step.knob): step.a}
    return [trial for trial in trials if _ends(trial.swapped) == ends][:1]


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
    ends = {unit: _ends((unit,)) for unit in cause.units}
    alone = {unit: t for unit, end in ends.items() for t in trials if _ends(t.swapped) == end}
    seen = ", ".join(f"{assigned(unit)} = {_bits(alone[unit])}" for unit in cause.units if unit in alone)
    word = "Neither alone" if len(cause.units) == 2 else "None alone"
    together = next((_bits(t) for t in trials if _ends(t.swapped) == _ends(cause.units)), "B")
    return f"{word}{': ' * bool(seen)}{seen}. Together = {together}."


def assigned(unit: Unit) -> str:
    """Return a unit as it is once swapped: ``threads.intra_op=1``; a long value is cut."""
    return printable(f"{unit.knob}={setting(unit.b)}" if unit.b is not None else f"{unit.knob} not set")


def _numbers(cause: Cause) -> str:
    return ", ".join(f"trial {number}" for number in cause.proof)


def _recording(bisection: Bisection) -> Iterator[str]:
    """Yield what recording does, where that is a reason to distrust the answer."""
    if bisection.observer in {Observer.CREATES, Observer.HIDES, Observer.CHANGED}:
        yield from (f"  {note}" for note in bisection.notes if note.startswith("recording "))


def _units(title: str, units: Sequence[Unit], paint: Paint) -> Iterator[str]:
    if units:
        yield paint(title, "title")
        yield from (f"  {change(unit)}" for unit in units)


def _untested(title: str, rows: Sequence[Untested], paint: Paint) -> Iterator[str]:
    if rows:
        yield paint(title, "title")
        yield from (f"  {change(row.unit)}: {printable(row.reason)}" for row in rows)


def _notes(bisection: Bisection, paint: Paint) -> Iterator[str]:
    if bisection.notes:
        yield paint("notes", "title")
        yield from (f"  {printable(note)}" for note in bisection.notes)


HEAD = ("n", "configuration", "outcome", "seconds")
"""Columns of `trial_rows`."""


def trial_rows(bisection: Bisection) -> list[tuple[str, str, str, str]]:
    """Return number, configuration in words, outcome and seconds of each trial."""
    apart = _apart(bisection)
    trials = _with_parts(bisection, apart).trials
    wholes = [unit for unit, _ in bisection.taken_apart if unit not in apart]
    whole = max((trial.swapped for trial in trials), key=len, default=())
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


def _table(bisection: Bisection, paint: Paint) -> Iterator[str]:
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
    less, more = _collapsed(missing, apart), _collapsed(swapped, apart)
    near = len(less) < len(more) and len(missing) + len(swapped) == len(whole)
    return f"B - {_braced([printable(unit.knob) for unit in less])}" if near else f"A + {_names(more, wholes)}"


def _names(units: Sequence[Unit], wholes: Sequence[Unit] = ()) -> str:
    return _braced([unit_name(unit, wholes) for unit in units])


def _braced(names: list[str]) -> str:
    if len(names) > NAMED:
        names = [*names[: NAMED - 1], f"{len(names) - NAMED + 1} more"]
    return f"{{{', '.join(names)}}}"


def _time(trial: Trial) -> str:
    return "reused" if trial.reused else f"{trial.seconds:.1f}"


def _fix(bisection: Bisection, paint: Paint) -> Iterator[str]:
    title, lines = fixes(bisection)
    if lines:
        yield paint(title, "title")
        yield from (f"  {line}" for line in lines)


def fixes(bisection: Bisection) -> tuple[str, list[str]]:
    """Return a title and what to do so that B has A's bits, as far as a trial has shown it; nothing if none has."""
    bisection = _with_parts(bisection, _apart(bisection))
    causes = [cause for cause in bisection.causes if cause.role not in {Role.MASKED, Role.STARTS}]
    causes = causes or [cause for cause in bisection.causes if cause.role is Role.STARTS]
    if bisection.verdict not in {BisectVerdict.CAUSE, BisectVerdict.LIKELY} or not causes:
        return "", []
    necessary = all(cause.necessary for cause in causes)
    units = [unit for cause in causes for unit in cause.units] if necessary else _put_back(bisection, causes)
    likely = "likely " if bisection.verdict is BisectVerdict.LIKELY else ""
    title = f"{likely}to make B like A" + (", all of these" if not necessary and len(units) > 1 else "")
    return title, list(_distinct(fix_command(unit) for unit in units))


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


def _repeat(bisection: Bisection, label_a: str, label_b: str, paint: Paint, asked: Sequence[str]) -> Iterator[str]:
    rows = proving_commands(bisection, label_a, label_b, asked)
    if rows:
        yield paint("to repeat a proving trial", "title")
        yield from (f"  {number}  {command_line(words)}" for number, words in rows)
    elif bisection.sampling is None and any(cause.proof for cause in bisection.causes):
        yield paint("to repeat the proving trials", "title")
        yield f"  {command_line(search_command(label_a, label_b, asked, '--clamp', '--fresh'))}"


def proving_commands(
    bisection: Bisection, label_a: str, label_b: str, asked: Sequence[str] = ()
) -> list[tuple[int, list[str]]]:
    """Return numbers of the proving trials with the command that repeats each; none where clamps were on in one.

    A trial with clamps is no command of its own: the search that makes it is.
    """
    trials = {trial.n: trial for trial in bisection.trials}
    numbers = list(dict.fromkeys(number for cause in bisection.causes for number in cause.proof))
    if bisection.sampling is not None or any(trials[number].clamps for number in numbers):
        return []
    wholes = [unit for unit, _ in bisection.taken_apart]
    more = trial_options(asked)
    return [(n, trial_command(trials[n].swapped, label_a, label_b, wholes, more)) for n in numbers]


def next_lines(bisection: Bisection, asked: Sequence[str] = ()) -> Iterator[str]:
    """Yield what to do next where nothing is proved."""
    if bisection.verdict is BisectVerdict.NOT_REPEATABLE:
        ways = " or ".join(bisection.remedies)
        yield "next: make the run repeat itself, as the notes say, and record A and B again" + (
            f"; or the same command with {ways}" if ways else ""
        )
    elif not bisection.finished:
        yield f"next: {_again(asked)}; trials that were made are not made twice"
    elif bisection.verdict is BisectVerdict.BY_ELIMINATION:
        yield "next: make it the same in A and B and record one of them again, or search where it can be swapped"
    elif bisection.verdict is BisectVerdict.LIKELY:
        yield "next: try it; a higher --confidence is surer, and only a run that repeats itself gives a proof"
    elif bisection.verdict is BisectVerdict.INCONCLUSIVE and bisection.remedies:
        yield f"next: the same command with {' or '.join(bisection.remedies)}"
    elif bisection.verdict is BisectVerdict.INCONCLUSIVE and (left := _left_by(bisection)):
        yield f"next: the same command without {' and '.join(left)}"


def _again(asked: Sequence[str]) -> str:
    """Return how to go on from the trials that were made: not with the option that forgets them."""
    return "the same command again" + (", without --fresh" if "--fresh" in asked else "")


def _left_by(bisection: Bisection) -> list[str]:
    """Return the options that left something out."""
    return list(dict.fromkeys(row.reason.removeprefix(LEFT_OUT) for row in bisection.untestable if _left_out(row)))
