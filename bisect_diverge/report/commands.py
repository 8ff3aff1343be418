"""The commands that repeat or go on with what a report shows."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from bisect_diverge.model.divergence import Verdict
from bisect_diverge.report.words import printable

if TYPE_CHECKING:
    from bisect_diverge.model.divergence import Divergence


OFFSET = "--offset-b"
"""Option of ``bd diff`` that ``bd bisect`` has too."""


def command_line(words: tuple[str, ...] | list[str]) -> str:
    """Return a command as it is typed in a shell."""
    return printable(shlex.join(words))


def bisect_options(options: tuple[str, ...]) -> tuple[str, ...]:
    """Return those options of ``bd diff`` that ``bd bisect`` has too."""
    if OFFSET not in options:
        return ()
    at = options.index(OFFSET)
    return options[at : at + 2]


def commands(
    divergence: Divergence, label_a: str, label_b: str, options: tuple[str, ...] = ()
) -> list[tuple[str, str]]:
    """Return pairs of what a command does and the command, for a reader of the result of a comparison.

    Args:
        divergence: The result.
        label_a: The baseline as the user named it.
        label_b: The candidate as the user named it.
        options: Options of ``bd diff`` that the result was made with, as they are typed.
    """
    out = [("this result again", ("bd", "diff", label_a, label_b, *options))]
    if divergence.verdict is Verdict.DIVERGED:
        out += [
            ("the same, record by record", ("bd", "walk", label_a, label_b, *options)),
            ("which setting causes it", ("bd", "bisect", label_a, label_b, *bisect_options(options))),
            ("all that differs in the environment", ("bd", "env", label_a, label_b)),
        ]
        if divergence.first is not None:
            address = str(divergence.first.address)
            run = label_b if divergence.first.side == "b" else label_a
            out.append(("the tensor itself", ("bd", "show", run, address)))
    return [(what, command_line(list(words))) for what, words in out]
