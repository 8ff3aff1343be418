"""What differs inside two configuration files where an argument, or a variable, names the one in A and the other in B.

The argument is the cause, and the trials that prove it gave the command B's file. Which of its keys does it is not
tested: that would be A's file with B's keys under A's name, another thing than what B read.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.environment.documents import as_text, changes, parse
from bisect_diverge.environment.inputs import FILE
from bisect_diverge.environment.secrets import MASKED, is_secret
from bisect_diverge.trial.inputs import file_in, path_of, rows, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bisect_diverge.environment.documents import Change
    from bisect_diverge.model.run import RunRecord
    from bisect_diverge.model.trial import Bisection, Unit

MOST_KEYS = 8
"""So many keys are named."""


def with_keys(bisection: Bisection, a: RunRecord, b: RunRecord) -> Bisection:
    """Return a bisection that says in which keys two files differ that a guilty setting names.

    Args:
        bisection: The bisection.
        a: The baseline's record.
        b: The candidate's record.
    """
    blamed = dict.fromkeys(unit for cause in bisection.causes for unit in cause.units)
    notes = tuple(note for unit in blamed for note in _note(a, b, unit))
    return replace(bisection, notes=(*bisection.notes, *notes)) if notes else bisection


def _note(a: RunRecord, b: RunRecord, unit: Unit) -> Iterator[str]:
    found = tuple(_changes(a, b, unit))
    if found:
        shown = "; ".join(f"{c.name}: {_value(c.name, c.a)} -> {_value(c.name, c.b)}" for c in found[:MOST_KEYS])
        more = f"; and {len(found) - MOST_KEYS} more" if len(found) > MOST_KEYS else ""
        keys = "1 key" if len(found) == 1 else f"{len(found)} keys"
        yield f"the two files that {unit.knob} names differ in {keys}, not tested one by one: {shown}{more}"


def _changes(a: RunRecord, b: RunRecord, unit: Unit) -> Iterator[Change]:
    texts = _text(a, unit.a), _text(b, unit.b)
    suffix = Path(unit.a or "").suffix.lower()
    if unit.a == unit.b or None in texts or suffix != Path(unit.b or "").suffix.lower():
        return
    tree_a, tree_b = (parse(text or "", suffix) for text in texts)
    if tree_a is not None and tree_b is not None:
        yield from changes(tree_a, tree_b)


def _text(record: RunRecord, value: str | None) -> str | None:
    """Return the content of the configuration file that a value names, as a run read it; None: it names none."""
    row = rows(record, FILE).get(path_of(record.cwd, value)) if value else None
    return None if row is None else text_of(record, file_in(row.knob), row.value)


def _value(name: str, value: object) -> str:
    text = as_text(value)
    if text is None:
        return "(not set)"
    return MASKED if is_secret(name.rpartition(".")[2], text) else text
