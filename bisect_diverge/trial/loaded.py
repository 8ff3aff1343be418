"""Code that runs have loaded and that no commit or patch has: ignored files, changes in submodules, files elsewhere."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.environment.inputs import FILE, kept, present
from bisect_diverge.environment.modules import END_MARK, MODULE
from bisect_diverge.environment.originals import original
from bisect_diverge.environment.source import script_of
from bisect_diverge.model.environment import Layer
from bisect_diverge.trial.checkout import Content, above, mirror
from bisect_diverge.trial.command import take_apart
from bisect_diverge.trial.inputs import path_of
from bisect_diverge.trial.interpreters import interpreter_of
from bisect_diverge.trial.packages import CannotBuildError, entries
from bisect_diverge.trial.sources import program

if TYPE_CHECKING:
    from bisect_diverge.model.run import RunRecord
    from bisect_diverge.trial.draft import Draft, Sides
    from bisect_diverge.trial.sources import Sources

LOADED = "loaded"
"""Knob of several such files together."""
_NEAR = (Layer.SOURCE,)
_FAR = (Layer.DEPENDENCIES, Layer.RUNTIME)
"""Layers that decide which modules are loaded in the project, and elsewhere."""
Values = tuple[str | None, str | None]
"""A's and B's content of a file; None: it was not loaded."""


def rows_of(record: RunRecord) -> dict[str, str]:
    """Return name and content of each file of code that a run had loaded at its end."""
    return {
        s.knob.removeprefix(MODULE): s.value
        for s in record.environment.settings
        if s.layer is Layer.SOURCE and s.knob.startswith(MODULE)
    }


def may_differ(a: RunRecord, b: RunRecord) -> bool:
    """Whether `differing` may find something; costs nothing."""
    of_a, of_b = rows_of(a), rows_of(b)
    if not _whole(a, b):
        return False
    one_sided = ((r, rows[name]) for r, rows in ((a, of_a), (b, of_b)) for name in rows.keys() - (of_a.keys() & of_b))
    return any(of_a[name] != of_b[name] for name in of_a.keys() & of_b) or any(kept(r.place, v) for r, v in one_sided)


def differing(a: RunRecord, b: RunRecord, sources: Sources | None) -> dict[str, Values]:
    """Return the loaded files in which two runs differ and that nothing else in the source moves.

    Where the rest of the source differs, or what is searched for modules, a file that only one of them has loaded is
    put down to that: another script imports other modules.

    Args:
        a: The baseline.
        b: The candidate.
        sources: Their sources in a repository; None: there is none.
    """
    if not _whole(a, b):
        return {}
    of_a, of_b = rows_of(a), rows_of(b)
    claimed = _claimed(a, b)
    alone = program(a) == program(b) and _requested(a, _NEAR) == _requested(b, _NEAR)
    far = alone and _requested(a, _FAR) == _requested(b, _FAR)
    found = {}
    for name in dict.fromkeys((*of_a, *of_b)):
        values = of_a.get(name), of_b.get(name)
        one_sided = None in values
        if values[0] == values[1] or (one_sided and not (far if _is_far(name) else alone)):
            continue
        if path_of(a.cwd, name) not in claimed and not (sources is not None and sources.explains(name, values)):
            found[name] = values
    return found


def why_not(a: RunRecord, b: RunRecord, name: str, values: Values) -> str:
    """Return why a loaded file cannot be swapped; empty if it can."""
    for record, value in ((a, values[0]), (b, values[1])):
        if value is not None and original(record.place, value, Path(record.cwd) / name) is None:
            return f"the content of {name} was not kept, and the file is another now"
    if _is_far(name) and _root_of(name, a) is None:
        return "it lies elsewhere, and neither PYTHONPATH nor the interpreter says that it is looked for there"
    return ""


def contents(
    sides: Sides, swapped: Iterable[str], sources: Sources | None, tree: str = ""
) -> dict[str, Content | None]:
    """Return what a trial must have of such files, by name: B's content of the swapped ones, A's of the others.

    Left out is what lies where the trial finds it as A had it, and what the tree has.

    Args:
        sides: The two runs.
        swapped: Names of the swapped files.
        sources: Their sources in a repository; None: there is none.
        tree: The tree that is laid out.

    Raises:
        CannotBuildError: if a content is gone.
    """
    a, b, chosen = sides.a, sides.b, set(swapped)
    both = {name: values for name, values in differing(a, b, sources).items() if not why_not(a, b, name, values)}
    wanted = {name: values[name in chosen] for name, values in both.items()}
    claimed = _claimed(a, b)
    wanted |= {n: v for n, v in _moved(a).items() if n not in wanted and path_of(a.cwd, n) not in claimed}
    found: dict[str, Content | None] = {}
    for name, value in wanted.items():
        if sources is not None and name not in both and _comes_along(sources, tree, name, value):
            continue
        record = b if name in chosen else a
        place = None if value is None else original(record.place, value, Path(record.cwd) / name)
        if value is not None and place is None:
            raise CannotBuildError(f"the content of {name} was not kept, and the file is another now")
        found[name] = None if value is None or place is None else Content(value, place)
    return found


def has_moved(a: RunRecord) -> bool:
    """Whether such a file of which A kept a copy is another now."""
    return bool(_moved(a))


def lay_elsewhere(sides: Sides, wanted: Mapping[str, Content | None], scratch: Path, draft: Draft) -> None:
    """Let a trial find other contents of files outside of the source: before all others on the search path."""
    by_root: dict[str, dict[str, Content | None]] = defaultdict(dict)
    for path, content in wanted.items():
        root = _root_of(path, sides.a)
        if root is None:
            raise CannotBuildError(f"it is not known from where {path} is loaded")
        by_root[root][os.path.relpath(path, os.path.realpath(root))] = content
    script = script_folder(sides.a)
    for root, files in by_root.items():
        top = Path(os.path.realpath(root))
        place = mirror(top, scratch, files)
        draft.roots |= {root: str(place), str(top): str(place)}
        draft.above |= above(top, place)
        if root not in draft.search_path and root != script:
            draft.search_path.insert(0, str(place))


def is_restored(record: RunRecord, name: str, value: str) -> bool:
    """Whether a trial has a loaded file as it was recorded, however it is now: there is a copy, and a place for it."""
    return kept(record.place, value) is not None and (not _is_far(name) or _root_of(name, record) is not None)


def script_folder(record: RunRecord) -> str:
    """Return the folder of the script, which is searched for modules first; empty where it is not known."""
    script = script_of(Path(record.cwd), record.command) or Path(record.cwd, take_apart(record).program)
    return os.path.realpath(script.parent) if script.suffix == ".py" else ""


def _comes_along(sources: Sources, tree: str, name: str, value: str | None) -> bool:
    """Whether a tree has a file, or A had it as the commit of a submodule has it: then it moves with that commit."""
    return sources.has(tree, name) or sources.has(sources.tree(sources.states[0]), name, value)


def _whole(a: RunRecord, b: RunRecord) -> bool:
    return all(r.environment.value(Layer.SOURCE, END_MARK) is not None for r in (a, b))


def _moved(a: RunRecord) -> dict[str, str | None]:
    """Return the files of which A kept a copy and that are others now."""
    return {n: v for n, v in rows_of(a).items() if present(path_of(a.cwd, n)) != v and is_restored(a, n, v)}


def _is_far(name: str) -> bool:
    """Whether a file lies outside of the project: it is named by its path."""
    return os.path.isabs(name)  # noqa: PTH117


def _requested(record: RunRecord, layers: Collection[Layer]) -> set[tuple[str, str]]:
    return {(s.knob, s.value) for s in record.environment.settings if s.layer in layers and not s.resolved}


def _claimed(*records: RunRecord) -> set[str]:
    """Return the paths of files that have a row of another kind: a script without a repository, features, data."""
    return {
        path_of(record.cwd, s.knob.removeprefix(FILE))
        for record in records
        for s in record.environment.settings
        if s.knob.startswith(FILE)
    }


def _root_of(path: str, a: RunRecord) -> str | None:
    """Return the innermost folder in which Python looks for modules and that holds a file; None if there is none."""
    interpreter = interpreter_of(a)
    places = [*entries(a.environment.value(Layer.DEPENDENCIES, "PYTHONPATH", resolved=False), a.cwd), script_folder(a)]
    places += [] if interpreter is None else [*interpreter.search_path, *interpreter.edited]
    holding = [place for place in places if place and path.startswith(f"{os.path.realpath(place)}/")]
    return max(holding, key=lambda place: len(os.path.realpath(place)), default=None)
