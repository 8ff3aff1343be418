"""A recorded command line taken apart, and put together again with some arguments from the other run."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from bisect_diverge.environment.arguments import SET, split
from bisect_diverge.environment.configuration import script_at
from bisect_diverge.environment.secrets import MASKED
from bisect_diverge.environment.wrappers import rewrapped, unwrapped
from bisect_diverge.errors import ReplayError
from bisect_diverge.trial.arity import learned

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bisect_diverge.model.run import RunRecord

PROGRAM = "argv.program"
"""Knob of the script."""
NO_PREFIX = "--no-"
NO = "no"
"""Value of ``--x`` where a command has ``--no-x`` instead."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One argument with the tokens that it is made of."""

    name: str
    """Flag, key, or number of a positional argument, as `environment.arguments.split` names it."""
    value: str
    """Its value."""
    tokens: tuple[str, ...]
    """What stands on the command line."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A command in three parts."""

    launcher: tuple[str, ...]
    """Everything before the script: the interpreter with its options, ``torchrun`` with its own.

    What only starts the rest is left out (`environment.wrappers`); variables of ``env`` follow the first word.
    """
    program: str
    """The script; empty where the recorded process is not the one that the command names (``make train``)."""
    arguments: tuple[str, ...]
    """What the script is given."""

    def tokens(self) -> tuple[str, ...]:
        """Return the whole command."""
        if not self.program:
            return self.launcher
        return (*rewrapped(self.launcher), self.program, *self.arguments)


def take_apart(record: RunRecord) -> CommandLine:
    """Return the parts of a recorded command: the script's arguments are those that its process had.

    Raises:
        ReplayError: if it was not recorded, or holds a masked value.
    """
    command = record.command
    if not command:
        raise ReplayError(
            "the run was recorded from inside the script, so that nobody knows how it was started",
            hint="record it with: bd record -o RUN -- python train.py",
        )
    if any(MASKED in token for token in command):
        raise ReplayError(
            "the recorded command held something that looks like a credential, which was not kept",
            hint="hand it over in an environment variable and record again",
        )
    command = unwrapped(command)
    at = script_at(command, record.argv)
    if at is None:
        return CommandLine(tuple(record.command), "", ())
    return CommandLine(command[:at], command[at], tuple(record.argv[1:]))


def pieces(arguments: Sequence[str], takes: Mapping[str, int] = MappingProxyType({})) -> list[Piece]:
    """Return the arguments of a command line, each with its tokens (a ``--`` belongs to what follows it).

    Args:
        arguments: Tokens.
        takes: Flag to the number of tokens that it takes.
    """
    found, begin = [], 0
    for argument in split(arguments, takes):
        found.append(Piece(argument.name, argument.value, tuple(arguments[begin : argument.token + 1])))
        begin = argument.token + 1
    return found


def differing(a: CommandLine, b: CommandLine) -> list[tuple[str, str | None, str | None]]:
    """Return knob, A's and B's value of every part in which two commands differ.

    A flag that is repeated more often in one of them is one part, with all of its values; so are ``--x`` in one and
    ``--no-x`` in the other.
    """
    found: list[tuple[str, str | None, str | None]] = []
    for prefix, of_a, of_b in _parts(a, b):
        values_a = {piece.name: piece.value for piece in of_a}
        values_b = {piece.name: piece.value for piece in of_b}
        together = _together(of_a, of_b)
        for name in dict.fromkeys(map(_flag_of, (*values_a, *values_b))) if together else ():
            if name in together:
                one, other = (_all_values(name, pieces_of) for pieces_of in (of_a, of_b))
                found.append((f"{prefix}.{name}", one, other))
        for name in dict.fromkeys((*values_a, *values_b)):
            one, other = values_a.get(name), values_b.get(name)
            if one != other and _flag_of(name) not in together:
                found.append((f"{prefix}.{name}", one, other))
    if a.program != b.program:
        found.append((PROGRAM, a.program or None, b.program or None))
    return found


def _flag_of(name: str) -> str:
    return name.partition("#")[0]


def _together(of_a: list[Piece], of_b: list[Piece]) -> set[str]:
    """Return the flags that stand more than once in one of two command lines, and not as often in the other."""
    counts = [Counter(_flag_of(piece.name) for piece in each) for each in (of_a, of_b)]
    return {
        name
        for name in {*counts[0], *counts[1]}
        if max(c[name] for c in counts) > 1 and counts[0][name] != counts[1][name]
    }


def _all_values(name: str, found: list[Piece]) -> str | None:
    values = [piece.value for piece in found if _flag_of(piece.name) == name]
    return shlex.join(values) if len(values) > 1 else values[0] if values else None


def mixed(a: CommandLine, b: CommandLine, values: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return A's command with other values of some parts.

    Args:
        a: A's command.
        b: B's command: where it has such a part with this value, its tokens are taken.
        values: ``argv.NAME`` and ``launcher.NAME``, as `differing` returns them, to value; None: left out.
    """
    parts = [
        _mix(of_a, of_b, {k.removeprefix(f"{prefix}."): v for k, v in values.items() if k.startswith(f"{prefix}.")})
        for prefix, of_a, of_b in _parts(a, b)
    ]
    program = values.get(PROGRAM, a.program) or ""
    return CommandLine((*a.launcher[:1], *parts[0]), program, parts[1]).tokens()


def _parts(a: CommandLine, b: CommandLine) -> tuple[tuple[str, list[Piece], list[Piece]], ...]:
    """Return the two lists of arguments; the first token of the launcher, the interpreter, is none of them."""
    return tuple(
        (prefix, *_paired(of_a, of_b))
        for prefix, of_a, of_b in (
            ("launcher", a.launcher[1:], b.launcher[1:]),
            ("argv", a.arguments, b.arguments),
        )
    )


def _paired(a: Sequence[str], b: Sequence[str]) -> tuple[list[Piece], list[Piece]]:
    takes = learned(a, b)
    of_a, of_b = pieces(a, takes), pieces(b, takes)
    return _under_one_name(of_a, of_b), _under_one_name(of_b, of_a)


def _under_one_name(own: list[Piece], other: list[Piece]) -> list[Piece]:
    """Return pieces in which a ``--no-x`` that the other command has as ``--x`` has that name."""
    here, there = {piece.name for piece in own}, {piece.name for piece in other}
    found = []
    for piece in own:
        plain = f"--{piece.name.removeprefix(NO_PREFIX)}"
        negated = piece.name.startswith(NO_PREFIX) and piece.value == SET
        paired = plain in there and plain not in here and piece.name not in there
        found.append(Piece(plain, NO, piece.tokens) if negated and paired else piece)
    return found


def _mix(of_a: list[Piece], of_b: list[Piece], values: dict[str, str | None]) -> tuple[str, ...]:
    together = _together(of_a, of_b)
    values = {n: v for name, value in values.items() for n, v in _apart(name, value, of_a, of_b, name in together)}
    from_b = {piece.name: piece for piece in of_b}
    wanted = {name: None if value is None else _piece(name, value, from_b.get(name)) for name, value in values.items()}
    kept = [piece for old in of_a if (piece := wanted.get(old.name, old)) is not None]
    have = {piece.name for piece in of_a}
    order = [piece.name for piece in of_b]
    new = [p for name, p in wanted.items() if p is not None and name not in have and name != "program"]
    for piece in sorted(new, key=lambda p: order.index(p.name) if p.name in order else len(order)):
        before = set(order[: order.index(piece.name)] if piece.name in order else order)
        place = max((i + 1 for i, p in enumerate(kept) if p.name in before), default=0 if order else len(kept))
        kept.insert(place, piece)
    return tuple(token for piece in kept for token in piece.tokens)


def _apart(
    name: str, value: str | None, of_a: list[Piece], of_b: list[Piece], several: bool
) -> Iterator[tuple[str, str | None]]:
    """Yield name and value of each occurrence of a flag that was one part with all of its values."""
    if not several:
        yield name, value
        return
    wanted = [] if value is None else _all_of(name, value, of_b)
    count = max(len(wanted), sum(_flag_of(piece.name) == name for piece in of_a))
    for number in range(count):
        yield name if not number else f"{name}#{number + 1}", wanted[number] if number < len(wanted) else None


def _all_of(name: str, value: str, of_b: list[Piece]) -> list[str]:
    if value == _all_values(name, of_b):
        return [piece.value for piece in of_b if _flag_of(piece.name) == name]
    return shlex.split(value)


def _piece(name: str, value: str, like: Piece | None) -> Piece:
    """Return an argument with a value, with the tokens of one that has it already."""
    if like is not None and like.value == value:
        return like
    flag = name.partition("#")[0]
    if flag.isdigit():
        tokens: tuple[str, ...] = (value,)
    elif not flag.startswith("-"):
        tokens = (f"{flag}={value}",)
    elif value == NO and flag.startswith("--"):
        tokens = (f"{NO_PREFIX}{flag[2:]}",)
    elif like is not None and len(like.tokens) > 2:
        tokens = (flag, *shlex.split(value))
    else:
        tokens = (flag,) if value == SET else (flag, value)
    return Piece(name, value, tokens)
