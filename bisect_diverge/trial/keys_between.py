"""What differs inside two configuration files where an argument, or a variable, names the one in A and the other in B.

The keys that differ are parts of such a setting: A's file with B's values of some keys, read under A's name. B read it
under another name, so that it takes a trial to tell whether all keys together do what the setting does.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bisect_diverge.environment.apply import given_variables, is_variable
from bisect_diverge.environment.documents import FORMATS, changes, parse
from bisect_diverge.environment.inputs import FILE
from bisect_diverge.model.environment import Layer
from bisect_diverge.trial.command import differing, take_apart
from bisect_diverge.trial.inputs import by_name, file_in, path_of, rows, shown, text_of, units_of_keys
from bisect_diverge.trial.parts import PARTS, Supposed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bisect_diverge.environment.documents import Change
    from bisect_diverge.model.environment import Setting
    from bisect_diverge.model.run import RunRecord
    from bisect_diverge.model.trial import Bisection, Unit

MOST_KEYS = 8
"""So many keys are named."""

_DOUBT = "the name or the place of the file has part in it, or what is no key of it (the order of keys, say)"
_ARGUMENTS = ("argv.", "launcher.")


def with_keys(bisection: Bisection, a: RunRecord, b: RunRecord) -> Bisection:
    """Return a bisection that says in which keys two files differ that a guilty setting names.

    Nothing is said of a setting that was taken apart: its keys are in the report.

    Args:
        bisection: The bisection.
        a: The baseline's record.
        b: The candidate's record.
    """
    blamed = dict.fromkeys(unit for cause in bisection.causes for unit in cause.units)
    notes = tuple(note for unit in blamed for note in _note(a, b, unit))
    return replace(bisection, notes=(*bisection.notes, *notes)) if notes else bisection


def may_name_files(unit: Unit) -> bool:
    """Whether a setting may name two configuration files of one format, as far as its values say."""
    formats = [FORMATS.get(Path(value or "").suffix.lower()) for value in (unit.a, unit.b)]
    names_one = unit.knob.startswith(_ARGUMENTS) or is_variable(unit.layer, unit.knob)
    return names_one and unit.a != unit.b and formats[0] is not None and formats[0] == formats[1]


def keys_between(a: RunRecord, b: RunRecord, unit: Unit) -> tuple[Unit, ...]:
    """Return the keys in which the two files differ that a setting names; empty where it names no two such files.

    Args:
        a: The baseline's record.
        b: The candidate's record.
        unit: The setting.
    """
    row_a, row_b = _row(a, unit.a), _row(b, unit.b)
    if row_a is None or row_b is None or stand_ins(a, b).get(file_in(row_a.knob)) != file_in(row_b.knob):
        return ()
    trees = _trees(a, b, unit)
    return () if trees is None else units_of_keys(file_in(row_a.knob), changes(*trees))


def stand_ins(a: RunRecord, b: RunRecord) -> dict[str, str]:
    """Return the configuration files of A to those that B's command or variables name instead.

    Left out are files for which B names several, and those of which B has read another content under the same name.

    Args:
        a: The baseline's record.
        b: The candidate's record.
    """
    instead: dict[str, set[str]] = defaultdict(set)
    for one, other in _values(a, b):
        row_a, row_b = _row(a, one), _row(b, other)
        if row_a is not None and row_b is not None:
            instead[file_in(row_a.knob)].add(file_in(row_b.knob))
    of_a, of_b = ({s.knob: s.value for s in rows(record, FILE).values()} for record in (a, b))
    same = {name for name in instead if of_b.get(f"{FILE}{name}") in (None, of_a[f"{FILE}{name}"])}
    return {name: found.pop() for name, found in instead.items() if len(found) == 1 and name in same - found}


def _values(a: RunRecord, b: RunRecord) -> Iterator[tuple[str, str]]:
    """Yield A's and B's value of what differs in the commands, and of variables."""
    for _, one, other in differing(take_apart(a), take_apart(b)):
        if one is not None and other is not None:
            yield one, other
    of_a, of_b = given_variables(a.environment), given_variables(b.environment)
    yield from ((of_a[name], of_b[name]) for name in of_a.keys() & of_b.keys() if of_a[name] != of_b[name])


def _note(a: RunRecord, b: RunRecord, unit: Unit) -> Iterator[str]:
    trees = _trees(a, b, unit)
    found = {} if trees is None else by_name(changes(*trees))
    if trees is not None and not found:
        yield f"the two files that {unit.knob} names have the same keys and values: {_DOUBT}"
    if found:
        listed = (f"{name}: {_value(c, c.a)} -> {_value(c, c.b)}" for name, c in list(found.items())[:MOST_KEYS])
        more = f"; and {len(found) - MOST_KEYS} more" if len(found) > MOST_KEYS else ""
        keys = "1 key" if len(found) == 1 else f"{len(found)} keys"
        yield f"the two files that {unit.knob} names differ in {keys}, not tested one by one: {'; '.join(listed)}{more}"


def _value(change: Change, value: object) -> str:
    text = shown(change, value)
    return "(not set)" if text is None else text


def _trees(a: RunRecord, b: RunRecord, unit: Unit) -> tuple[Any, Any] | None:
    """Return the two files that a setting names as trees; None where it names no two files of one format."""
    if not may_name_files(unit):
        return None
    tree_a, tree_b = _tree(a, unit.a), _tree(b, unit.b)
    return None if tree_a is None or tree_b is None else (tree_a, tree_b)


def _tree(record: RunRecord, value: str | None) -> Any:
    text = _text(record, value)
    return None if text is None else parse(text, Path(value or "").suffix.lower())


def _text(record: RunRecord, value: str | None) -> str | None:
    """Return the content of the configuration file that a value names, as a run read it; None: it names none."""
    row = _row(record, value)
    return None if row is None else text_of(record, file_in(row.knob), row.value)


def _row(record: RunRecord, value: str | None) -> Setting | None:
    """Return the row of the configuration file that a value names; None: the run has read no such file."""
    row = rows(record, FILE).get(path_of(record.cwd, value)) if value and "\0" not in value else None
    return row if row is not None and row.layer is Layer.CONFIGURATION else None


PARTS["configuration:*"] = Supposed(keys_between, may_name_files, _DOUBT)
