"""Parts of a bisection's result that its Markdown and its page share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bisect_diverge.model.trial import Role
from bisect_diverge.report.bisection_commands import search_command
from bisect_diverge.report.bisection_next import fixes, proving_commands
from bisect_diverge.report.commands import command_line
from bisect_diverge.report.words import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.model.trial import Bisection, Unit


@dataclass(frozen=True, slots=True)
class Row:
    """A unit with what came of it."""

    result: str
    """What the search says of it."""
    unit: Unit
    """The unit."""
    reason: str = ""
    """Why it was not tested; empty where it was."""


def units(bisection: Bisection) -> Iterator[Row]:
    """Yield every unit of the search with what came of it: causes first, then what was tested, then what was not."""
    found = {unit for cause in bisection.causes for unit in cause.units}
    likely = "likely " if bisection.sampling is not None else ""
    for cause in bisection.causes:
        word = {Role.CAUSE: "cause", Role.STARTS: "starts it"}.get(cause.role, str(cause.role))
        yield from (Row(f"{likely}{word}", unit) for unit in cause.units)
    yield from (Row("innocent (tested)", unit) for unit in bisection.innocent)
    yield from (Row("not tested", row.unit, row.reason) for row in bisection.inert)
    yield from (Row("not tested", row.unit, row.reason) for row in bisection.untestable if row.unit not in found)


def repeat_commands(
    bisection: Bisection, label_a: str, label_b: str, asked: Sequence[str] = ()
) -> list[tuple[str, str]]:
    """Return pairs of what a command does and the command: the way back to A, the proving trials, the search again.

    Args:
        bisection: The result.
        label_a: The baseline as the user named it.
        label_b: The candidate as the user named it.
        asked: Options of ``bd bisect`` that it was found with, each in one word.
    """
    title, lines = fixes(bisection, label_a)
    out = [(title, printable(line)) for line in lines]
    outcomes = {trial.n: trial.outcome for trial in bisection.trials}
    for number, words in proving_commands(bisection, label_a, label_b, asked):
        out.append((f"trial {number} by hand, which was {outcomes[number]}", command_line(words)))
    return [*out, ("this search again", command_line(search_command(label_a, label_b, asked)))]
