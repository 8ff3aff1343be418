"""Environment variables that a script asks for by name: ``os.environ["MIXUP"]``, ``os.getenv("MIXUP")``.

They are settings of the script as its flags are, though no table knows their names. Found by reading its files and the
modules beside it, not by running them: a name that is made up at run time is not seen. Only these names are added, so
that the environment is still never recorded as a whole.
"""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.environment.local import LARGEST_FILE, local_files
from bisect_diverge.environment.source import script_of
from bisect_diverge.environment.variables import is_excluded, layer_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST_FILES = 200
"""Files that are read, the script first: some milliseconds each before the run begins."""

SESSION = frozenset(
    {
        "CI",
        "COLUMNS",
        "CONDA_EXE",
        "CONDA_PREFIX",
        "DISPLAY",
        "HOME",
        "HOSTNAME",
        "LINES",
        "LOGNAME",
        "OLDPWD",
        "PATH",
        "PWD",
        "SHELL",
        "TEMP",
        "TERM",
        "TMP",
        "TMPDIR",
        "USER",
        "VIRTUAL_ENV",
        "JOB_ID",
        "LSB_JOBID",
        "MASTER_ADDR",
        "MASTER_PORT",
        "PBS_JOBID",
        "SLURM_JOB_ID",
        "SLURM_JOBID",
        "SLURM_LOCALID",
        "SLURM_NODEID",
        "SLURM_PROCID",
        "SLURM_TMPDIR",
    }
)
"""Variables of one login, terminal or job: they differ between almost any two runs, and are no settings of a script."""

_READ = re.compile(
    rb"""(?: environ \s* \[ \s* | environ \s* \. \s* (?:get|pop|setdefault) \s* \( \s* | getenvb? \s* \( \s* )
    b?["'] ([A-Za-z_]\w*) ["'] (?! \s* \] \s* = [^=] )""",
    re.VERBOSE,
)
"""A name that is only written, ``environ["X"] = ...``, is no input."""
_ASKED = re.compile(rb"""["']([A-Za-z_]\w*)["']\s+(?:not\s+)?in\s+(?:os\s*\.\s*)?environ\b""")


def variables_named(cwd: Path, command: Sequence[str]) -> tuple[str, ...]:
    """Return the names of variables that a script reads and that are on no list, sorted.

    Args:
        cwd: Working directory of the run.
        command: The recorded command.
    """
    try:
        script = script_of(cwd, command)
        if script is None:
            return ()
        files = local_files(script, cwd, MOST_FILES)
    except (OSError, ValueError):
        return ()
    found = {name for path in islice(files, MOST_FILES) for name in _names(path)}
    return tuple(sorted(n for n in found - SESSION if layer_of(n) is None and not is_excluded(n)))


def _names(path: Path) -> Iterator[str]:
    try:
        if path.stat().st_size > LARGEST_FILE:
            return
        content = path.read_bytes()
    except OSError:
        return
    for pattern in (_READ, _ASKED):
        yield from (name.decode() for name in pattern.findall(content))
