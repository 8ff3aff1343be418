"""What shows a cause: the proving trials in words, and what else is known of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bisect_diverge.bisector.noise import ONLY_JUDGED
from bisect_diverge.model.trial import BisectVerdict, Outcome, Role
from bisect_diverge.report.bisection_apart import apart_of, whole_of, with_parts
from bisect_diverge.report.bisection_next import enough_alone
from bisect_diverge.report.bisection_table import assigned
from bisect_diverge.report.likely_text import likely_proof
from bisect_diverge.report.words import change, moment, place, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bisect_diverge.model.trial import Bisection, Cause, Trial, Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What shows one cause, in lines."""

    title: str
    """Its units; empty where it is the only one, or where the lines are about all."""
    lines: tuple[str, ...]
    """The proving trials, and what else is known of it."""


def proofs(bisection: Bisection) -> Iterator[Proof]:
    """Yield the proof of each cause, then what is to be said of all; where there are several, each under its units."""
    if bisection.verdict is BisectVerdict.BY_ELIMINATION:
        return
    bisection = with_parts(bisection, apart_of(bisection))
    trials = {trial.n: trial for trial in bisection.trials}
    several = len(bisection.causes) > 1
    for cause in bisection.causes:
        title = acting_together(cause.units, bisection.trials) if several or cause.role is Role.MASKED else ""
        shown = _proof(cause, bisection, trials) if bisection.sampling is None else likely_proof(cause, bisection)
        yield Proof(title=title, lines=tuple(shown))
    redundant = [cause for cause in bisection.causes if cause.role is Role.REDUNDANT]
    if len(redundant) > 1:
        lines = ("Either alone gives B; putting one back is not enough.", *_all_put_back(redundant, bisection))
        yield Proof(title="", lines=lines)
    if bisection.causes and compared_to(bisection):
        yield Proof(title="", lines=(f"compared{compared_to(bisection)}{_which_step(bisection)}",))


def compared_to(bisection: Bisection) -> str:
    """Return how far the bits of the trials were compared, as the end of a sentence; empty where nobody knows."""
    steps = [trial.stopped_at_step for trial in bisection.trials if trial.stopped_at_step is not None]
    if not steps:
        return ""
    horizon = any(note.endswith(ONLY_JUDGED) for note in bisection.notes)
    return " up to the horizon" if horizon else f" up to step {max(steps)}"


def _which_step(bisection: Bisection) -> str:
    """Return what is special about the last step that was compared; empty where nothing is."""
    last, first = compared_to(bisection), bisection.first
    if first is None or not last.endswith(f" step {first.step + 1}"):
        return ""
    return ", the step after the first divergence"


def acting_together(units: Sequence[Unit], trials: Sequence[Trial] = ()) -> str:
    """Return units that make B together, each with its two values; "together" only where they may act on one another.

    Args:
        units: The units.
        trials: What is known of each of them alone.
    """
    return (" and " if each_changes(units, trials) else " together with ").join(change(unit) for unit in units)


def _all_put_back(causes: Sequence[Cause], bisection: Bisection) -> Iterator[str]:
    """Yield the trial that shows that B is A once none of these causes is left; nothing if none was made."""
    left = set(whole_of(bisection)) - {unit for cause in causes for unit in cause.units}
    for trial in bisection.trials:
        if trial.outcome is Outcome.A and set(trial.swapped) == left:
            yield f"B with all of these put back = A   ({_same_trials(trial, bisection)})"
            return


def _proof(cause: Cause, bisection: Bisection, trials: dict[int, Trial]) -> Iterator[str]:
    if cause.role is Role.STARTS and any(other.sufficient for other in bisection.causes):
        yield f"the divergence begins with this one ({_numbers(cause)}): there it gives B's bits, and A's before"
        return
    if cause.role is Role.MASKED:
        yield f"also changes A ({_numbers(cause)}), but has no part in B{compared_to(bisection)}: there it is covered"
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
        yield from _one_put_back(cause, bisection)
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
    side = "A" if not trial.swapped else "B" if set(trial.swapped) == set(whole_of(bisection)) else ""
    what = f": {side} {'from the journal' if all(t.reused for t in same) else 'replayed'}" if side else ""
    return f"trial{'s' * (len(same) > 1)} {numbers}{what}"


def _bits(trial: Trial) -> str:
    return {"=A": "A", "=B": "B", "other": "neither A nor B"}.get(str(trial.outcome), f"not known ({trial.outcome})")


def _together(cause: Cause, trials: Sequence[Trial]) -> str:
    """Return the sentence on units that act together: ``Neither alone: X = A, Y = A. Together = B.``."""
    alone = alone_in(cause.units, trials)
    seen = ", ".join(f"{assigned(unit)} = {_bits(alone[unit])}" for unit in cause.units if unit in alone)
    if each_changes(cause.units, trials):
        return f"Each of these changes A, and only all of them give B: {seen}."
    word = "Neither alone" if len(cause.units) == 2 else "None alone"
    together = next((_bits(t) for t in trials if _ends(t.swapped) == _ends(cause.units)), "B")
    return f"{word}{': ' * bool(seen)}{seen}. Together = {together}."


def alone_in(units: Sequence[Unit], trials: Sequence[Trial]) -> dict[Unit, Trial]:
    """Return those of some units that were swapped alone, each with that trial."""
    return {unit: trial for unit in units for trial in trials if _ends(trial.swapped) == _ends((unit,))}


def each_changes(units: Sequence[Unit], trials: Sequence[Trial]) -> bool:
    """Whether each of several units alone changes A, as trials have shown: differences side by side, no interaction."""
    alone = alone_in(units, trials)
    return len(units) > 1 and all(unit in alone and alone[unit].outcome is Outcome.OTHER for unit in units)


def _one_put_back(cause: Cause, bisection: Bisection) -> Iterator[str]:
    """Yield that one of several units put back is enough, where a trial has shown it."""
    enough = enough_alone(cause, bisection)
    if enough:
        which = "either" if len(enough) == len(cause.units) == 2 else "one"
        shown = ", ".join(f"B - {{{printable(unit.knob)}}} = A (trial {trial.n})" for unit, trial in enough.items())
        yield f"Putting {which} of them back is enough: {shown}."


def _numbers(cause: Cause) -> str:
    return ", ".join(f"trial {number}" for number in cause.proof)


def _stepped(cause: Cause) -> list[Unit]:
    """Return the units of a cause that are steps."""
    ways = {(whole.layer, whole.knob) for whole in cause.part_of}
    return [unit for unit in cause.units if (unit.layer, unit.knob) in ways]


def _ends(units: Iterable[Unit]) -> dict[tuple[str, str], str | None]:
    """Return where units lead: a step to the same place as the whole way up to it, the last step as the whole."""
    return {(unit.layer, unit.knob): unit.b for unit in units}
