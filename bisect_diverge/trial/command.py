"""A recorded command line taken apart, and put together again with some arguments from the other run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bisect_diverge.environment.arguments import SET, split
from bisect_diverge.environment.secrets import MASKED
from bisect_diverge.errors import ReplayError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bisect_diverge.model.run import RunRecord

PROGRAM = "argv.program"
"""Knob of the script."""


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
    """Everything before the script: the interpreter with its options, ``torchrun`` with its own."""
    program: str
    """The script; empty where the recorded process is not the one that the command names (``make train``)."""
    arguments: tuple[str, ...]
    """What the script is given."""

    def tokens(self) -> tuple[str, ...]:
        """Return the whole command."""
        return (*self.launcher, *([self.program] if self.program else []), *self.arguments)


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
    own = record.argv[1:]
    at = len(command) - len(own) - 1
    if not record.argv or at < 0 or tuple(command[at + 1 :]) != tuple(own):
        return CommandLine(tuple(command), "", ())
    return CommandLine(tuple(command[:at]), command[at], tuple(own))


def pieces(arguments: Sequence[str]) -> list[Piece]:
    """Return the arguments of a command line, each with its tokens (a ``--`` belongs to what follows it)."""
    found, begin = [], 0
    for argument in split(arguments):
        found.append(Piece(argument.name, argument.value, tuple(arguments[begin : argument.token + 1])))
        begin = argument.token + 1
    return found


def differing(a: CommandLine, b: CommandLine) -> list[tuple[str, str | None, str | None]]:
    """Return knob, A's and B's value of every part in which two commands differ."""
    found: list[tuple[str, str | None, str | None]] = []
    for prefix, of_a, of_b in _parts(a, b):
        values_a = {piece.name: piece.value for piece in of_a}
        values_b = {piece.name: piece.value for piece in of_b}
        for name in dict.fromkeys((*values_a, *values_b)):
            one, other = values_a.get(name), values_b.get(name)
            if one != other:
                found.append((f"{prefix}.{name}", one, other))
    if a.program != b.program:
        found.append((PROGRAM, a.program or None, b.program or None))
    return found


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
    return (
        ("launcher", pieces(a.launcher[1:]), pieces(b.launcher[1:])),
        ("argv", pieces(a.arguments), pieces(b.arguments)),
    )


def _mix(of_a: list[Piece], of_b: list[Piece], values: dict[str, str | None]) -> tuple[str, ...]:
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


def _piece(name: str, value: str, like: Piece | None) -> Piece:
    """Return an argument with a value, with the tokens of one that has it already."""
    if like is not None and like.value == value:
        return like
    flag = name.partition("#")[0]
    if flag.isdigit():
        tokens: tuple[str, ...] = (value,)
    elif not flag.startswith("-"):
        tokens = (f"{flag}={value}",)
    else:
        tokens = (flag,) if value == SET else (flag, value)
    return Piece(name, value, tokens)
