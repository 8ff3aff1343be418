"""The rows of the layers' tables, and the one place where a knob is read and becomes a setting."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bisect_diverge.environment.secrets import MASKED, looks_secret
from bisect_diverge.model.environment import Layer, Setting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

NOT_READ = "not read"
"""How a value begins that could not be read in time; two of them are not equal but not compared."""

UNSET = "unset"
"""Value of a variable that the script took out of its own environment."""


class AbsentError(Exception):
    """A knob has no value in this process: its library is not imported, or of a version without it."""


@dataclass(frozen=True, slots=True)
class Knob:
    """One row of a layer's table."""

    name: str
    """Name of the knob."""
    read: Callable[[], object]
    """Returns the value; None or any exception: the knob has no setting in this process."""
    meaning: str
    """What it is, for people."""
    resolved: bool = True
    """False: an input from outside (a unit). True: evidence."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A row of the allow-list: an environment variable, or with a final ``*`` all that begin so."""

    pattern: str
    """Name, or prefix with a final ``*``."""
    meaning: str
    """What it does, for people."""


def loaded(module: str) -> Any:
    """Return a module that the process has imported.

    Raises:
        AbsentError: if it has not: looking at a library must never load it.
    """
    found = sys.modules.get(module)
    if found is None:
        raise AbsentError(module)
    return found


def attribute(module: str, path: str) -> Callable[[], object]:
    """Return a reader of ``module.path``, a dotted path below an imported module."""

    def read() -> object:
        value = loaded(module)
        for name in path.split("."):
            value = getattr(value, name)
        return value

    return read


def call(module: str, path: str, *arguments: object) -> Callable[[], object]:
    """Return a reader that calls the getter ``module.path`` with `arguments`."""
    getter = attribute(module, path)

    def read() -> object:
        function: Any = getter()
        return function(*arguments)

    return read


def setting(layer: Layer, knob: str, value: object, *, resolved: bool) -> Setting:
    """Return a setting; a value that looks like a credential is masked, wherever it came from."""
    text = as_text(value)
    masked = text == MASKED or looks_secret(text)
    return Setting(layer=layer, knob=as_text(knob), value=MASKED if masked else text, resolved=resolved, masked=masked)


def setting_of_all(layer: Layer, knob: str, values: Iterable[object]) -> tuple[Setting, ...]:
    """Return one resolved setting of what several things have: each value once, sorted; none where there is nothing."""
    text = " and ".join(sorted({str(value) for value in values}))
    return (setting(layer, knob, text, resolved=True),) if text else ()


def name_of_callable(function: object) -> str:
    """Return the name by which a function or callable object is found again, never where it lies in memory.

    Args:
        function: Of a partial one the name is that of what it calls, of an object that of its class.
    """
    inner = getattr(function, "func", function)
    kind = type(inner)
    return f"{getattr(inner, '__module__', kind.__module__)}.{getattr(inner, '__qualname__', kind.__qualname__)}"


def as_text(value: object) -> str:
    """Return the text of a value; bytes that are no UTF-8 are escaped."""
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")


def read_table(layer: Layer, table: Iterable[Knob]) -> Iterator[Setting]:
    """Yield a setting for every knob of a table that has a value; a knob that cannot be read yields none."""
    for knob in table:
        try:
            value = knob.read()
            if value is not None:
                yield setting(layer, knob.name, value, resolved=knob.resolved)
        except Exception:  # one knob never costs another, nor the user's run
            continue
