"""What differs in the source of two runs: one unit, and the commits and files that it is made of."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.environment.apply import rule_for
from bisect_diverge.environment.hashing import hash_bytes
from bisect_diverge.environment.inputs import FILE
from bisect_diverge.environment.knobs import NOT_READ
from bisect_diverge.environment.modules import EXTENSION, MODULE
from bisect_diverge.environment.originals import original
from bisect_diverge.environment.source import SUBMODULE
from bisect_diverge.errors import ReplayError
from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import Unit, Untested
from bisect_diverge.trial.loaded import LOADED, is_restored, may_differ, rows_of
from bisect_diverge.trial.loaded import differing as differing_files
from bisect_diverge.trial.loaded import why_not as why_not_loaded
from bisect_diverge.trial.packages import CannotBuildError
from bisect_diverge.trial.sources import NONE, Sources, requested

if TYPE_CHECKING:
    from bisect_diverge.model.environment import Difference
    from bisect_diverge.model.run import RunRecord
    from bisect_diverge.trial.sources import State

FILES = "files"
"""Knob of all differing files of scripts that are in no repository."""
WHOLE = ("commit", "uncommitted", "repository")
"""Knobs of the whole source in a repository; the first that differs names the unit."""
GIT = "git"
IN_SUBMODULE = "of a change inside a submodule that is not committed there, only the modules that a run loads are kept"


def source_units(a: RunRecord, b: RunRecord, differing: Sequence[Difference]) -> tuple[Unit | Untested, ...]:
    """Return the unit of the source, or why it cannot be swapped; nothing where only files of other layers differ.

    Args:
        a: The baseline.
        b: The candidate.
        differing: Requested settings of the source that differ.
    """
    kinds = {requested(record, "repository") for record in (a, b)}
    inside = [difference for difference in differing if difference.knob.startswith(SUBMODULE)]
    built = [difference for difference in differing if difference.knob.startswith(EXTENSION)]
    whole = [difference for difference in differing if difference not in (*inside, *built)]
    found = _of_whole(a, b, whole, kinds) if whole else ()
    loaded = _of_loaded(a, b, is_known=bool(found)) if len(kinds) == 1 and may_differ(a, b) else ()
    extensions = [Untested(unit=_plain(d), reason=rule_for(d.layer, d.knob).reason) for d in built]
    return (*found, *loaded, *_of_submodules(inside, loaded), *extensions)


def _of_whole(
    a: RunRecord, b: RunRecord, differing: Sequence[Difference], kinds: set[str]
) -> tuple[Unit | Untested, ...]:
    if kinds == {GIT}:
        return _of_commits(a, b, differing)
    if kinds <= {NONE, ""}:
        return _of_files(a, b, differing)
    broken = next((kind for kind in kinds if kind.startswith(NOT_READ)), "")
    reason = broken or "one of the two runs was recorded in a git repository, the other outside of one or without git"
    return tuple(Untested(unit=_plain(difference), reason=reason) for difference in differing)


def source_parts(a: RunRecord, b: RunRecord, unit: Unit) -> tuple[Unit, ...]:
    """Return the parts of a source unit: a range of commits is taken apart into steps, a step into files.

    Steps bear the knob of the whole; of several that are swapped the last one counts.

    Raises:
        ReplayError: if a commit is gone.
    """
    if unit.knob == FILES:
        return tuple(_file(name, *values) for name, values in sorted(_differing_files(a, b).items()))
    if unit.knob == LOADED:
        return tuple(_module(name, *values) for name, values in sorted(_loaded_files(a, b).items()))
    if unit.knob not in WHOLE:
        return ()
    try:
        with opened(a, b) as sources:
            return _taken_apart(sources, unit)
    except CannotBuildError as error:
        raise ReplayError(
            str(error), hint="the repository of the recorded runs must still have their commits"
        ) from error


@contextmanager
def opened(a: RunRecord, b: RunRecord) -> Iterator[Sources]:
    """Yield the sources of two runs, with a temporary object store."""
    with tempfile.TemporaryDirectory(prefix="bd-source-") as folder:
        yield Sources(a, b, Path(folder))


def file_rows(record: RunRecord, layer: Layer) -> dict[str, str]:
    """Return name and hash of the files that have a row in a layer."""
    return {
        row.knob.removeprefix(FILE): row.value
        for row in record.environment.settings
        if row.layer is layer and row.knob.startswith(FILE) and not row.resolved
    }


def content_of(record: RunRecord, name: str, value: str | None) -> Path:
    """Return a file with a recorded content.

    Raises:
        CannotBuildError: if it is gone.
    """
    found = original(record.place, value, Path(record.cwd) / name)
    if found is None:
        raise CannotBuildError(f"the content of {name} was not kept, and the file is another now")
    return found


def why_not_feature(a: RunRecord, b: RunRecord, difference: Difference) -> str:
    """Return why a declared file of the feature logic cannot be swapped; empty if it can."""
    name = difference.knob.removeprefix(FILE)
    if name.startswith(".."):
        return "it lies outside of the working directory"
    if requested(a, "repository") == GIT == requested(b, "repository"):
        try:
            with opened(a, b) as sources:
                path = sources.path_of(name)
                values = sources.features()
        except CannotBuildError as error:
            return str(error)
        if path in values:
            return ""
    try:
        for record, value in ((a, difference.a), (b, difference.b)):
            if value is not None:
                content_of(record, name, value)
    except CannotBuildError as error:
        return str(error)
    return ""


def restorable(record: RunRecord) -> frozenset[str]:
    """Return the source files that a trial has as they were recorded, however they are now; named as in the record."""
    own = frozenset(name for name, value in rows_of(record).items() if is_restored(record, name, value))
    if requested(record, "repository") == GIT:
        try:
            with opened(record, record) as sources:
                listed = sources.listed(sources.tree(sources.states[0]))
                return frozenset({*map(sources.name_of, listed), *own})
        except CannotBuildError:
            return own
    files = {layer: file_rows(record, layer) for layer in (Layer.SOURCE, Layer.FEATURES)}
    rows = [(name, value) for table in files.values() for name, value in table.items()]
    return own | {n for n, value in rows if original(record.place, value, Path(record.cwd) / n) is not None}


def check_given(record: RunRecord, knob: str, value: str) -> None:
    """Refuse a value of the source that was given by hand and that a trial cannot have.

    Raises:
        CannotBuildError: if there is no such commit, or no repository to look for it.
    """
    if knob not in WHOLE:
        return
    if requested(record, "repository") != GIT:
        raise CannotBuildError(f"there is no commit {value}: the run was recorded outside of a git repository")
    with opened(record, record) as sources:
        sources.named(value)


def _of_commits(a: RunRecord, b: RunRecord, differing: Sequence[Difference]) -> tuple[Unit | Untested, ...]:
    knob = next(knob for knob in WHOLE if any(difference.knob == knob for difference in differing))
    try:
        with opened(a, b) as sources:
            first, last = sources.states[0], sources.states[-1]
            files = _names_of(sources, first, last)
            unit = Unit(layer=Layer.SOURCE, knob=knob, a=first.name, b=last.name, files=files)
            found = (unit,) if files else ()
            unknown = [(sources.name_of(path), reason) for path, reason in sources.unknown().items()]
            return (*found, *(Untested(unit=_file(name, None, None), reason=reason) for name, reason in unknown))
    except CannotBuildError as error:
        difference = next(difference for difference in differing if difference.knob == knob)
        return (Untested(unit=_plain(difference), reason=str(error)),)


def _of_files(a: RunRecord, b: RunRecord, differing: Sequence[Difference]) -> tuple[Unit | Untested, ...]:
    unknown = [difference for difference in differing if not difference.knob.startswith(FILE)]
    if unknown:
        return tuple(Untested(unit=_plain(d), reason="it was not recorded in which repository") for d in unknown)
    files = {d.knob.removeprefix(FILE): (d.a, d.b) for d in differing}
    try:
        for name, values in files.items():
            for record, value in zip((a, b), values, strict=True):
                if value is not None:
                    content_of(record, name, value)
    except CannotBuildError as error:
        return tuple(Untested(unit=_file(name, *values), reason=str(error)) for name, values in files.items())
    if len(files) < 2:
        return tuple(_file(name, *values) for name, values in files.items())
    texts = [_together(side) for side in zip(*files.values(), strict=True)]
    return (Unit(layer=Layer.SOURCE, knob=FILES, a=texts[0], b=texts[1], files=tuple(sorted(files))),)


def _of_loaded(a: RunRecord, b: RunRecord, *, is_known: bool) -> tuple[Unit | Untested, ...]:
    """Return the unit of the loaded files that no commit has, and those that cannot be swapped.

    Args:
        a: The baseline.
        b: The candidate.
        is_known: Whether a source that is gone has been named already.
    """
    try:
        files = _loaded_files(a, b)
    except CannotBuildError as error:
        every = () if is_known else differing_files(a, b, None).items()
        return tuple(Untested(unit=_module(name, *values), reason=str(error)) for name, values in every)
    reasons = {name: why_not_loaded(a, b, name, values) for name, values in files.items()}
    cannot = [Untested(unit=_module(n, *files[n]), reason=reason) for n, reason in sorted(reasons.items()) if reason]
    can = {name: values for name, values in sorted(files.items()) if not reasons[name]}
    if len(can) < 2:
        return (*(_module(name, *values) for name, values in can.items()), *cannot)
    texts = [_together(side) for side in zip(*can.values(), strict=True)]
    return (Unit(layer=Layer.SOURCE, knob=LOADED, a=texts[0], b=texts[1]), *cannot)


def _loaded_files(a: RunRecord, b: RunRecord) -> dict[str, tuple[str | None, str | None]]:
    if requested(a, "repository") != GIT:
        return differing_files(a, b, None)
    with opened(a, b) as sources:
        return differing_files(a, b, sources)


def _of_submodules(inside: Sequence[Difference], loaded: Sequence[Unit | Untested]) -> Iterator[Untested]:
    """Yield the submodules of which the changes differ though no file that was loaded from them does."""
    if any(isinstance(each, Unit) for each in loaded):
        return
    for difference in inside:
        yield Untested(unit=_plain(difference), reason=IN_SUBMODULE)


def _together(values: Sequence[str | None]) -> str:
    digest = hash_bytes(" ".join(value or "-" for value in values).encode()).rpartition(":")[2]
    return f"{sum(value is not None for value in values)} files {digest[:8]}"


def _differing_files(a: RunRecord, b: RunRecord) -> dict[str, tuple[str | None, str | None]]:
    of_a, of_b = file_rows(a, Layer.SOURCE), file_rows(b, Layer.SOURCE)
    names = {*of_a, *of_b}
    return {name: (of_a.get(name), of_b.get(name)) for name in names if of_a.get(name) != of_b.get(name)}


def _taken_apart(sources: Sources, unit: Unit) -> tuple[Unit, ...]:
    names = [state.name for state in sources.states]
    if unit.a not in names or unit.b not in names:
        return ()
    first, last = names.index(unit.a), len(names) - 1 - names[::-1].index(unit.b)
    if last - first > 1:
        return tuple(_steps(sources, unit.knob, first, last))
    before = [] if not first else [Unit(layer=Layer.SOURCE, knob=unit.knob, a=names[0], b=names[first])]
    files = sources.differing(sources.states[first], sources.states[last])
    parts = [_file(sources.name_of(path), *values) for path, values in sorted(files.items())]
    return (*before, *parts) if len(parts) > 1 else tuple(parts)


def _steps(sources: Sources, knob: str, first: int, last: int) -> Iterator[Unit]:
    """Yield the steps between two states; one in which no file of the source changes belongs to the next."""
    begin = sources.states[first]
    for number in range(first + 1, last + 1):
        state = sources.states[number]
        files = _names_of(sources, begin, state)
        if number == last or files:
            yield Unit(layer=Layer.SOURCE, knob=knob, a=begin.name, b=state.name, files=files)
            begin = state


def _names_of(sources: Sources, one: State, other: State) -> tuple[str, ...]:
    """Return the names of the files in which two states differ."""
    return tuple(sorted(map(sources.name_of, sources.differing(one, other))))


def _plain(difference: Difference) -> Unit:
    return Unit(layer=difference.layer, knob=difference.knob, a=difference.a, b=difference.b)


def _module(name: str, a: str | None, b: str | None) -> Unit:
    return Unit(layer=Layer.SOURCE, knob=f"{MODULE}{name}", a=a, b=b)


def _file(name: str, a: str | None, b: str | None) -> Unit:
    return Unit(layer=Layer.SOURCE, knob=f"{FILE}{name}", a=a, b=b)
