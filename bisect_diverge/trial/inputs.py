"""Files that two runs read: which differ, where each content is now, and what a configuration file is made of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.environment.dataset import DECLARED
from bisect_diverge.environment.documents import MISSING, Change, as_text, changes, parse
from bisect_diverge.environment.inputs import (
    CHANGED,
    FILE,
    LARGEST_COPY,
    LISTING,
    MOST_BYTES,
    NAMED,
    OPENED_BY,
    REST,
    names_in,
)
from bisect_diverge.environment.originals import original
from bisect_diverge.environment.secrets import MASKED, is_secret, mask_data
from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bisect_diverge.model.environment import Difference, Setting
    from bisect_diverge.model.run import RunRecord

HASH = "xxh3"
"""How the value of a row begins that stands for a content."""

_LAYERS = (Layer.DATASET, Layer.CONFIGURATION)
_KEPT = (
    f"files up to {LARGEST_COPY >> 20} MiB are kept, {MOST_BYTES >> 20} MiB of a run, unless something in them looks "
    "like a credential or --no-keep-data was given"
)


def is_input(layer: Layer, knob: str) -> bool:
    """Whether a knob is a file that a run read, a key of one, a folder that it listed, or a declared path."""
    if layer is Layer.DATASET and (knob.startswith(LISTING) or knob == REST or DECLARED.fullmatch(knob)):
        return True
    return layer in _LAYERS and knob.startswith((FILE, NAMED))


def file_in(knob: str) -> str:
    """Return the name of the file that a knob is about."""
    return knob.removeprefix(NAMED if knob.startswith(NAMED) else FILE)


def is_native(record: RunRecord, name: str) -> bool:
    """Whether a library opened a file by itself in a run, or whether nobody saw it being opened."""
    knobs = {f"{OPENED_BY}{name}", f"{NAMED}{name}"}
    return any(s.layer is Layer.DATASET and s.knob in knobs for s in record.environment.settings)


def is_waiting(difference: Difference) -> bool:
    """Whether only one of the runs has read a file or listed a folder: something else may be why."""
    one_sided = difference.a is None or difference.b is None
    return one_sided and is_input(difference.layer, difference.knob) and not DECLARED.fullmatch(difference.knob)


def is_named_elsewhere(difference: Difference, found: Sequence[Unit]) -> bool:
    """Whether a declared path differs because a flag or a variable that differs has it in its value."""
    if difference.layer is not Layer.DATASET or not DECLARED.fullmatch(difference.knob):
        return False
    if difference.a is None or difference.b is None:  # another number of --data: what lies there has rows of its own
        return True
    return any(difference.b in (unit.b or "") for unit in found)


def rows(record: RunRecord, prefix: str) -> dict[str, Setting]:
    """Return the rows of a run that stand for contents, by absolute path.

    Args:
        record: The run.
        prefix: `FILE` or `LISTING`.
    """
    return {
        path_of(record.cwd, s.knob.removeprefix(prefix)): s
        for s in record.environment.settings
        if s.layer in _LAYERS and s.knob.startswith(prefix) and not s.resolved and s.value.startswith(HASH)
    }


def path_of(cwd: str, name: str) -> str:
    """Return the absolute path of a name in a row."""
    return os.path.normpath(os.path.join(cwd, name))  # noqa: PTH118


def content(record: RunRecord, path: str, value: str | None) -> str | None:
    """Return where a content is: in the run's copies, else at its path; None if it is nowhere any more."""
    place = original(record.place, value, Path(path))
    return None if place is None else str(place)


def why_not(a: RunRecord, b: RunRecord, difference: Difference) -> str:
    """Return why one of these inputs cannot be swapped here; empty if it can."""
    knob = difference.knob
    if knob == REST:
        return "more files were read than get a row of their own"
    if DECLARED.fullmatch(knob):
        place = path_of(b.cwd, difference.b or "")
        return "" if Path(place).exists() else f"{place}, which B read, is not here"
    if knob.startswith(LISTING):
        return "" if names_in(b.place, difference.b) is not None else "the list of names was not kept in B"
    for record, value, side in ((b, difference.b, "B"), (a, difference.a, "A")):
        path = path_of(record.cwd, file_in(knob))
        if value == CHANGED:
            return f"{path} {CHANGED} in {side}: what was read is not known"
        if value is not None and content(record, path, value) is None:
            return f"what {path} held in {side} was not kept, and it holds something else now ({_KEPT})"
    return ""


def named(a: RunRecord, b: RunRecord, unit: Unit) -> Unit:
    """Return the unit of a file; of a configuration file in which one key differs, the unit of that key."""
    found = keys_of(a, b, unit)
    return found[0] if len(found) == 1 else unit


def keys_of(a: RunRecord, b: RunRecord, unit: Unit) -> tuple[Unit, ...]:
    """Return the keys in which a configuration file differs; empty where it has none, or is no file of both runs."""
    return units_of_keys(file_in(unit.knob), _changes(a, b, unit))


def units_of_keys(file: str, found: Iterable[Change]) -> tuple[Unit, ...]:
    """Return a unit for each key; credentials are masked in names and in values.

    Args:
        file: Name of the file that has A's values.
        found: What differs.
    """
    return tuple(
        Unit(
            layer=Layer.CONFIGURATION,
            knob=f"{FILE}{file}:{name}",
            a=shown(change, change.a),
            b=shown(change, change.b),
        )
        for name, change in by_name(found).items()
    )


def by_name(found: Iterable[Change]) -> dict[str, Change]:
    """Return what differs by the names that reports show: a key that is a credential itself is masked, and numbered."""
    named: dict[str, Change] = {}
    for change in found:
        name = mask_data(change.name)
        number = 1 + sum(other.partition("#")[0] == name for other in named)
        named[name if name not in named else f"{name}#{number}"] = change
    return named


def shown(change: Change, value: object) -> str | None:
    """Return a value of a key as reports show it; None where the key is not there.

    Args:
        change: The key.
        value: Its value in A or B.
    """
    if value is MISSING:
        return None
    text = as_text(value) or ""
    plain = value if isinstance(value, str) else text
    return MASKED if any(is_secret(str(part), plain) for part in change.path) else text


def missing_key(record: RunRecord, knob: str) -> tuple[str, str, list[str]] | None:
    """Return the file, the key that a knob means but the file does not have, and those that it has; None: it is there.

    None also where the knob means no key, or where the file is gone or has no keys.

    Args:
        record: A run that has read the file.
        knob: ``file:NAME:KEY``.
    """
    name, key = split_key(record, knob)
    row = rows(record, FILE).get(path_of(record.cwd, name)) if key else None
    text = None if row is None else text_of(record, name, row.value)
    names = [] if text is None else list(_names(parse(text, Path(name).suffix.lower())))
    return (name, key, names) if names and key not in names else None


def _names(tree: object, above: str = "") -> Iterator[str]:
    """Yield the name of everything in a tree, of branches too."""
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, child in entries:
        yield f"{above}{key}"
        yield from _names(child, f"{above}{key}.")


def _changes(a: RunRecord, b: RunRecord, unit: Unit) -> Iterator[Change]:
    name = unit.knob.removeprefix(FILE)
    text_a, text_b = text_of(a, name, unit.a), text_of(b, name, unit.b)
    suffix = Path(name).suffix.lower()
    if unit.layer is Layer.CONFIGURATION and text_a is not None and text_b is not None:
        tree_a, tree_b = parse(text_a, suffix), parse(text_b, suffix)
        if tree_a is not None and tree_b is not None:
            yield from changes(tree_a, tree_b)


def text_of(record: RunRecord, name: str, value: str | None) -> str | None:
    """Return the text of a file as a run read it; None if it is gone, or no text."""
    place = content(record, path_of(record.cwd, name), value)
    try:
        return None if place is None else Path(place).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def split_key(record: RunRecord, knob: str) -> tuple[str, str]:
    """Return the name of a file and the key that a knob means; an empty key where it means the file.

    Args:
        record: A run that has read the file.
        knob: ``file:NAME`` or ``file:NAME:KEY``.
    """
    names = [s.knob for s in record.environment.settings if s.knob.startswith(FILE)]
    file = max((name for name in names if knob == name or knob.startswith(f"{name}:")), key=len, default=knob)
    return file.removeprefix(FILE), knob[len(file) + 1 :]
