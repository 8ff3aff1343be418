"""What to do after a search: the way back to A, the proving trials again, how to come further."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.model.trial import LEFT_OUT, BisectVerdict, Outcome, Role
from bisect_diverge.report.bisection_apart import apart_of, whole_of, with_parts
from bisect_diverge.report.bisection_commands import fix_command, trial_command, trial_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.model.trial import Bisection, Cause, Trial, Unit, Untested


def fixes(bisection: Bisection, place: str = "") -> tuple[str, list[str]]:
    """Return a title and what to do so that B has A's bits, as far as a trial has shown it; nothing if none has.

    Args:
        bisection: The result.
        place: A's directory, if it is known.
    """
    bisection = with_parts(bisection, apart_of(bisection))
    causes = [cause for cause in bisection.causes if cause.role not in {Role.MASKED, Role.STARTS}]
    causes = causes or [cause for cause in bisection.causes if cause.role is Role.STARTS]
    if bisection.verdict not in {BisectVerdict.CAUSE, BisectVerdict.LIKELY} or not causes:
        return "", []
    necessary = all(cause.necessary for cause in causes)
    units = [unit for cause in causes for unit in cause.units] if necessary else _put_back(bisection)
    enough = enough_alone(causes[0], bisection) if len(causes) == 1 else {}
    whole = {part: unit for unit, parts in bisection.taken_apart for part in parts}
    lines = list(dict.fromkeys(fix_command(unit, whole.get(unit), place) for unit in enough or units))
    likely = "likely " if bisection.verdict is BisectVerdict.LIKELY else ""
    how_many = ", one of these is enough" if enough else ", all of these"
    return f"{likely}to make B like A{how_many * (len(lines) > 1)}", lines


def enough_alone(cause: Cause, bisection: Bisection) -> dict[Unit, Trial]:
    """Return those of several units of which one put back in B gave A, each with the trial that showed it.

    Args:
        cause: Units that act together.
        bisection: The result, its trials with the parts of what was taken apart.
    """
    whole = set(whole_of(bisection))
    of_a = {frozenset(trial.swapped): trial for trial in bisection.trials if trial.outcome is Outcome.A}
    without = {unit: of_a.get(frozenset(whole - {unit})) for unit in cause.units if len(cause.units) > 1}
    return {unit: trial for unit, trial in without.items() if trial is not None}


def _put_back(bisection: Bisection) -> list[Unit]:
    """Return the smallest set that a trial showed to give A when put back in B; empty if none but A itself did."""
    whole = whole_of(bisection)
    blamed = {unit for cause in bisection.causes for unit in cause.units}  # those that B covers have to go back too
    sets = [
        [unit for unit in whole if unit not in trial.swapped]
        for trial in bisection.trials
        if trial.outcome is Outcome.A and set(trial.swapped) <= set(whole)
    ]
    sets = [units for units in sets if len(units) < len(whole) or set(units) == blamed]
    return min(sets, key=len, default=[])


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
    return list(dict.fromkeys(row.reason.removeprefix(LEFT_OUT) for row in bisection.untestable if is_left_out(row)))


def is_left_out(row: Untested) -> bool:
    """Whether the user did not want a unit to be tested."""
    return row.reason.startswith(LEFT_OUT)
