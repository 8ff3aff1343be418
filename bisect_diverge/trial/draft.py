"""What a trial is made of while it is put together: A's command and surroundings, which each swap changes in turn."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bisect_diverge.environment.apply import LAUNCHED, given_variables
from bisect_diverge.environment.variables import layer_of
from bisect_diverge.record.settings import VARIABLE
from bisect_diverge.trial.command import take_apart
from bisect_diverge.trial.interpreters import program_of
from bisect_diverge.trial.packages import entries
from bisect_diverge.trial.units import PYTHONPATH, is_launched, path_of

if TYPE_CHECKING:
    from pathlib import Path

    from bisect_diverge.model.run import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The two recorded runs, and how far they are run again."""

    a: RunRecord
    b: RunRecord
    last_step: int
    """Last step that a trial runs."""
    image_cmd: str = ""
    """What starts a command in a container image, with ``{image}`` in it; empty: not known."""
    moving: tuple[str, ...] = ()
    """Setters that the script gives another seed in every process, as replays of A have shown: held at A's."""
    lent: bool = False
    """Whether the trial finds what B alone has read though it is hidden or gone: it fails without."""
    stale: bool = False
    """Whether trials find what A prepared and what is another file now: A fails where it has to make it again."""


@dataclass(slots=True, kw_only=True)
class Draft:
    """A trial that is being put together. Each swap changes what is its own."""

    folder: Path
    """Directory of the trial; a swap may make files and folders of its own there."""
    command: tuple[str, ...]
    """Program and arguments."""
    variables: dict[str, str]
    """All variables but ``PYTHONPATH`` and ours."""
    search_path: list[str]
    """Entries of ``PYTHONPATH``, absolute."""
    cwd: str
    """Working directory."""
    python: str
    """Absolute path of the interpreter."""
    pins: dict[str, str] = field(default_factory=dict)
    """``layer.knob`` to the value that is held inside the process (`record.overrides`)."""
    paths: dict[str, str] = field(default_factory=dict)
    """Absolute path of a file or folder to the one that the process gets instead of it (`record.divert`)."""
    listings: dict[str, list[str]] = field(default_factory=dict)
    """Absolute path of a folder to the names in it, in the order in which the process gets them."""
    hidden: set[str] = field(default_factory=set)
    """Absolute paths that the process must not see."""
    expected: dict[str, list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))
    """Absolute path to pairs of ``layer.knob`` and a word of `record.divert`: told in the trial where it is so."""
    sites: dict[str, str] = field(default_factory=dict)
    """Directory of installed packages to the one that is searched instead of it."""
    roots: dict[str, str] = field(default_factory=dict)
    """Directory of the user's to the one that takes its place (`trial.relocate`)."""
    above: dict[str, str] = field(default_factory=dict)
    """Folders above such a directory to those above the other: what lies beside it is linked there."""
    processors: tuple[int, ...] = ()
    """Processors that it may run on; empty: those that we may."""
    inherited: dict[str, int] = field(default_factory=dict)
    """``umask`` and limits of the operating system that it has; those that are not named are ours."""
    prefix: tuple[str, ...] = ()
    """What stands before the command: it starts a container, say."""


def draft_of_a(sides: Sides, folder: Path) -> Draft:
    """Return the draft of a trial in which nothing is swapped.

    Raises:
        ReplayError: if A's command cannot be run again.
    """
    variables = variables_of_a(sides)
    variables.pop(PYTHONPATH, None)
    return Draft(
        folder=folder,
        command=take_apart(sides.a).tokens(),
        variables=variables,
        search_path=list(entries(path_of(sides.a), sides.a.cwd)),
        cwd=sides.a.cwd,
        python=program_of(sides.a),
    )


def variables_of_a(sides: Sides) -> dict[str, str]:
    """Return the present variables, those that are recorded replaced by what A was recorded with."""
    of_a, of_b = given_variables(sides.a.environment), given_variables(sides.b.environment)
    masked = {s.knob for s in sides.a.environment.settings if s.masked}
    known = {name for name in os.environ if layer_of(name) is not None} | of_a.keys() | of_b.keys()
    keep = masked | LAUNCHED if is_launched(take_apart(sides.a)) else masked
    variables = {n: v for n, v in os.environ.items() if n != VARIABLE and (n not in known or n in keep)}
    return variables | {name: value for name, value in of_a.items() if name not in keep}
