"""What lies about a trial: the present files and variables that make it another trial, and what has changed since."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.environment.configuration import WRITTEN
from bisect_diverge.environment.hashing import hash_file
from bisect_diverge.environment.inputs import kept
from bisect_diverge.environment.source import script_of
from bisect_diverge.model.environment import Layer
from bisect_diverge.trial.command import take_apart
from bisect_diverge.trial.configuration import recorded_variables
from bisect_diverge.trial.loaded import is_restored, rows_of
from bisect_diverge.trial.source_units import restorable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bisect_diverge.model.run import RunRecord

MOST_NAMED = 3
"""So many changed files are named."""
_PREFIXES: dict[Layer, tuple[str, ...]] = {Layer.SOURCE: ("file:", "module:")}
_PREFIXES |= dict.fromkeys((Layer.CONFIGURATION, Layer.DATASET, Layer.FEATURES), ("file:",))


def circumstances(a: RunRecord, b: RunRecord) -> str:
    """Return a name of everything, beside the units, that is known to matter to the trials of two runs.

    That is: the commands and all settings that were recorded as requested, the present contents of the scripts, of the
    modules and of the configuration files that the runs are recorded with, and the variables that a trial gets.
    """
    known: list[object] = []
    for record in (a, b):
        files = {str(path) for _, path, _ in _recorded_files(record)}
        files |= {str(path) for path in _scripts(record)}
        requested = sorted([str(s.layer), s.knob, s.value] for s in record.environment.settings if not s.resolved)
        known += [record.command, record.cwd, requested, [(path, _hash(Path(path))) for path in sorted(files)]]
    known.append(sorted(recorded_variables(a, b).items()))
    return hashlib.blake2b(json.dumps(known).encode(), digest_size=16).hexdigest()


def changed_files(record: RunRecord) -> str:
    """Return a sentence that names the script, modules and files that are not as they were recorded; empty if all are.

    Not named are files that a trial has as they were: from a copy in the run, or from the repository.

    Args:
        record: The baseline.
    """
    if not Path(record.cwd).is_dir():  # moved, or of another machine: that is said for itself
        return ""
    changed = {name: value for name, path, value in _recorded_files(record) if _hash(path) != value}
    loaded = rows_of(record)
    unkept = [
        name
        for name, value in changed.items()
        if kept(record.place, value) is None or (name in loaded and not is_restored(record, name, value))
    ]
    back = restorable(record) if unkept else frozenset()
    names = [name for name in unkept if name not in back]
    if not names:
        return ""
    more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
    words = [*names[:MOST_NAMED], *more]
    listed = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
    return f"{listed} {'has' if len(names) == 1 else 'have'} changed since A was recorded"


def _recorded_files(record: RunRecord) -> Iterator[tuple[str, Path, str]]:
    """Yield name, path and recorded hash of each file that the run was recorded with, but those that it wrote."""
    written = {s.knob for s in record.environment.settings if s.value == WRITTEN}
    for setting in record.environment.settings:
        for prefix in _PREFIXES.get(setting.layer, ()):
            if setting.knob.startswith(prefix) and setting.knob not in written and setting.value.startswith("xxh3:"):
                name = setting.knob.removeprefix(prefix)
                yield name, Path(record.cwd) / name, setting.value


def _scripts(record: RunRecord) -> Iterator[Path]:
    """Yield the script of a command, by its path or as the module after ``-m``."""
    cwd = Path(record.cwd)
    script = script_of(cwd, record.command)
    if script is not None:
        yield script
    program = take_apart(record).program
    if program:
        yield cwd / program


def _hash(path: Path) -> str:
    try:
        return hash_file(path)
    except OSError:
        return ""
