"""Seeds: the hash seed, and the seeds that the script gave to the generators."""

from __future__ import annotations

import ast
import re
import sys
from typing import TYPE_CHECKING

from bisect_diverge.environment.given import as_given
from bisect_diverge.environment.hashing import hash_bytes
from bisect_diverge.environment.knobs import Knob, Variable, setting
from bisect_diverge.model.environment import Layer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bisect_diverge.model.environment import Setting

VARIABLES: tuple[Variable, ...] = (
    Variable("PYTHONHASHSEED", "order in which sets of text are gone through"),
    Variable("PL_GLOBAL_SEED", "Lightning's seed"),
    Variable("SEED", "a name that scripts use"),
    Variable("RANDOM_SEED", "a name that scripts use"),
)

RANDOM = "random"
"""Value of ``hash.randomization`` when every process has another salt."""

SHOWN = 64
"""Seeds written out of a setter that is called often; all of them count in the hash."""

FRESH = "fresh entropy"
"""How the text of a seed begins that the library took from the system: `` 123`` behind it if it told which."""
FROM_TIME = " (the time)"
"""Behind a seed that is the present time, in seconds or a part of them."""
FROM_PROCESS = " (the process id)"
"""Behind a seed that is the number of the process."""

INITIAL = "initial-state."
"""How the knob of a generator's first state begins, if the run drew from it without giving it a seed."""
STATE = "state:"
"""How the text of a seed begins, in a pin, that is a state: the path of a kept one follows."""
SEQUENCE = re.compile(r"SeedSequence\((.+)\)", re.DOTALL)
"""Text of a seed that is numpy's own object of the numbers in brackets."""
LOADER = "loader."
"""How the knobs of a data loader's own seeds begin; its name follows."""
BASE_SEED = ".base_seed"
"""How the knob ends of what a loader with workers has drawn for each of its iterations: the workers' seeds."""
WORKER_INIT = ".worker_init_fn"
"""How the knob ends of what a loader's workers call first."""
IN_WORKER = ".worker"
"""What stands in the knob of a setter that a loader worker has called, before the worker's number."""
DRAWN = "drawn from:"
"""How the text of a generator's seed begins that had been drawn from before: the hash of its kept state follows."""
PROCESS = "process"
"""Knob of the name of a process that multiprocessing started: ``SpawnProcess-2``. Others have no such row."""
RANK = "@rank"
"""Between a seed's knob and the number of the one rank that is meant."""
_OF_WORKER = re.compile(rf"{re.escape(LOADER)}.+{re.escape(IN_WORKER)}\d+\.")
_OF_RANK = re.compile(r"(?:^|; )rank (\d+): ")
FAMILIES: dict[str, tuple[str, ...]] = {
    "python": ("random.seed",),
    "numpy": ("numpy.random.seed",),
    "torch": ("torch.manual_seed", "torch.seed"),
}
"""Generators that every process starts in another state, to the setters that seed them."""


def _randomization() -> str:
    if not sys.flags.hash_randomization:
        return "off"
    # What counts is the variable at the start: scripts set it too late, where it does nothing.
    given = {} if sys.flags.ignore_environment else as_given() or {}
    return "fixed" if given.get("PYTHONHASHSEED", RANDOM).isdigit() else RANDOM


def _salt() -> str | None:
    """Return what the salt makes of a fixed text; None when it is random and so differs in any two runs."""
    if _randomization() == RANDOM:
        return None
    return f"{hash('bisect-diverge') & 0xFFFFFFFFFFFFFFFF:016x}"


KNOBS: tuple[Knob, ...] = (
    Knob("hash.randomization", _randomization, "whether the salt of text hashes is off, fixed or random"),
    Knob("hash.salt", _salt, "hash of a fixed text, unless the salt is random"),
)


def seed_settings(seeds: Mapping[str, Sequence[str]]) -> tuple[Setting, ...]:
    """Return what each setter was called with.

    Args:
        seeds: Setter to its seeds in the order of the calls, as `environment.setters.watch_setters` notes
        them.

    Returns:
        One setting for each setter, such as ``0`` or ``0, 7 (2 calls)``. Of many calls the first are written
        out and a hash stands for all.
    """
    return tuple(setting(Layer.SEEDS, knob, _calls(values), resolved=_is_made(knob)) for knob, values in seeds.items())


def _is_made(knob: str) -> bool:
    """Whether a loader or one of its workers has made a seed: nothing outside gives it."""
    return knob.endswith(BASE_SEED) or bool(_OF_WORKER.match(knob))


def of_ranks(values: Mapping[int, str], world: int) -> str:
    """Return one text for the seeds of several ranks: that of all of them, or ``rank 0: 5; rank 1: 6``.

    Args:
        values: Rank to what its own row says, for the ranks that have such a row.
        world: Number of ranks.
    """
    texts = set(values.values())
    if len(texts) == 1 and len(values) == world:
        return texts.pop()
    return "; ".join(f"rank {rank}: {values[rank]}" for rank in sorted(values))


def rank_of(knob: str) -> tuple[str, int | None]:
    """Return a seed's knob without the rank that it means, and that rank; None where it means all."""
    name, _, rank = knob.partition(RANK)
    return name, int(rank) if rank.isdigit() else None


def by_rank(value: str, world: int) -> dict[int, str]:
    """Return what `of_ranks` was given; a text that names no rank counts for all of them."""
    _, *parts = _OF_RANK.split(value)
    if not value.startswith("rank ") or not parts:
        return dict.fromkeys(range(world), value)
    return {int(rank): text for rank, text in zip(parts[::2], parts[1::2], strict=True)}


def is_fresh(text: str) -> bool:
    """Whether a seed is another in every process, whatever the script is given."""
    return text.startswith(FRESH) or text.endswith((FROM_TIME, FROM_PROCESS))


def calls_in(value: str) -> tuple[str, ...] | None:
    """Return the seeds in the value of a setter, in the order of the calls; None where not all are written out."""
    many = re.fullmatch(r"(.*) \((\d+) calls\)", value, re.DOTALL)
    texts = _split(many[1]) if many else [value]
    return None if many and len(texts) != int(many[2]) else tuple(texts)


def is_other(before: str, after: str) -> bool:
    """Whether two values of a setter differ as far as both go: one run may have been ended before the other."""
    one, other = calls_in(before), calls_in(after)
    if one is None or other is None:
        return before != after
    return any(x != y for x, y in zip(one, other, strict=False))


def _split(text: str) -> list[str]:
    """Split at commas that are in no brackets and no quotes."""
    parts, depth, quote, begin = [], 0, "", 0
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote and text[at - 1] != "\\" else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        elif letter == "," and not depth:
            parts.append(text[begin:at])
            begin = at + 2
    return [*parts, text[begin:]]


def is_told(text: str) -> bool:
    """Whether the text of a seed says which seed it was, and not only its type or that it was a fresh one."""
    if number_in(text) is not None or text.startswith((STATE, f"{FRESH} xxh3:", DRAWN)):
        return True
    sequence = SEQUENCE.fullmatch(text)
    try:
        ast.literal_eval(plain(text) if sequence is None else sequence[1])
    except (ValueError, SyntaxError):
        return False
    return True


def number_in(text: str) -> int | None:
    """Return the seed that a text stands for if it is a whole number."""
    number = plain(text)
    return int(number) if re.fullmatch(r"-?\d+", number) else None


def plain(text: str) -> str:
    """Return the text of a seed without what is said of where it came from."""
    return text.removesuffix(FROM_TIME).removesuffix(FROM_PROCESS).removeprefix(f"{FRESH} ")


def _calls(values: Sequence[str]) -> str:
    shown = ", ".join(values[:SHOWN])
    if len(values) == 1:
        return shown
    if len(values) > SHOWN:
        shown += f", ... {hash_bytes(chr(0).join(values).encode('utf-8', 'backslashreplace'))}"
    return f"{shown} ({len(values)} calls)"
