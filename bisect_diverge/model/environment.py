"""The environment of a run: named settings in nine layers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Layer(StrEnum):
    """The nine layers, in the order in which a consistent environment is built up from its outside."""

    SOURCE = "source"
    DATASET = "dataset"
    FEATURES = "features"
    CONFIGURATION = "configuration"
    DEPENDENCIES = "dependencies"
    RUNTIME = "runtime"
    HARDWARE = "hardware"
    KERNELS = "kernels"
    SEEDS = "seeds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A knob with its value."""

    layer: Layer
    """Layer the knob belongs to."""
    knob: str
    """Name of the knob: an environment variable by its name, anything else dotted (``threads.intra_op``)."""
    value: str
    """Value as text; a knob that is not set has no `Setting`."""
    resolved: bool
    """False: requested from outside (a unit that can be swapped). True: read back inside the process (evidence)."""
    masked: bool = False
    """The value looked like a credential; `value` is then the word ``masked`` and cannot be compared."""

    def to_json(self) -> dict[str, Any]:
        """Return the setting as plain JSON values."""
        row: dict[str, Any] = {"layer": str(self.layer), "knob": self.knob, "value": self.value}
        row["resolved"] = self.resolved
        if self.masked:
            row["masked"] = True
        return row

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Setting:
        """Return the setting that `to_json` wrote."""
        return cls(
            layer=Layer(row["layer"]),
            knob=str(row["knob"]),
            value=str(row["value"]),
            resolved=bool(row["resolved"]),
            masked=bool(row.get("masked", False)),
        )


@dataclass(frozen=True, slots=True)
class Environment:
    """All settings of a run; at most one for each layer, knob and resolved flag."""

    settings: tuple[Setting, ...] = ()

    def to_json(self) -> list[dict[str, Any]]:
        """Return the settings as plain JSON values."""
        return [setting.to_json() for setting in self.settings]

    @classmethod
    def from_json(cls, rows: list[dict[str, Any]]) -> Environment:
        """Return the environment that `to_json` wrote."""
        return cls(tuple(Setting.from_json(row) for row in rows))

    def value(self, layer: str, knob: str, *, resolved: bool | None = None) -> str | None:
        """Return the value of a knob; None where it has none.

        Args:
            layer: Layer of the knob.
            knob: Name of the knob.
            resolved: Whether what was read back is asked for, or what was requested; None: the latter if there is one.
        """
        found = {
            s.resolved: s.value
            for s in self.settings
            if (s.layer, s.knob) == (layer, knob) and resolved in (None, s.resolved)
        }
        return found.get(False, found.get(True))

    def merged(self, newer: tuple[Setting, ...]) -> Environment:
        """Return this environment with settings replaced or added by `newer`."""
        table = {(s.layer, s.knob, s.resolved): s for s in (*self.settings, *newer)}
        return Environment(tuple(table.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One knob that two environments have at different values."""

    layer: Layer
    """Layer of the knob."""
    knob: str
    """Name of the knob."""
    a: str | None
    """Value in A; None where it is not set there."""
    b: str | None
    """Value in B; None where it is not set there."""
    resolved: tuple[Difference, ...] = ()
    """Resolved values that this one explains; always empty for those that are listed here."""

    def to_json(self) -> dict[str, Any]:
        """Return the difference as plain JSON values."""
        row: dict[str, Any] = {"layer": str(self.layer), "knob": self.knob, "a": self.a, "b": self.b}
        row["resolved"] = [{"knob": d.knob, "a": d.a, "b": d.b} for d in self.resolved]
        return row
