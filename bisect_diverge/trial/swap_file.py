"""Files that the script reads: another content, some keys of a configuration file, another list of names.

Nothing of the user's is touched: inside the trial a path leads elsewhere (`record.divert`). What A read and what is not
as it was any more is put back from the copies that A kept, whether anything is swapped or not.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bisect_diverge.environment.dataset import DECLARED
from bisect_diverge.environment.documents import as_text, changes, mixed, parse
from bisect_diverge.environment.inputs import FILE, LISTING, NAMED, kept, names_in, present
from bisect_diverge.record.led_inputs import NOT_OPENED, OPENED
from bisect_diverge.trial.inputs import (
    HASH,
    by_name,
    content,
    file_in,
    is_native,
    keys_of,
    path_of,
    rows,
    shown,
    split_key,
    text_of,
)
from bisect_diverge.trial.keys_between import stand_ins
from bisect_diverge.trial.lead import lead
from bisect_diverge.trial.outputs import in_a, of_b_alone, read_by_b_alone
from bisect_diverge.trial.packages import CannotBuildError
from bisect_diverge.trial.parts import PARTS
from bisect_diverge.trial.scratch import FILES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.model.environment import Setting
    from bisect_diverge.model.run import RunRecord
    from bisect_diverge.model.trial import Unit
    from bisect_diverge.trial.draft import Draft, Sides

OVERLAYS = "overlays"
"""Folder in a trial's folder that holds configuration files made of two."""


def swap(sides: Sides, units: Sequence[Unit], draft: Draft) -> Draft:
    """Let the command read what A read, and of the swapped files what B read.

    Raises:
        CannotBuildError: if a content is not here any more.
    """
    _as_in_a(sides, draft)
    draft.paths |= of_b_alone(sides)
    _expect(sides, draft)
    keys: dict[str, list[Unit]] = defaultdict(list)
    for unit in units:
        name, key = split_key(sides.a, unit.knob)
        if DECLARED.fullmatch(unit.knob):
            draft.paths[path_of(sides.a.cwd, unit.a or "")] = path_of(sides.b.cwd, unit.b or "")
        elif unit.knob.startswith(LISTING):
            _list(sides, unit, draft)
        elif key:
            keys[name].append(unit)
        else:
            _read(sides, unit, draft)
    for number, (name, chosen) in enumerate(sorted(keys.items())):
        _overlay(sides, name, chosen, draft, number)
    _make_folders(draft)
    return _follow_cwd(sides, draft)


def _as_in_a(sides: Sides, draft: Draft) -> None:
    """Put back what A read and what has changed since, as far as it was kept."""
    for path, row in (*rows(sides.a, FILE).items(), *rows(sides.a, NAMED).items()):
        _put_back(sides.a, path, row, draft)
    for path, row in rows(sides.a, LISTING).items():
        names = names_in(sides.a.place, row.value)
        if names is not None:
            draft.listings[path] = list(names)


def _put_back(record: RunRecord, path: str, row: Setting, draft: Draft) -> None:
    """Let a path lead to the copy that a run kept, where something else lies there now."""
    place = kept(record.place, row.value)
    if place is not None and present(path, row.value) != row.value:
        _give(record, path, file_in(row.knob), str(place), draft)


def _give(record: RunRecord, path: str, name: str, place: str, draft: Draft) -> None:
    """Let a path lead elsewhere; one that a library opens by itself also where the command names it."""
    if is_native(record, name):
        lead(record, path, place, draft)
    else:
        draft.paths[path] = place


def _expect(sides: Sides, draft: Draft) -> None:
    """Let a trial tell what it read otherwise than B: files that only one of the runs has read."""
    for path, _, row in read_by_b_alone(sides):
        draft.expected[path].append((f"{row.layer}.{row.knob}", NOT_OPENED))
    of_b = in_a(sides, FILE)
    for path, row in rows(sides.a, FILE).items():
        if path not in of_b and of_b:
            draft.expected[path].append((f"{row.layer}.{row.knob}", OPENED))


def _read(sides: Sides, unit: Unit, draft: Draft) -> None:
    name = file_in(unit.knob)
    path = path_of(sides.a.cwd, name)
    if unit.b is None:
        draft.hidden.add(path)
        draft.paths.pop(path, None)
        return
    theirs = path_of(sides.b.cwd, name)
    place = content(sides.b, theirs, unit.b) or _by_hand(sides, unit.b)
    if place is None:
        known = unit.b.startswith(HASH)
        raise CannotBuildError(
            f"the content of {theirs} was not kept, and it is another now" if known else f"no such file: {unit.b}"
        )
    if place != path:
        _give(sides.a, path, name, place, draft)
    draft.expected[path].append((str(unit), NOT_OPENED))


def _by_hand(sides: Sides, value: str) -> str | None:
    """Return the file that a value names which is no hash: what ``bd trial --set`` was given."""
    path = path_of(sides.a.cwd, value)
    return path if Path(path).is_file() else None


def _list(sides: Sides, unit: Unit, draft: Draft) -> None:
    """List a folder as B saw it, with the files in it that only B has read."""
    folder = path_of(sides.a.cwd, unit.knob.removeprefix(LISTING))
    names = names_in(sides.b.place, unit.b)
    if names is None:
        raise CannotBuildError(f"the list of the names in {folder} was not kept in B")
    draft.listings[folder] = list(names)
    draft.expected[folder].append((str(unit), NOT_OPENED))
    for path, _, row in read_by_b_alone(sides):
        if path.startswith(f"{folder}/"):
            _put_back(sides.b, path, row, draft)


def _overlay(sides: Sides, name: str, units: Sequence[Unit], draft: Draft, number: int) -> None:
    """Write A's file with B's values of some keys, and let it be read in the place of A's.

    B's values are those of the file of this name, or of the one that B's command names instead of it.
    """
    text = _text(sides.a, name)
    other = _text(sides.b, stand_ins(sides.a, sides.b).get(name, name)) or ""
    suffix = Path(name).suffix.lower()
    keys = {split_key(sides.a, unit.knob)[1]: unit.b for unit in units}
    made = None if text is None else mixed(text, suffix, _unmasked(keys, text, other, suffix), other)
    if made is None:
        raise CannotBuildError(f"{name} cannot be given these keys: {', '.join(keys)}")
    path = path_of(sides.a.cwd, name)
    place = draft.folder / OVERLAYS / f"{number}{Path(name).suffix}"
    place.parent.mkdir(exist_ok=True)
    place.write_text(made, encoding="utf-8")
    draft.paths[path] = str(place)
    draft.expected[path] += [(str(unit), NOT_OPENED) for unit in units]


def _text(record: RunRecord, name: str) -> str | None:
    rows_of_it = (s for s in record.environment.settings if s.knob == f"{FILE}{name}")
    return next((text_of(record, name, row.value) for row in rows_of_it), None)


def _unmasked(keys: dict[str, str | None], text: str, other: str, suffix: str) -> dict[str, str | None]:
    """Return keys and values as B's file has them: those of units are masked where they are credentials."""
    trees = parse(text, suffix), parse(other, suffix)
    of_b = {} if None in trees else by_name(changes(*trees))
    found = {}
    for name, value in keys.items():
        change = of_b.get(name)
        if change is None or value != shown(change, change.b):
            found[name] = value
        else:
            found[change.name] = as_text(change.b)
    return found


def _make_folders(draft: Draft) -> None:
    """Make the folders of files that are read although what they lay in is gone."""
    for path in draft.paths:
        parent = os.path.dirname(path)  # noqa: PTH120
        if not os.path.isdir(parent):  # noqa: PTH112
            (draft.folder / FILES / parent.lstrip("/")).mkdir(parents=True, exist_ok=True)


def _follow_cwd(sides: Sides, draft: Draft) -> Draft:
    """Where the command runs in another folder than A did, let the same hold below that one."""
    old, new = f"{sides.a.cwd}/", f"{draft.cwd}/"
    if old != new:
        tables: tuple[dict[str, Any], ...] = (draft.paths, draft.listings, draft.expected)
        for table in tables:
            table |= {new + path.removeprefix(old): value for path, value in table.items() if path.startswith(old)}
    return draft


PARTS["configuration:file:*"] = keys_of
