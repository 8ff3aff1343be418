"""Whether a name that the user typed can be a knob, told before anything is recorded, and what was meant if not."""

from __future__ import annotations

from difflib import get_close_matches
from fnmatch import fnmatchcase
from importlib.metadata import PackageNotFoundError, distribution
from typing import TYPE_CHECKING

from bisect_diverge.environment import variables
from bisect_diverge.environment.apply import RULES, Way, is_variable, rule_for
from bisect_diverge.model.environment import Layer
from bisect_diverge.study.alternatives import ALTERNATIVES, fits

if TYPE_CHECKING:
    from collections.abc import Sequence

INSTEAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "threads.intra_op")
"""Variable to the knob of the table that stands for what it sets."""


def impossible(wanted: Sequence[str]) -> tuple[str, ...]:
    """Return those of the wanted knobs that no run of any script has.

    A knob with ``=VALUE`` may be any that can be swapped; without, it is one of the table, which knows its values.

    Args:
        wanted: ``knob`` or ``layer.knob`` with ``*``, or either with ``=VALUE``.
    """
    return tuple(text for text in wanted if not _possible(*text.partition("=")[:2]))


def advice(text: str) -> str:
    """Return what to do about a name that stands for nothing: the knob to use, or close names; empty: not known."""
    name, equals, _ = text.partition("=")
    layer, dot, rest = name.partition(".")
    bare = rest if dot and layer in set(Layer) else name
    if bare in INSTEAD and not equals:
        return f"use {INSTEAD[bare]}, or {bare}=VALUE"
    if not equals and _is_known_variable(bare):
        return f"give a value: {bare}=VALUE"
    knobs = [row.knob.partition(".")[2] for row in ALTERNATIVES]
    by_lower = {knob.lower(): knob for knob in knobs}
    close = [by_lower[match] for match in get_close_matches(bare.lower(), by_lower, 3)]
    return f"did you mean {' or '.join(close)}?" if close else ""


def _possible(name: str, equals: str) -> bool:
    if any(_overlap(row.knob, name) for row in ALTERNATIVES):
        return True
    if not equals:
        return False
    layer, dot, knob = name.partition(".")
    if dot and layer in set(Layer):
        return rule_for(Layer(layer), knob).way is not Way.NONE
    return _is_known_variable(name) or _is_installed(name) or any(_is_ruled(rule.what, name) for rule in RULES)


def _overlap(row: str, name: str) -> bool:
    """Whether a row of the table and a name can mean one knob; each may have ``*``."""
    knob = row.partition(".")[2]
    return fits(row, name) or fnmatchcase(name, row) or fnmatchcase(name, knob)


def _is_ruled(what: str, name: str) -> bool:
    """Whether a rule for more than all of a layer holds for a name without its layer."""
    layer, _, pattern = what.partition(":")
    return pattern != "*" and fnmatchcase(name, pattern) and rule_for(Layer(layer), name).way is not Way.NONE


def _is_known_variable(name: str) -> bool:
    layer = variables.layer_of(name)
    return layer is not None and is_variable(layer, name)


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except (PackageNotFoundError, ValueError):
        return False
    return True
