"""The result of a bisection as text for people: the answer, its proof, what is left, and every trial."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.environment.differences import principal
from bisect_diverge.model.divergence import Side
from bisect_diverge.model.trial import BisectVerdict, Observer, Role
from bisect_diverge.report.bisection_apart import apart_of, with_parts
from bisect_diverge.report.bisection_commands import search_command
from bisect_diverge.report.bisection_next import fixes, is_left_out, next_lines, proving_commands
from bisect_diverge.report.bisection_proof import acting_together, alone_in, compared_to, each_changes, proofs
from bisect_diverge.report.bisection_table import table_lines
from bisect_diverge.report.commands import command_line
from bisect_diverge.report.elements_text import elements, looks
from bisect_diverge.report.likely_text import NOT_APART, how_sure
from bisect_diverge.report.words import Paint, change, plain, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bisect_diverge.model.environment import Difference
    from bisect_diverge.model.trial import Bisection, Cause, Trial, Unit, Untested

MOST_SET = 2
"""So many resolved values that moved with a cause are named in the verdict; of more, none."""


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
        *_units(f"innocent (tested){compared_to(bisection)}", bisection.innocent, paint),
        *_untested("no effect here: these were not tested", bisection.inert, paint),
        *_untested("not testable here", [row for row in bisection.untestable if not is_left_out(row)], paint),
        *_untested("not tested: left out", [row for row in bisection.untestable if is_left_out(row)], paint),
        *_notes(bisection, paint),
        *table_lines(bisection, paint),
        *_fix(bisection, label_a, paint),
        *_repeat(bisection, label_a, label_b, paint, asked),
        *next_lines(bisection, asked),
    ]
    return "\n".join(lines)


def verdict_sentence(bisection: Bisection, paint: Paint = plain) -> str:
    """Return the answer as one sentence."""
    main = [cause for cause in bisection.causes if cause.role is not Role.MASKED]
    sets = [cause for cause in main if cause.sufficient] or main
    sets = [cause for cause in sets if cause.role is not Role.STARTS] or sets
    match bisection.verdict:
        case BisectVerdict.CAUSE:
            trials = with_parts(bisection, apart_of(bisection)).trials
            joined = " or ".join(_named(cause, trials) for cause in sets)
            word = "starts" if sets[0].role is Role.STARTS else "cause"
            text = f"{word}: {joined}"
        case BisectVerdict.BY_ELIMINATION:
            names = acting_together(sets[0].units)
            text = f"by elimination: {names}; it cannot be swapped here, and all else leaves A as it is"
        case BisectVerdict.NO_DIFFERENCE:
            text = "A and B do not differ: there is nothing to bisect"
        case BisectVerdict.LIKELY if bisection.sampling is not None:
            joined = " or ".join(acting_together(cause.units) for cause in sets)
            text = f"likely cause, not proved: {joined}; {how_sure(bisection.sampling)}"
        case BisectVerdict.NOT_REPEATABLE:
            why = f"A does not repeat itself: {printable(bisection.reason)}" if bisection.reason else ""
            text = why or "the baseline does not repeat itself: nothing can be blamed"
        case _:
            suspects = "; suspected, not proved: " + " or ".join(acting_together(c.units) for c in sets) if sets else ""
            text = f"inconclusive: {_why(bisection)}{suspects}"
    told = bisection.finished or bisection.verdict is BisectVerdict.INCONCLUSIVE
    partial = "" if told else " (the search did not come to its end)"
    return paint(text + partial, "good" if bisection.verdict is BisectVerdict.CAUSE else "bad")


def _why(bisection: Bisection) -> str:
    """Return why nothing is proved, in few words where there are some."""
    not_apart = bisection.sampling is not None and not bisection.sampling.apart and bisection.finished
    open_ = "nothing is proved" if bisection.finished else "the search did not come to its end"
    return NOT_APART if not_apart else printable(bisection.reason) or open_


def _named(cause: Cause, trials: Sequence[Trial]) -> str:
    """Return the units of a cause, each with what it alone was seen to set, and behind them what they set together."""
    alone = alone_in(cause.units, trials)
    left = _which_moved(cause)
    parts = []
    for unit in cause.units:
        mine = [row for row in left if len(cause.units) > 1 and _moved_by(row, alone) == [unit]]
        left = [row for row in left if row not in mine]
        parts.append(f"{change(unit)}{_which_sets(mine, cause, 'sets')}")
    many = len(cause.units) > 1
    word = " and " if each_changes(cause.units, trials) else " together with "
    each = "; each of these changes A, and only all of them give B" if word == " and " else ""
    return f"{word.join(parts)}{_which_sets(left, cause, 'together set' if many else 'sets')}{each}"


def _moved_by(row: Difference, alone: Mapping[Unit, Trial]) -> list[Unit]:
    """Return the units of which a trial without the others moved a resolved value as all of them do."""
    same = (row.layer, row.knob, row.b)
    return [u for u, trial in alone.items() if same in [(d.layer, d.knob, d.b) for d in trial.consequences]]


def _which_moved(cause: Cause) -> list[Difference]:
    """Return the other end of a cause: the values of other layers that it moved, where they are few.

    Of values that move along with others (all threads with torch's own) the first is named.
    """
    named = list(principal(_moved(cause)))
    return named if len(named) <= MOST_SET else []


def _moved(cause: Cause) -> list[Difference]:
    own = {unit.layer for unit in cause.units}
    return [row for row in cause.consequences if row.layer not in own and row.a is not None and row.b is not None]


def _which_sets(named: Sequence[Difference], cause: Cause, verb: str) -> str:
    rows = _moved(cause)
    return f", which {verb} {' and '.join(change(row) + _in_workers(row, rows) for row in named)}" if named else ""


def _in_workers(row: Difference, rows: Sequence[Difference]) -> str:
    """Return what a number of loader workers does to the threads that compute the samples; empty where nothing."""
    ends = ".num_workers"
    threads = f"{row.knob.removesuffix(ends)}.threads"
    moved = next((r for r in rows if row.knob.endswith(ends) and r.knob == threads), None)
    if moved is None:
        return ""
    here, there = (moved.a, moved.b) if row.a == "0" else (moved.b, moved.a)
    return f" (samples are computed with {here} threads in the main process, {there} in a worker)"


def _proofs(bisection: Bisection, paint: Paint) -> Iterator[str]:
    for proof in proofs(bisection):
        if proof.title:
            yield paint(f"  {proof.title}", "title")
        yield from (f"{'    ' if proof.title else '  '}{line}" for line in proof.lines)


def kind_lines(bisection: Bisection) -> Iterator[str]:
    """Yield what kind of difference A and B have where they first differ, and how large it is."""
    found = bisection.divergence
    if found is None or found.first is None:
        return
    look = looks(found)
    yield f"kind: {found.kind}{', ' if look else ''}{look}"
    if found.first.side is Side.BOTH:
        yield f"elements: {printable(elements(found))}"


def _recording(bisection: Bisection) -> Iterator[str]:
    """Yield what recording does, where that is a reason to distrust the answer."""
    if bisection.observer in {Observer.CREATES, Observer.HIDES, Observer.CHANGED}:
        said = (note for note in bisection.notes if note.startswith("recording ") and note != bisection.reason)
        yield from (f"  {note}" for note in said)


def _units(title: str, units: Sequence[Unit], paint: Paint) -> Iterator[str]:
    if units:
        yield paint(title, "title")
        yield from (f"  {change(unit)}" for unit in units)


def _untested(title: str, rows: Sequence[Untested], paint: Paint) -> Iterator[str]:
    if rows:
        yield paint(title, "title")
        yield from (f"  {change(row.unit)}: {printable(row.reason)}" for row in rows)


def _notes(bisection: Bisection, paint: Paint) -> Iterator[str]:
    notes = [note for note in map(printable, bisection.notes) if note != _why(bisection)]  # the first sentence has it
    if notes:
        yield paint("notes", "title")
        yield from (f"  {note}" for note in notes)


def _fix(bisection: Bisection, label_a: str, paint: Paint) -> Iterator[str]:
    title, lines = fixes(bisection, label_a)
    if lines:
        yield paint(title, "title")
        yield from (f"  {line}" for line in lines)


def _repeat(bisection: Bisection, label_a: str, label_b: str, paint: Paint, asked: Sequence[str]) -> Iterator[str]:
    rows = proving_commands(bisection, label_a, label_b, asked)
    if rows:
        yield paint("to repeat a proving trial", "title")
        yield from (f"  {number}  {command_line(words)}" for number, words in rows)
    elif bisection.sampling is None and any(cause.proof for cause in bisection.causes):
        yield paint("to repeat the proving trials", "title")
        yield f"  {command_line(search_command(label_a, label_b, asked, '--clamp', '--fresh'))}"
