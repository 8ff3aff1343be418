"""What a Python interpreter on this machine is, and where it looks for packages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.model.environment import Layer

if TYPE_CHECKING:
    from bisect_diverge.model.run import RunRecord

EXECUTABLE = "python.executable"
"""Knob of the interpreter's path."""
VERSION = "python.version"
IMPLEMENTATION = "python.implementation"
_ASK = """
import json, sys
mapped = [getattr(m, "MAPPING", None) for n, m in list(sys.modules.items()) if n.startswith("__editable__")]
edited = [str(path).rpartition("/")[0] for mapping in mapped if isinstance(mapping, dict) for path in mapping.values()]
release = "" if sys.version_info.releaselevel == "final" else sys.version_info.releaselevel
version = ".".join(map(str, sys.version_info[:3])) + release
print(json.dumps([version, sys.path, edited]))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter."""

    path: str
    """Its program."""
    version: str
    """As the setting ``python.version`` has it."""
    search_path: tuple[str, ...]
    """Directories that are searched after those of ``PYTHONPATH``."""
    edited: tuple[str, ...]
    """Directories of packages that are installed to be edited."""

    @property
    def minor(self) -> str:
        """The part of the version that compiled packages depend on."""
        return minor(self.version)


def minor(version: str) -> str:
    """Return the part of a version of Python that compiled packages depend on: ``3.12`` of ``3.12.4``."""
    return ".".join(version.split(".")[:2])


@lru_cache(maxsize=16)
def interpreter_at(program: str) -> Interpreter | None:
    """Return what an interpreter is; None if it does not run.

    Args:
        program: Its path.
    """
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    try:
        done = subprocess.run(
            [program, "-c", _ASK], cwd="/", env=variables, capture_output=True, text=True, timeout=60, check=False
        )
        version, path, edited = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    places = [entry for entry in path if entry.startswith("/") and Path(entry).is_dir()]
    return Interpreter(program, version, tuple(dict.fromkeys(places)), tuple(dict.fromkeys(edited)))


def value_of(record: RunRecord, knob: str) -> str:
    """Return the value of a runtime setting; empty if the run has none."""
    return record.environment.value(Layer.RUNTIME, knob) or ""


def program_of(record: RunRecord) -> str:
    """Return the path of the interpreter that a run was recorded with, as far as it is known."""
    first = record.command[0] if record.command else ""
    return value_of(record, EXECUTABLE) or shutil.which(first) or first


def interpreter_of(record: RunRecord) -> Interpreter | None:
    """Return the interpreter that a run was recorded with; None where it is not on this machine, or another now."""
    found = interpreter_at(program_of(record))
    recorded = value_of(record, VERSION)
    return None if found is None or (recorded and found.version != recorded) else found


def move_together(a: RunRecord, b: RunRecord) -> bool:
    """Whether the packages move with the interpreter: compiled ones of one version of Python do not run in another."""
    versions = [value_of(record, VERSION) for record in (a, b)]
    kinds = {value_of(record, IMPLEMENTATION) for record in (a, b)} - {""}
    return all(versions) and (len({minor(version) for version in versions}) > 1 or len(kinds) > 1)


def why_not_interpreter(a: RunRecord, b: RunRecord) -> str:
    """Return why B's interpreter cannot be taken; empty if it can."""
    for name, record in (("A", a), ("B", b)):
        program = program_of(record)
        found = interpreter_at(program)
        if found is None:
            return f"the interpreter of {name} is not on this machine: {program}"
        if interpreter_of(record) is None:
            return f"the interpreter of {name} is another now: {program} is Python {found.version}"
    return "" if program_of(a) != program_of(b) else "the program is the same in both runs"
