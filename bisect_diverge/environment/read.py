"""Reads the environment of a run: outside, at the start inside, and again at the end."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.environment import (
    configuration,
    dataset,
    dependencies,
    hardware,
    kernels,
    modules,
    runtime,
    seeds,
    source,
    variables,
)
from bisect_diverge.environment import (
    features as feature_files,
)
from bisect_diverge.environment.given import as_given, remember
from bisect_diverge.environment.knobs import UNSET, Knob, read_table, setting
from bisect_diverge.model.environment import Layer, Setting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

AT_END = "@end"
"""Suffix of a knob whose value changed while the run went on."""

TABLES: dict[Layer, tuple[Knob, ...]] = {
    Layer.RUNTIME: runtime.KNOBS,
    Layer.HARDWARE: hardware.KNOBS,
    Layer.KERNELS: kernels.KNOBS,
    Layer.SEEDS: seeds.KNOBS,
}
"""Every knob that is read inside the process, by layer."""


def read_outside(
    cwd: Path,
    command: Sequence[str],
    data: Sequence[Path] = (),
    features: Sequence[Path] = (),
    extra_names: Sequence[str] = (),
) -> tuple[tuple[Setting, ...], bytes | None]:
    """Return what the parent process can see of a run before it starts, and the patch of uncommitted changes.

    Args:
        cwd: Directory in which the command will run.
        command: The command.
        data: Declared files and directories of the dataset.
        features: Declared files and directories of the feature logic.
        extra_names: Variables that the user asks for beyond the allow-list; what the process itself sees
        replaces
            these.

    Returns:
        The settings, and the patch to be saved as ``source.patch``; None when there is none to save.
    """
    patch: bytes | None = None
    found: list[Setting] = []
    try:
        found, patch = source.read_outside(cwd, command)
    except Exception as error:  # a run is recorded whatever its directory is like
        found = [setting(Layer.SOURCE, "repository", f"not read: {error}", resolved=False)]
    found += _all(lambda: configuration.read_files(command, cwd))
    found += _all(lambda: dataset.read_outside(cwd, data))
    found += _all(lambda: feature_files.read_outside(cwd, features))
    extra = {name: value for name, value in os.environ.items() if variables.layer_of(name) is None}
    found += _all(lambda: variables.read(extra, extra, extra_names))
    return tuple(found), patch


def read_inside(
    extra_names: Sequence[str] = (),
    given: Mapping[str, str] | None = None,
    command: Sequence[str] = (),
    asked: Mapping[str, str] | None = None,
) -> tuple[Setting, ...]:
    """Return what the training process can see at the start of the recording.

    Args:
        extra_names: Variables that the user asks for beyond the allow-list.
        given: The variables that the process was started with, if the caller has a copy; else they are found
        out.
        command: The recorded command, which may be a launcher's.
        asked: The variables that the command was started with, if that is known: what a launcher has set for this
            process is not requested, but comes of the launcher's options.
    """
    if given is not None:
        remember(given)
    modules.remember_main()
    now = dict(os.environ)
    found = _all(configuration.read)
    found += _all(lambda: configuration.read_launcher(command))
    found += _all(lambda: variables.read((as_given() or now) if asked is None else asked, now, extra_names))
    found += _all(dependencies.read)
    found += _inside()
    return tuple(found)


def read_again(start: Sequence[Setting], cwd: Path | None = None, code: Iterable[str] = ()) -> tuple[Setting, ...]:
    """Return what changed since the start (knobs with the suffix ``@end``) and the modules that were loaded.

    Args:
        start: What `read_inside` returned.
        cwd: Working directory at the start; None: the present one.
        code: Absolute paths of code that was read as text.
    """
    before = {(s.layer, s.knob): s.value for s in sorted(start, key=lambda s: s.resolved)}
    found = [
        setting(row.layer, row.knob + AT_END, row.value, resolved=True)
        for row in _all(lambda: _variables_now(start)) + _inside()
        if before.get((row.layer, row.knob), UNSET) != row.value
    ]
    found += _all(lambda: modules.read_modules(cwd or Path.cwd(), code))
    found += _all(lambda: configuration.written_files(sys.argv, cwd or Path.cwd()))
    return tuple(found)


def _inside() -> list[Setting]:
    found: list[Setting] = []
    for layer, table in TABLES.items():
        found += _all(functools.partial(read_table, layer, table))
    found += _all(hardware.read_libraries)
    found += _all(kernels.read_libraries)
    return found


def _variables_now(start: Sequence[Setting]) -> Iterable[Setting]:
    """Yield the present value of each variable that is on the allow-list or was recorded at the start."""
    asked = {s.knob for s in start if s.layer is Layer.CONFIGURATION and s.knob.isidentifier()}
    for name in sorted({*os.environ, *(s.knob for s in start)}):
        layer = variables.layer_of(name, (name,) if name in asked else ())
        if layer is not None:
            yield variables.variable_setting(layer, name, os.environ.get(name, UNSET), resolved=True)


def _all(read: Callable[[], Iterable[Setting]]) -> list[Setting]:
    """Return everything that a reader yields; what it yielded before it failed counts."""
    found: list[Setting] = []
    try:
        found.extend(read())
    except Exception:  # nothing here may end the user's run
        return found
    return found
