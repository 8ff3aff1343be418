"""Commands that a bisection's report prints: what to change, and how to run a trial again."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.environment.inputs import kept
from bisect_diverge.environment.modules import MODULE
from bisect_diverge.environment.secrets import MASKED
from bisect_diverge.environment.seeds import FAMILIES, by_rank, calls_in, is_fresh, rank_of
from bisect_diverge.model.environment import Layer
from bisect_diverge.report.words import in_files, printable
from bisect_diverge.trial.loaded import LOADED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bisect_diverge.model.trial import Unit

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_VERSION = re.compile(r"[0-9][0-9A-Za-z.+!_-]*")
_ARGUMENT = "argv."
_COMMIT = re.compile(r"[0-9a-f]{6,40}")
_SHORT = 12
"""Characters of the name of an object of git that are shown."""
_FILE, _LISTING = "file:", "listing:"


def fix_command(unit: Unit, whole: Unit | None = None, place: str = "") -> str:
    """Return what to do so that a unit has A's value: a command where there is one.

    Args:
        unit: The unit.
        whole: What it is part of.
        place: A's directory; empty, or no directory here: what was kept in it is not known.
    """
    if unit.knob.startswith(_ARGUMENT):
        return _argument(unit.knob.removeprefix(_ARGUMENT), unit.a)
    if _VARIABLE.fullmatch(unit.knob):
        return f"unset {unit.knob}" if unit.a is None else f"export {unit.knob}={shlex.quote(printable(unit.a))}"
    if unit.layer is Layer.DEPENDENCIES and (unit.a is None or _VERSION.fullmatch(unit.a)):
        name = shlex.quote(unit.knob)
        return f"pip uninstall {name}" if unit.a is None else f"pip install {shlex.quote(f'{unit.knob}=={unit.a}')}"
    if unit.layer is Layer.SOURCE and not unit.knob.startswith(_FILE) and _COMMIT.fullmatch(unit.a or ""):
        return f"git checkout {unit.a}" + (f"  # the change is{in_files(unit.files)}" if unit.files else "")
    return f"# {printable(_advice(unit, whole, place))}"


def _advice(unit: Unit, whole: Unit | None, place: str) -> str:
    """Return what to do where there is no command for it."""
    if unit.layer is Layer.SOURCE:
        return _source(unit, place)
    if unit.layer is Layer.CONFIGURATION and whole is not None and not whole.knob.startswith(_FILE):
        return _key(unit, whole.b)  # B has another file, whose name the setting gave
    if unit.layer in (Layer.DATASET, Layer.CONFIGURATION, Layer.FEATURES) and unit.knob.startswith((_FILE, _LISTING)):
        return _input(unit, place)
    if unit.layer is Layer.SEEDS:
        return _seed(unit)
    return f"{unit.layer} {unit.knob}: " + ("not set" if unit.a is None else unit.a or '""')


def unit_name(unit: Unit, wholes: Iterable[Unit] = ()) -> str:
    """Return how a row of a table names a swapped unit.

    Args:
        unit: The unit.
        wholes: Units that were taken apart: a step of one of them (a release) is told from the others by its end, as
            a commit always is.
    """
    commit = unit.layer is Layer.SOURCE and not unit.knob.startswith((_FILE, MODULE)) and unit.knob != LOADED
    step = commit or any((whole.layer, whole.knob) == (unit.layer, unit.knob) for whole in wholes)
    return printable(f"{unit.knob}={unit.b}" if step else unit.knob)


def _source(unit: Unit, place: str) -> str:
    """Return what to do so that the source is A's again."""
    if unit.knob == LOADED or unit.knob.startswith(MODULE):
        return _input(unit, place)
    name = unit.knob.removeprefix(_FILE)
    if name == unit.knob:
        commit, changes, _ = (unit.a or "A").partition(" with changes ")
        back = f"go back to {commit}" + (", and apply source.patch of A's directory to it" if changes else "")
        return back + (f"; the change is{in_files(unit.files)}" if unit.files else "")
    if unit.a is None:
        return f"take {name} away"
    if ":" in unit.a:
        return _input(unit, place)
    blob = unit.a.rpartition(" ")[2][:_SHORT]
    return f"put A's {name} back: git's object {blob}, or made by source.patch of A's directory"


def _input(unit: Unit, place: str) -> str:
    """Return what to do about a file, a key of one, or a folder."""
    kind, _, name = unit.knob.partition(":")
    if not name:
        return "put A's copies of these files back, as far as they were kept: they are in files/ of A's directory"
    values = [value for value in (unit.a, unit.b) if value is not None]
    if kind == "listing":
        return f"sort the names that the script finds in {name}, and keep A's files there"
    if not all(value.startswith("xxh3") for value in values):
        return _key(unit)
    if unit.a is None:
        return f"take {name} away"
    return f"put A's {name} back{_copy(unit.a, place)}"


def _copy(value: str, place: str) -> str:
    """Return whether there is a copy of a content in A's directory, as the end of a sentence."""
    copy = f"files/{value.rpartition(':')[2]}"
    if not place or not Path(place).is_dir():
        return f"; if it was kept, it is {copy} in A's directory"
    if kept(place, value) is None:
        return "; no copy of it was kept in A's directory"
    return f": it is {copy} in A's directory"


def _key(unit: Unit, named: str | None = None) -> str:
    """Return what to do about a key of a configuration file: that of its knob, or one of another name."""
    file, _, key = unit.knob.removeprefix(_FILE).rpartition(":")
    if unit.a == MASKED:
        return f"in {named or file}: A's value of {key}, which looks like a credential and is not shown"
    return f"in {named or file}: leave {key} out" if unit.a is None else f"in {named or file}: {key} = {unit.a}"


def _seed(unit: Unit) -> str:
    """Return what to do about a seed. One that is fixed and one that looks so are told alike: nothing else gave it."""
    first = rank_of(unit.knob.partition("initial-state.")[2])[0]
    setter, _, call = unit.knob.partition("#")
    if first or any(value is not None and _moves(value) for value in (unit.a, unit.b)):
        return f"give {FAMILIES[first][0] if first in FAMILIES else setter} a fixed seed in the script"
    which = f" in its {_ordinal(int(call))} call" if call.isdigit() else ""
    if unit.a is None:
        return f"do not call {setter} in the script{which and ' so often'}"
    return f"give {setter} a fixed seed in the script{which}: {unit.a} is A's"


def _moves(value: str) -> bool:
    return any(is_fresh(text) for each in by_rank(value, 1).values() for text in calls_in(each) or ())


def _argument(name: str, value: str | None) -> str:
    flag, _, number = name.partition("#")
    which = f" (its {_ordinal(int(number))} time)" if number.isdigit() else ""
    if value is None:
        return f"# leave out the argument {printable(flag)}{which}"
    if not flag.startswith("-"):
        return f"# argument {printable(flag)}: {printable(value)}{which}"
    return f"# give the argument {flag} {shlex.quote(printable(value)) if value else ''}".rstrip() + which


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


_OF_TRIALS = ("--offset-b", "--image-cmd")
"""Options of ``bd bisect`` that say what a trial is, and that ``bd trial`` has too."""


def trial_options(asked: Iterable[str]) -> list[str]:
    """Return those options of a search that a trial by hand needs as well."""
    return [word for word in asked if word.partition("=")[0] in _OF_TRIALS]


def search_command(label_a: str, label_b: str, asked: Sequence[str] = (), *more: str) -> list[str]:
    """Return the command of a search with its options, and with more where they are not among them."""
    return ["bd", "bisect", label_a, label_b, *asked, *(word for word in more if word not in asked)]


def trial_command(
    swapped: Iterable[Unit], label_a: str, label_b: str, wholes: Sequence[Unit] = (), options: Sequence[str] = ()
) -> list[str]:
    """Return the command that runs a trial by hand: A with B's values of these units.

    Args:
        swapped: The units.
        label_a: How A is called.
        label_b: How B is called.
        wholes: Units that were taken apart, the outermost first: a step of one of them (a commit, a release) bears its
            name, and is named by its value.
        options: Options of ``bd trial``.
    """
    first = {(whole.layer, whole.knob): whole for whole in reversed(wholes)}
    sets = []
    for unit in swapped:
        step = unit.b is not None and first.get((unit.layer, unit.knob), unit) != unit
        sets += ["--set", f"{unit.layer}.{unit.knob}={unit.b if step else '@B'}"]
    return ["bd", "trial", label_a, *sets, "--b", label_b, *options]
