"""A command line taken apart flag by flag, without knowing which flags the script declares."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from bisect_diverge.environment.secrets import MASKED, is_secret, looks_secret

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SET = "set"
"""Value of a flag that is followed by none."""

_FLAG = re.compile(r"-{1,2}[A-Za-z_][^=]*")
_FLAG_WITH_VALUE = re.compile(r"(?P<name>-{1,2}[A-Za-z_][^=]*)=(?P<value>.*)", re.DOTALL)
_OVERRIDE = re.compile(r"(?P<name>[+~]{0,2}[A-Za-z_][\w./@:-]*)=(?P<value>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a command line."""

    name: str
    """Flag with its dashes, key of ``key=value``, number of a positional argument; ``#2`` when repeated."""
    value: str
    """Value; ``set`` for a flag without one; several are quoted as a shell would want them."""
    token: int
    """Index of the token that holds the value, or the last of several."""
    start: int
    """Where the value begins in that token."""


def split(argv: Sequence[str], takes: Mapping[str, int] = MappingProxyType({})) -> Iterator[Argument]:
    """Yield the arguments of a command line without its program.

    ``--lr 0.1`` and ``--lr=0.1`` give the same. A flag takes the token after it unless that is a flag too (a
    number is none), so that a switch before a positional argument seems to take it; what is known better is
    handed over.

    Args:
        argv: Tokens.
        takes: Flag to the number of tokens that it takes, as far as there are so many before the next flag.
    """
    seen: Counter[str] = Counter()
    positional = 0
    only_positional = False
    index = 0
    while index < len(argv):
        token = argv[index]
        name, value, start, at = "", token, 0, index
        if token == "--" and not only_positional:
            only_positional = True
            index += 1
            continue
        if not only_positional and (found := _FLAG_WITH_VALUE.fullmatch(token) or _OVERRIDE.fullmatch(token)):
            name, value, start = found["name"], found["value"], found.start("value")
        elif not only_positional and _FLAG.fullmatch(token):
            name, value, start = token, SET, len(token)
            count = min(takes.get(token, 1), plain_after(argv, index))
            if count:
                value = argv[index + 1] if count == 1 else shlex.join(argv[index + 1 : index + 1 + count])
                index += count
                start, at = 0, index
        if not name or looks_secret(name):
            name, value, start, at = str(positional), token, 0, index
            positional += 1
        seen[name] += 1
        yield Argument(name if seen[name] == 1 else f"{name}#{seen[name]}", value, at, start)
        index += 1


def plain_after(argv: Sequence[str], index: int) -> int:
    """Return how many tokens that are no flags follow one."""
    count = 0
    for token in argv[index + 1 :]:
        if token == "--" or _FLAG.fullmatch(token.partition("=")[0]):
            break
        count += 1
    return count


def is_flag(token: str) -> bool:
    """Whether a token is a flag without a value in it."""
    return bool(_FLAG.fullmatch(token))


def mask_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """Return a command line, program included, in which values that look like credentials are masked."""
    out = list(argv)
    for argument in split(argv):
        if is_secret(argument.name, argument.value) and argument.start < len(argv[argument.token]):
            out[argument.token] = argv[argument.token][: argument.start] + MASKED
    return tuple(out)
