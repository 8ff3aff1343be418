"""Source and features: a directory of its own with B's commit, or with some of B's files among A's.

Where the two sources differ, every trial has such a directory, those of A too: what is compared are then files, not
places. Where they do not, a trial runs where A ran, unless the files there are no longer those of A.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.environment import source
from bisect_diverge.environment.inputs import FILE, present
from bisect_diverge.environment.modules import MODULE
from bisect_diverge.environment.originals import original
from bisect_diverge.model.environment import Layer
from bisect_diverge.trial import loaded
from bisect_diverge.trial.checkout import FOLDER, Content, above, check_out, mirror
from bisect_diverge.trial.inputs import path_of
from bisect_diverge.trial.interpreters import interpreter_at
from bisect_diverge.trial.packages import CannotBuildError
from bisect_diverge.trial.parts import PARTS
from bisect_diverge.trial.source_units import FILES, GIT, WHOLE, content_of, file_rows, source_parts
from bisect_diverge.trial.sources import Sources, State, program, requested

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.model.run import RunRecord
    from bisect_diverge.model.trial import Unit
    from bisect_diverge.trial.draft import Draft, Sides

_LAYERS = (Layer.SOURCE, Layer.FEATURES)


def swap(sides: Sides, units: Sequence[Unit], draft: Draft) -> Draft:
    """Let the command run in a directory with the wanted source, if it needs one.

    Raises:
        CannotBuildError: if a source is gone.
    """
    scratch = draft.folder.parent / FOLDER
    in_git = requested(sides.a, "repository") == GIT
    differ = bool(units) or _differ(sides) or loaded.may_differ(sides.a, sides.b)
    moved = differ or loaded.has_moved(sides.a)
    if not moved and not (_commit_moved(sides.a) if in_git else _files_moved(sides.a, _LAYERS)):
        return draft
    try:
        if in_git:
            return _with_commit(sides, units, draft, scratch)
        return _with_files(sides, units, draft, scratch)
    except CannotBuildError:
        if units:
            raise
        return draft  # A runs where it lies; what has changed there is named beside the result


def _differ(sides: Sides) -> bool:
    """Whether the two runs had other source or feature files, but for the modules of two different scripts."""
    of_a, of_b = (
        {(s.layer, s.knob): s.value for s in r.environment.settings if s.layer in _LAYERS and not s.resolved}
        for r in (sides.a, sides.b)
    )
    if program(sides.a) != program(sides.b):
        lone = {key for key in of_a.keys() ^ of_b.keys() if key[0] is Layer.SOURCE and key[1].startswith(FILE)}
        theirs = {key[1].removeprefix(FILE): of_b[key] for key in lone & of_b.keys()}
        if all(present(path_of(sides.a.cwd, name)) == value for name, value in theirs.items()):
            of_a, of_b = ({k: v for k, v in rows.items() if k not in lone} for rows in (of_a, of_b))
    return of_a != of_b


def _commit_moved(a: RunRecord) -> bool:
    """Whether the repository is no longer as it was when A was recorded."""
    now, _ = source.read_outside(Path(a.cwd), a.command)
    values = {row.knob: row.value for row in now}
    inside = {row.knob for row in (*now, *a.environment.settings) if row.knob.startswith(source.SUBMODULE)}
    moved = any(values.get(knob, "") != requested(a, knob) for knob in ("commit", "uncommitted", *inside))
    return moved or _files_moved(a, (Layer.FEATURES,))


def _files_moved(a: RunRecord, layers: Sequence[Layer]) -> bool:
    rows = (row for layer in layers for row in file_rows(a, layer).items())
    return any(present(path_of(a.cwd, name)) != value for name, value in rows)


def _with_commit(sides: Sides, units: Sequence[Unit], draft: Draft, scratch: Path) -> Draft:
    sources = _sources(sides, scratch, needed=bool(units))
    state = _last_state(sources, units)
    blobs = {
        sources.path_of(unit.knob.removeprefix(FILE)): unit.b
        for unit in units
        if unit.layer is Layer.SOURCE and unit.knob.startswith(FILE)
    }
    of_tree, others = _features(sides, units, sources)
    tree = sources.mixture(state, blobs | of_tree)
    modules = loaded.contents(sides, _modules(sides, units), sources, tree)
    within = {sources.path_of(name): content for name, content in modules.items()}
    place = check_out(sources, tree, state, others | {path: c for path, c in within.items() if path})
    inside = sources.path_of(".")
    draft.roots, draft.above = _roots(sources.top, place, sides.a.cwd, inside), above(sources.top, place)
    draft.cwd = os.path.normpath(place / inside)
    draft.search_path += _edited(draft.python, sources.top, place)
    elsewhere = {name: content for name, content in modules.items() if not sources.path_of(name)}
    loaded.lay_elsewhere(sides, elsewhere, scratch, draft)
    return draft


def _modules(sides: Sides, units: Sequence[Unit]) -> set[str]:
    """Return the names of the loaded files that are swapped.

    Raises:
        CannotBuildError: if one is to have another content than B's: only that was kept.
    """
    of_b = loaded.rows_of(sides.b)
    of_source = [unit for unit in units if unit.layer is Layer.SOURCE]
    if any(unit.knob == loaded.LOADED for unit in of_source):
        return set(loaded.rows_of(sides.a) | of_b)
    named = {unit.knob.removeprefix(MODULE): unit.b for unit in of_source if unit.knob.startswith(MODULE)}
    for name, value in named.items():
        if value != of_b.get(name):
            raise CannotBuildError(f"{value} is no content of {name} that was kept: give @B")
    return set(named)


def _sources(sides: Sides, scratch: Path, *, needed: bool) -> Sources:
    """Return the sources of both runs; those of A alone where B's are gone and not needed."""
    try:
        return Sources(sides.a, sides.b, scratch)
    except CannotBuildError:
        if needed:
            raise
        return Sources(sides.a, sides.a, scratch)


def _last_state(sources: Sources, units: Sequence[Unit]) -> State:
    """Return the state that the last of the swapped steps leads to; A's where none is swapped."""
    names = [state.name for state in sources.states]
    reached = [0]
    for unit in units:
        if unit.layer is Layer.SOURCE and unit.knob in WHOLE:
            if unit.b not in names:
                return sources.named(unit.b or "")  # given by hand
            reached.append(len(names) - 1 - names[::-1].index(unit.b))
    return sources.states[max(reached)]


def _features(
    sides: Sides, units: Sequence[Unit], sources: Sources
) -> tuple[dict[str, str | None], dict[str, Content | None]]:
    """Return B's values of swapped feature files that its tree has, and contents of those that are in no tree."""
    in_trees = sources.features()
    swapped = {unit.knob.removeprefix(FILE) for unit in units if unit.layer is Layer.FEATURES}
    blobs = {path: value for path, value in in_trees.items() if path in {sources.path_of(name) for name in swapped}}
    files = {sources.path_of(name): content for name, content in _feature_files(sides, swapped).items()}
    files |= _returned(sides, sources)
    return blobs, {path: content for path, content in files.items() if path and path not in in_trees}


def _returned(sides: Sides, sources: Sources) -> dict[str, Content | None]:
    rows = {s.knob: s.value for s in sides.a.environment.settings if not s.resolved}
    found: dict[str, Content | None] = {}
    for path, name in sources.returned().items():
        value = rows[f"{FILE}{name}"]
        place = original(sides.a.place, value, Path(sides.a.cwd) / name)
        if place is not None:
            found[path] = Content(value, place)
    return found


def _feature_files(sides: Sides, swapped: set[str]) -> dict[str, Content | None]:
    """Return the content of every declared file that differs between the runs, or has changed since."""
    of_a, of_b = file_rows(sides.a, Layer.FEATURES), file_rows(sides.b, Layer.FEATURES)
    found: dict[str, Content | None] = {}
    for name in {*of_a, *of_b}:
        if of_a.get(name) == of_b.get(name) == present(path_of(sides.a.cwd, name)):
            continue
        record, value = (sides.b, of_b.get(name)) if name in swapped else (sides.a, of_a.get(name))
        if value is not None:  # a file that one of the runs did not declare is left as it is
            found[name] = Content(value, content_of(record, name, value))
    return found


def _with_files(sides: Sides, units: Sequence[Unit], draft: Draft, scratch: Path) -> Draft:
    a, b = sides.a, sides.b
    of_a, of_b = file_rows(a, Layer.SOURCE), file_rows(b, Layer.SOURCE)
    all_of_b = any(unit.knob == FILES for unit in units)
    swapped = {unit.knob.removeprefix(FILE) for unit in units if unit.layer is Layer.SOURCE}
    other_script = program(a) != program(b)
    found: dict[str, Content | None] = {}
    for name in {*of_a, *of_b}:
        theirs = name in swapped or (all_of_b and of_a.get(name) != of_b.get(name))
        if other_script and (name in of_a) != (name in of_b):
            theirs = name in of_b  # each script keeps its own modules: which one is run is another unit
        record, value = (b, of_b.get(name)) if theirs else (a, of_a.get(name))
        found[name] = None if value is None else Content(value, content_of(record, name, value))
    found |= _feature_files(sides, {unit.knob.removeprefix(FILE) for unit in units if unit.layer is Layer.FEATURES})
    cwd = os.path.realpath(a.cwd)
    paths = {path_of(cwd, name): content for name, content in found.items()}
    modules = {path_of(cwd, n): c for n, c in loaded.contents(sides, _modules(sides, units), None).items()}
    top = Path(os.path.commonpath([cwd, *map(os.path.dirname, paths)]))
    if top == Path("/"):
        raise CannotBuildError(f"the source lies elsewhere than {cwd}, and there is no folder but / with both in it")
    paths |= {path: content for path, content in modules.items() if path.startswith(f"{top}/")}
    inside = os.path.relpath(cwd, top)
    place = mirror(top, scratch, {os.path.relpath(path, top): content for path, content in paths.items()}, inside)
    draft.roots, draft.above = _roots(top, place, a.cwd, inside), above(top, place)
    draft.cwd = os.path.normpath(place / inside)
    loaded.lay_elsewhere(sides, {p: c for p, c in modules.items() if p not in paths}, scratch, draft)
    return draft


def _roots(top: Path, place: Path, cwd: str, inside: str) -> dict[str, str]:
    """Return the user's directory, under both names if a link leads to it, to the one that takes its place."""
    named = cwd.removesuffix(f"/{inside}") if inside not in ("", ".") else cwd
    return {str(top): str(place), named: str(place)}


def _edited(program: str, top: Path, place: Path) -> list[str]:
    """Return where packages that are installed to be edited lie in the checkout, if they are of this source."""
    found = interpreter_at(program)
    paths = () if found is None else (*found.search_path, *found.edited)
    inside = [path for path in paths if path.startswith(f"{top}/") or path == str(top)]
    moved = [str(place) + path.removeprefix(str(top)) for path in dict.fromkeys(inside)]
    real = os.path.realpath(place)
    return [path for path in moved if Path(path).is_dir() and os.path.realpath(path).startswith(real)]


PARTS["source:*"] = source_parts
