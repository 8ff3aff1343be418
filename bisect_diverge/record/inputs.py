"""What the process has read: told at its end, so that reading and hashing take no time from the training."""

from __future__ import annotations

import os
from collections.abc import Iterator, Set
from pathlib import Path

from bisect_diverge.environment.dataset import DECLARED, files_below
from bisect_diverge.environment.inputs import Keeper, read_files, read_listings
from bisect_diverge.environment.knobs import setting
from bisect_diverge.model.environment import Layer, Setting
from bisect_diverge.record import files
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
        paths, folders = files.opened()  # before we look around ourselves
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
    settings: Settings, cwd: Path, keeper: Keeper, paths: list[str], folders: dict[str, list[str] | None]
) -> Iterator[Setting]:
    declared = [cwd / s.value for s in settings.outside if s.layer is Layer.DATASET and DECLARED.fullmatch(s.knob)]
    paths = [*paths, *(str(path) for place in declared for path in files_below(place))]
    run = f"{settings.run}{os.sep}"
    wanted = [path for path in dict.fromkeys(paths) if not path.startswith(run)]
    yield from read_files(wanted, cwd, keeper)
    yield from read_listings(folders, cwd, keeper, frozenset(files.written()))
