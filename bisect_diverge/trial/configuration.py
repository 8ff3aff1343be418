"""Makes a configuration of two runs into a command: A's environment with some units at B's values."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.environment.apply import Way, rule_for
from bisect_diverge.environment.hashing import hash_bytes
from bisect_diverge.environment.variables import layer_of
from bisect_diverge.model.run import Capture, RecordOptions, Written
from bisect_diverge.record.bootstrap import DIRECTORY, environment_for
from bisect_diverge.record.settings import Settings, TrialSettings
from bisect_diverge.trial.command import take_apart
from bisect_diverge.trial.draft import Draft, Sides, draft_of_a, variables_of_a
from bisect_diverge.trial.outputs import hidden, made
from bisect_diverge.trial.relocate import both, relocated
from bisect_diverge.trial.runner import Launch
from bisect_diverge.trial.scratch import apart, write_view
from bisect_diverge.trial.source_units import restorable
from bisect_diverge.trial.swaps import SWAPS
from bisect_diverge.trial.units import PYTHONPATH, is_launched

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bisect_diverge.model.run import RunRecord
    from bisect_diverge.model.trial import Unit


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
    draft = draft_of_a(sides, folder)
    for row in SWAPS:
        draft = row.swap(sides, [unit for way in row.ways for unit in by_way[way]], draft)
    draft = relocated(draft)
    variables = dict(draft.variables)
    if draft.search_path:
        variables[PYTHONPATH] = os.pathsep.join(draft.search_path)
    _write_view(sides, draft)
    return Launch(
        command=(*draft.prefix, *draft.command),
        environment=environment_for(_settings(sides, draft), variables | apart(folder, variables) | _extensions(draft)),
        cwd=draft.cwd,
        processors=draft.processors,
        inherited=draft.inherited,
    )


def _extensions(draft: Draft) -> dict[str, str]:
    """Return where torch compiles extensions: once for each directory and interpreter, and never into the user's cache.

    Trials of one search with the same source share them, for compiling takes minutes; ninja sees what has changed.
    """
    name = hash_bytes(f"{draft.cwd} {draft.python}".encode(errors="surrogateescape")).rpartition(":")[2][:16]
    return {"TORCH_EXTENSIONS_DIR": str(draft.folder.parent / "extensions" / name)}


def check(record: RunRecord, *, in_image: bool = False) -> str:
    """Return why a recorded command cannot be started here; empty if it can.

    Args:
        record: The baseline.
        in_image: It is started in a container image, whose programs are not here.
    """
    if not Path(record.cwd).is_dir():
        return f"the directory in which it was recorded is gone: {record.cwd} (a link to where it is now will do)"
    command = take_apart(record)
    program = command.tokens()[0]
    if not in_image and shutil.which(program) is None and not (Path(record.cwd) / program).is_file():
        return f"the program of the recorded command is gone: {program}"
    script = Path(record.cwd) / command.program
    if command.program.endswith(".py") and not script.is_file() and not _is_restored(record, command.program):
        return f"the script is gone: {script}"
    return ""


def missing_ranks(record: RunRecord, ranks: int) -> str:
    """Return why a trial cannot start all ranks of a run; empty if it can.

    Args:
        record: The baseline.
        ranks: How many of them the recording has.
    """
    if record.world_size <= ranks or is_launched(take_apart(record)):
        return ""
    others = record.world_size - ranks
    return (
        f"the recorded command started {ranks} of {record.world_size} ranks, so that trials would wait for the "
        f"other {others} for ever"
    )


def _is_restored(record: RunRecord, program: str) -> bool:
    names = {program, os.path.relpath(Path(record.cwd) / program, record.cwd)}
    return not names.isdisjoint(restorable(record))


def recorded_variables(a: RunRecord, b: RunRecord) -> dict[str, str]:
    """Return those variables of a trial with nothing swapped that were recorded, or that the user asked for."""
    sides = Sides(a=a, b=b, last_step=0)
    asked = {s.knob for r in (a, b) for s in r.environment.settings if not s.resolved}
    return {n: v for n, v in variables_of_a(sides).items() if n in asked or layer_of(n) is not None}


def _settings(sides: Sides, draft: Draft) -> Settings:
    first = sides.a.options.steps[0] if sides.a.options.steps else 0
    run = draft.folder / "run"
    run.mkdir(parents=True, exist_ok=True)
    names = {s.knob for r in (sides.a, sides.b) for s in r.environment.settings if not s.resolved}
    return Settings(
        run=str(run),
        command=draft.command,
        cwd=draft.cwd,
        options=RecordOptions(
            capture=Capture.DIGEST,
            steps=(first, sides.last_step + 1),
            modules=sides.a.options.modules,
            step_on=sides.a.options.step_on,
        ),
        env_names=tuple(sorted(n for n in names if n.isidentifier() and layer_of(n) is None and n in draft.variables)),
        bootstrap=str(DIRECTORY),
        trial=TrialSettings(
            stop_after_step=sides.last_step,
            pins=tuple(draft.pins.items()),
            scratch=str(draft.folder),
        ),
    )


def _write_view(sides: Sides, draft: Draft) -> None:
    remade = made(sides.a, Written.PREPARED) | made(sides.b, Written.PREPARED)
    inputs = {"paths": draft.paths, "listings": draft.listings, "expected": draft.expected, "sites": draft.sites}
    roots = draft.above | draft.roots
    write_view(draft.folder, both(draft.hidden.union(hidden(sides)), roots), both(remade, roots), inputs)
