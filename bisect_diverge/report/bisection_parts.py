"""Parts of a bisection's result that its Markdown and its page share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bisect_diverge.model.trial import BisectVerdict, Role
from bisect_diverge.report.bisection_commands import fix_command, trial_command, unit_name
from bisect_diverge.report.bisection_text import bisection_text
from bisect_diverge.report.commands import command_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.model.trial import Bisection, Trial, Unit


@dataclass(frozen=True, slots=True)
class Row:
    """A unit with what came of it."""

    result: str
    """What the search says of it."""
    unit: Unit
    """The unit."""
    reason: str = ""
    """Why it was not tested; empty where it was."""


def answer(bisection: Bisection, label_a: str, label_b: str) -> tuple[str, list[str]]:
    """Return the verdict and the lines that prove it: the head of the text report, not folded."""
    first, *rest = bisection_text(bisection, label_a, label_b).splitlines()
    proof = []
    for line in rest:
        if not line.startswith("  "):
            break
        proof.append(line.strip())
    return first, proof


def units(bisection: Bisection) -> Iterator[Row]:
    """Yield every unit of the search with what came of it: causes first, then what was tested, then what was not."""
    found = {unit for cause in bisection.causes for unit in cause.units}
    for cause in bisection.causes:
        word = {Role.CAUSE: "cause", Role.STARTS: "starts it"}.get(cause.role, str(cause.role))
        yield from (Row(word, unit) for unit in cause.units)
    yield from (Row("innocent (tested)", unit) for unit in bisection.innocent)
    yield from (Row("not tested", row.unit, row.reason) for row in bisection.inert)
    yield from (Row("not tested", row.unit, row.reason) for row in bisection.untestable if row.unit not in found)


def trial_row(trial: Trial, wholes: Sequence[Unit] = ()) -> tuple[str, str, str, str]:
    """Return number, swapped units, outcome with its reason, and seconds of a trial.

    Args:
        trial: The trial.
        wholes: Units that were taken apart, so that their steps are told from one another.
    """
    swapped = ", ".join(unit_name(unit, wholes) for unit in trial.swapped)
    outcome = f"{trial.outcome}: {trial.reason}" if trial.reason else str(trial.outcome)
    return (
        str(trial.n),
        f"A + {swapped}" if swapped else "A",
        outcome,
        "reused" if trial.reused else f"{trial.seconds:.1f}",
    )


def repeat_commands(bisection: Bisection, label_a: str, label_b: str) -> list[tuple[str, str]]:
    """Return pairs of what a command does and the command: the search again, its proving trials, the way back to A."""
    out = [("this search again", command_line(["bd", "bisect", label_a, label_b]))]
    trials = {trial.n: trial for trial in bisection.trials}
    for number in dict.fromkeys(number for cause in bisection.causes for number in cause.proof):
        if trials[number].clamps:  # such a trial is no command of its own
            continue
        words = trial_command(trials[number].swapped, label_a, label_b, [unit for unit, _ in bisection.taken_apart])
        out.append((f"trial {number}, by hand", command_line(words)))
    causes = [c for c in bisection.causes if c.necessary and c.role not in {Role.MASKED, Role.STARTS}]
    if bisection.verdict is BisectVerdict.CAUSE:
        out += [("to make B like A", fix_command(unit)) for cause in causes for unit in cause.units]
    return out
