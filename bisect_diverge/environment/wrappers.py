"""Programs that only start another one, with no effect on its bits: ``timeout 4h nice -n 5 python train.py``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ENV = "env"
"""Starts a command with some variables, which do have an effect."""
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Wrapper:
    """How the command line of one goes."""

    takes: tuple[str, ...] = ()
    """Options that are followed by a value, unless it stands in the same token."""
    operands: int = 0
    """Words that are none of the command."""


WRAPPERS: dict[str, Wrapper] = {
    "timeout": Wrapper(takes=("-k", "--kill-after", "-s", "--signal"), operands=1),
    "nice": Wrapper(takes=("-n", "--adjustment")),
    "ionice": Wrapper(takes=("-c", "--class", "-n", "--classdata")),
    "nohup": Wrapper(),
    "time": Wrapper(takes=("-f", "--format", "-o", "--output")),
    "stdbuf": Wrapper(takes=("-i", "--input", "-o", "--output", "-e", "--error")),
}
"""By name; a trial has a time limit of its own and needs none of them."""


def unwrapped(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command without what only starts it; variables of ``env`` follow the program, as `rewrapped` wants.

    Args:
        command: Program and arguments; one that is nothing but a wrapper stays as it is.
    """
    rest, assignments = tuple(command), list[str]()
    while rest:
        name = PurePath(rest[0]).name
        if name == ENV:
            at = next((n for n, word in enumerate(rest[1:], 1) if not _ASSIGNMENT.fullmatch(word)), len(rest))
            assignments += rest[1:at]
        elif name in WRAPPERS:
            at = _end(rest, WRAPPERS[name])
        else:
            break
        if at >= len(rest) or rest[at].startswith("-"):  # not as we know it
            return tuple(command)
        rest = rest[at:]
    return (*rest[:1], *assignments, *rest[1:])


def rewrapped(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command that starts: variables that follow the program are given by ``env``."""
    words = tuple(command)
    at = next((n for n, word in enumerate(words[1:], 1) if not _ASSIGNMENT.fullmatch(word)), len(words))
    return (ENV, *words[1:at], words[0], *words[at:]) if at > 1 else words


def _end(words: Sequence[str], wrapper: Wrapper) -> int:
    """Return where the command begins that a wrapper starts."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 1 + (words[at] in wrapper.takes)
    return at + wrapper.operands
