"""What the process has read: told at its end, so that reading and hashing take no time from the training."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Set
from pathlib import Path

from bisect_diverge.environment.configuration import name_of
from bisect_diverge.environment.dataset import DECLARED, files_below
from bisect_diverge.environment.inputs import NAMED, OPENED_BY, Keeper, read_files, read_listings
from bisect_diverge.environment.knobs import setting
from bisect_diverge.environment.named_files import named_files
from bisect_diverge.model.environment import Layer, Setting
from bisect_diverge.record import files, worker_seeds, worker_threads
from bisect_diverge.record.divert import not_as_expected
from bisect_diverge.record.initial import FirstStates
from bisect_diverge.record.settings import Settings


def read_inputs(settings: Settings, cwd: str, states: FirstStates | None, seeded: Set[str]) -> tuple[Setting, ...]:
    """Return the files that this process has read and the folders that it has listed; small files are kept.

    In a trial nothing is hashed: what is returned says which of the files that matter it did not open. Generators that
    it drew from without a seed are inputs too.

    Args:
        settings: How it is recorded.
        cwd: Its working directory at the start.
        states: States of the generators when the hooks went in.
        seeded: Setters that were called.
    """
    found: list[Setting] = []
    try:
        of_trial = settings.trial is not None
        files.look(last=True)
        paths, folders, told = files.opened(settings.run)  # before we look around ourselves
        found.extend((*worker_seeds.settings(told), *worker_threads.settings(told)))
        keeper = Keeper(Path(settings.run), on=settings.options.keep_data and not of_trial)
        if states is not None:
            found.extend(states.settings(seeded, keeper))
        found.extend(_of_trial() if of_trial else _of_run(settings, Path(cwd), keeper, paths, folders))
    except Exception:  # nothing here may cost the recording
        return tuple(found)
    return tuple(found)


def _of_trial() -> Iterator[Setting]:
    for name, word in not_as_expected():
        layer, _, knob = name.partition(".")
        yield setting(Layer(layer), knob, word, resolved=True)


def _of_run(
    settings: Settings,
    cwd: Path,
    keeper: Keeper,
    read: dict[str, tuple[int, int] | None],
    folders: dict[str, list[str] | None],
) -> Iterator[Setting]:
    declared = [cwd / s.value for s in settings.outside if s.layer is Layer.DATASET and DECLARED.fullmatch(s.knob)]
    paths = dict.fromkeys([*read, *(str(path) for place in declared for path in files_below(place))])
    run = f"{settings.run}{os.sep}"
    wanted = [path for path in paths if not path.startswith(run)]
    own = frozenset(files.written())
    overwritten = files.overwritten()
    yield from read_files(wanted, cwd, keeper, states=read, overwritten=overwritten)
    by_libraries = files.opened_by_libraries()
    for path in wanted:
        how = "by a library itself" if path in by_libraries else "" if path in read else "not seen, but declared"
        if how:
            yield setting(Layer.DATASET, f"{OPENED_BY}{name_of(path, cwd)}", how, resolved=True)
    listed = {path: names for path, names in folders.items() if not f"{path}{os.sep}".startswith(run)}
    yield from read_listings(listed, cwd, keeper, own)  # what spawned ranks look up in the run itself is ours
    known = paths.keys() | own | {os.path.abspath(sys.argv[0])}  # noqa: PTH100 - links are the user's
    named = [p for p in named_files(settings.command, cwd, paths) if p not in known and _is_older(p, run)]
    yield from read_files(named, cwd, keeper, kind=NAMED)


def _is_older(path: str, run: str) -> bool:
    """Whether a file was there before the process began, as it is now, and is none of ours."""
    state = files.state_of(path)
    return state is not None and state[0] < files.began() * 1e9 and not path.startswith(run)
