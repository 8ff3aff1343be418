"""Seeds: the hash seed, and the seeds that the script gave to the generators."""

from __future__ import annotations

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

SHOWN = 8
"""Seeds written out of a setter that is called often; all of them count in the hash."""


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
    return tuple(setting(Layer.SEEDS, knob, _calls(values), resolved=False) for knob, values in seeds.items())


def _calls(values: Sequence[str]) -> str:
    shown = ", ".join(values[:SHOWN])
    if len(values) == 1:
        return shown
    if len(values) > SHOWN:
        shown += f", ... {hash_bytes(chr(0).join(values).encode('utf-8', 'backslashreplace'))}"
    return f"{shown} ({len(values)} calls)"
