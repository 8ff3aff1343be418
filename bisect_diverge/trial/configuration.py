"""Makes a configuration of two runs into a command: A's environment with some units at B's values."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.environment.apply import LAUNCHED, Way, given_variables, rule_for
from bisect_diverge.environment.variables import layer_of
from bisect_diverge.model.run import Capture, RecordOptions, Written
from bisect_diverge.record.bootstrap import DIRECTORY, environment_for
from bisect_diverge.record.divert import VIEW
from bisect_diverge.record.settings import VARIABLE, Settings, TrialSettings
from bisect_diverge.trial.command import mixed, take_apart
from bisect_diverge.trial.packages import build, entries, find, only, versions
from bisect_diverge.trial.runner import Launch
from bisect_diverge.trial.units import PYTHONPATH, is_launched, package_differences, path_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bisect_diverge.model.run import RunRecord
    from bisect_diverge.model.trial import Unit

OFFLINE = {"WANDB_MODE": "offline", "NEPTUNE_MODE": "offline", "COMET_START_ONLINE": "0"}
"""Trackers: what a trial reports is nobody's business."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The two recorded runs, and how far they are run again."""

    a: RunRecord
    b: RunRecord
    last_step: int
    """Last step that a trial runs."""


def launch(sides: Sides, swapped: Iterable[Unit], folder: Path) -> Launch:
    """Return what to start for a configuration.

    Args:
        sides: The two runs.
        swapped: Units at B's values.
        folder: Directory of the trial; gets the folder ``run`` for the recording, and those that the process needs.

    Raises:
        CannotBuildError: if something of it cannot be made here.
        ReplayError: if a recorded command cannot be run again.
    """
    by_way: dict[Way, list[Unit]] = {way: [] for way in Way}
    for unit in swapped:
        by_way[rule_for(unit.layer, unit.knob).way].append(unit)
    command = mixed(
        take_apart(sides.a),
        take_apart(sides.b),
        {unit.knob: unit.b for unit in (*by_way[Way.ARGUMENT], *by_way[Way.LAUNCHER])},
    )
    variables = _variables(sides, by_way[Way.VARIABLE])
    path = _search_path(sides, {unit.knob: unit.b or "" for unit in by_way[Way.PACKAGE]}, command[0], folder)
    if any(unit.knob == PYTHONPATH for unit in by_way[Way.VARIABLE]):
        path = list(dict.fromkeys((*path, *entries(path_of(sides.b), sides.b.cwd))))
    variables.pop(PYTHONPATH, None)
    if path:
        variables[PYTHONPATH] = os.pathsep.join(path)
    _write_view(sides, folder)
    settings = _settings(sides, command, by_way[Way.HELD], folder)
    affinity = next((int(unit.b or 0) for unit in by_way[Way.AFFINITY]), 0)
    return Launch(
        command=command,
        environment=environment_for(settings, variables | _apart(folder, variables)),
        cwd=sides.a.cwd,
        processors=tuple(sorted(os.sched_getaffinity(0))[:affinity]),
    )


def check(record: RunRecord) -> str:
    """Return why a recorded command cannot be started here; empty if it can."""
    if not Path(record.cwd).is_dir():
        return f"the directory in which it was recorded is gone: {record.cwd}"
    command = take_apart(record)
    program = command.tokens()[0]
    if shutil.which(program) is None and not (Path(record.cwd) / program).is_file():
        return f"the program of the recorded command is gone: {program}"
    script = Path(record.cwd) / command.program
    if command.program.endswith(".py") and not script.is_file():
        return f"the script is gone: {script}"
    return ""


def recorded_variables(a: RunRecord, b: RunRecord) -> dict[str, str]:
    """Return those variables of a trial with nothing swapped that were recorded, or that the user asked for."""
    sides = Sides(a=a, b=b, last_step=0)
    asked = {s.knob for r in (a, b) for s in r.environment.settings if not s.resolved}
    return {n: v for n, v in _variables(sides, ()).items() if n in asked or layer_of(n) is not None}


def _variables(sides: Sides, swapped: Iterable[Unit]) -> dict[str, str]:
    """Return the present variables, those that are recorded replaced by what A was recorded with."""
    of_a, of_b = given_variables(sides.a.environment), given_variables(sides.b.environment)
    masked = {s.knob for s in sides.a.environment.settings if s.masked}
    known = {name for name in os.environ if layer_of(name) is not None} | of_a.keys() | of_b.keys()
    keep = masked | LAUNCHED if is_launched(take_apart(sides.a)) else masked
    variables = {n: v for n, v in os.environ.items() if n != VARIABLE and (n not in known or n in keep)}
    variables |= {name: value for name, value in of_a.items() if name not in keep}
    for unit in swapped:
        if unit.b is None:
            variables.pop(unit.knob, None)
        else:
            variables[unit.knob] = unit.b
    return variables


def _search_path(sides: Sides, swapped: dict[str, str], interpreter: str, folder: Path) -> list[str]:
    """Return the ``PYTHONPATH`` with which the swapped packages are found in B's version and the others in A's."""
    of_a = list(entries(path_of(sides.a), sides.a.cwd))
    of_b = entries(path_of(sides.b), sides.b.cwd)
    differ = {d.knob for d in package_differences(sides.a, sides.b)}
    first: list[str] = []
    chosen: dict[str, list[str]] = {}
    for name, version in sorted(swapped.items()):
        place = find(name, version, of_b) or build(name, version, _interpreter(interpreter))
        chosen.setdefault(place, []).append(name)
    for place, names in chosen.items():
        others = versions(place).keys() & differ - set(names)
        first.append(only(names, place, folder) if others else place)
    gone = [e for e in of_a if e not in of_b and (here := versions(e).keys() & differ) and here <= swapped.keys()]
    return list(dict.fromkeys((*first, *(entry for entry in of_a if entry not in gone))))


def _interpreter(program: str) -> str:
    return shutil.which(program) or program


def _settings(sides: Sides, command: tuple[str, ...], held: Iterable[Unit], folder: Path) -> Settings:
    first = sides.a.options.steps[0] if sides.a.options.steps else 0
    run = folder / "run"
    run.mkdir(parents=True, exist_ok=True)
    names = {s.knob for r in (sides.a, sides.b) for s in r.environment.settings if not s.resolved}
    return Settings(
        run=str(run),
        command=command,
        cwd=sides.a.cwd,
        options=RecordOptions(
            capture=Capture.DIGEST, steps=(first, sides.last_step + 1), modules=sides.a.options.modules
        ),
        env_names=tuple(sorted(n for n in names if n.isidentifier() and layer_of(n) is None and n in os.environ)),
        bootstrap=str(DIRECTORY),
        trial=TrialSettings(
            stop_after_step=sides.last_step,
            pins=tuple((f"{unit.layer}.{unit.knob}", unit.b or "") for unit in held),
            scratch=str(folder),
        ),
    )


def _write_view(sides: Sides, folder: Path) -> None:
    remade = sorted(_made(sides.a, Written.PREPARED) | _made(sides.b, Written.PREPARED))
    (folder / "files").mkdir(exist_ok=True)
    (folder / VIEW).write_text(json.dumps({"hidden": hidden(sides), "remade": remade}), encoding="utf-8")


def hidden(sides: Sides) -> tuple[str, ...]:
    """Return the files that a trial must not find: outputs of one of the runs that are no input of the other."""
    found = set()
    for mine, other in ((sides.a, sides.b), (sides.b, sides.a)):
        tokens = [os.path.join(other.cwd, t.rpartition("=")[2]) for t in other.command]  # noqa: PTH118
        inputs = {os.path.normpath(token) for token in tokens} - other.written.keys()
        found |= _made(mine, Written.OUTPUT) - inputs
    return tuple(sorted(found))


def _made(record: RunRecord, how: Written) -> set[str]:
    return {path for path, word in record.written.items() if word == how}


def _apart(folder: Path, variables: dict[str, str]) -> dict[str, str]:
    """Return variables that keep a trial from what is the user's: caches, temporary files, trackers."""
    places = {
        "TORCHINDUCTOR_CACHE_DIR": folder / "inductor",
        "TRITON_CACHE_DIR": folder / "triton",
        "TMPDIR": folder / "tmp",
        "WANDB_DIR": folder / "tmp",
    }
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    apart = {name: str(place) for name, place in places.items()} | {"PYTHONDONTWRITEBYTECODE": "1"}
    return apart | {name: value for name, value in OFFLINE.items() if name not in variables}
