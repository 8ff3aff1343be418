"""Settings that take noise away, held in every trial alike; what they hold cannot be blamed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from bisect_diverge.model.trial import Untested
from bisect_diverge.record.settings import VARIABLE, Settings

if TYPE_CHECKING:
    from bisect_diverge.model.trial import Unit
    from bisect_diverge.trial.runner import Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Clamp:
    """One such setting."""

    pins: dict[str, str] = field(default_factory=dict)
    """``layer.knob`` to the value that is held inside the process (`record.overrides`)."""
    variables: dict[str, str] = field(default_factory=dict)
    """Environment variables."""
    holds: tuple[str, ...]
    """``layer:knob`` with ``*`` of units that move nothing while it is on."""


CLAMPS: dict[str, Clamp] = {
    "one thread": Clamp(
        pins={"hardware.threads.intra_op": "1"},
        variables={"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        holds=(
            "hardware:OMP_*",
            "hardware:GOMP_*",
            "hardware:KMP_*",
            "hardware:MKL_*",
            "hardware:OPENBLAS_NUM_THREADS",
            "hardware:GOTO_NUM_THREADS",
            "hardware:threads.intra_op",
        ),
    ),
    "deterministic algorithms": Clamp(
        pins={
            "kernels.deterministic": "True",
            "kernels.deterministic.warn_only": "True",
            "kernels.cudnn.benchmark": "False",
            "kernels.cudnn.deterministic": "True",
        },
        variables={"CUBLAS_WORKSPACE_CONFIG": ":4096:8"},
        holds=("kernels:deterministic*", "kernels:cudnn.benchmark", "kernels:cudnn.deterministic", "*:CUBLAS_*"),
    ),
    "PYTHONHASHSEED=0": Clamp(variables={"PYTHONHASHSEED": "0"}, holds=("seeds:PYTHONHASHSEED", "seeds:hash.*")),
}
"""By name, the likeliest to help first. Algorithms that cannot be deterministic warn and go on."""


def with_clamps(launch: Launch, names: Iterable[str]) -> Launch:
    """Return what to start with some clamps on, whatever else the configuration says."""
    environment = dict(launch.environment)
    settings = Settings.from_json(environment[VARIABLE])
    assert settings.trial is not None
    pins = dict(settings.trial.pins)
    for name in names:
        pins |= CLAMPS[name].pins
        environment |= CLAMPS[name].variables
    trial = replace(settings.trial, pins=tuple(pins.items()))
    environment[VARIABLE] = replace(settings, trial=trial).to_json()
    return replace(launch, environment=environment)


def split(units: Iterable[Unit], names: Sequence[str]) -> tuple[tuple[Unit, ...], tuple[Untested, ...]]:
    """Return the units that can still be moved under some clamps, and those that cannot, with the clamp."""
    free: list[Unit] = []
    held: list[Untested] = []
    for unit in units:
        by = next((name for name in names if _is_held(unit, CLAMPS[name])), "")
        if by:
            held.append(Untested(unit=unit, reason=f"clamped: {by} in every trial"))
        else:
            free.append(unit)
    return tuple(free), tuple(held)


def _is_held(unit: Unit, clamp: Clamp) -> bool:
    name = f"{unit.layer}:{unit.knob}"
    return any(fnmatchcase(name, what) for what in clamp.holds)
