"""The interpreter: that of the run, by its path, whatever the name in the command leads to now."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.trial.interpreters import EXECUTABLE, value_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.model.run import RunRecord
    from bisect_diverge.model.trial import Unit
    from bisect_diverge.trial.draft import Draft, Sides

_PYTHON = re.compile(r"(python|pypy)[0-9.]*")


def swap(sides: Sides, units: Sequence[Unit], draft: Draft) -> Draft:
    """Start the command with B's interpreter, or with the one that A had."""
    program = next((unit.b for unit in units if unit.b), "") or value_of(sides.a, EXECUTABLE)
    if not program or (not units and _is_the_same(sides.a, draft)) or not (draft.prefix or Path(program).exists()):
        return draft
    draft.python = program
    draft.command = (_in_place_of(draft.command[0], program), *draft.command[1:])
    folder = os.path.dirname(program)  # noqa: PTH120 - the path as it was recorded
    if units:  # what the script starts by name is B's as well
        draft.variables["PATH"] = os.pathsep.join(filter(None, (folder, draft.variables.get("PATH", ""))))
        if (Path(folder).parent / "pyvenv.cfg").is_file():
            draft.variables["VIRTUAL_ENV"] = str(Path(folder).parent)
    return draft


def _is_the_same(a: RunRecord, draft: Draft) -> bool:
    """Whether the first word of the command leads to the interpreter that A was recorded with, or is none."""
    word = Path(draft.command[0])
    return _PYTHON.fullmatch(word.name) is None or shutil.which(word) == value_of(a, EXECUTABLE)


def _in_place_of(word: str, program: str) -> str:
    """Return B's program for A's: the interpreter itself, or the script of that name that is installed beside it."""
    name = Path(word).name
    if _PYTHON.fullmatch(name):
        return program
    beside = Path(program).parent / name
    return str(beside) if beside.is_file() else word
