"""Settings that take noise away, held in every trial alike; what they hold cannot be blamed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from bisect_diverge.model.trial import Untested

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

FILLS: dict[str, Clamp] = {
    f"memory filled with 0x{byte:02x}": Clamp(variables={"MALLOC_PERTURB_": str(byte ^ 0xFF)}, holds=())
    for byte in (0x3C, 0x5A)
}
"""By name, what fills each block that the C library hands out: who reads what nobody has written reads these bytes.

As float32 they are 0.0115 and 1.5e16. Measured with torch 2.13 and glibc 2.36: every element of `torch.empty` is
filled, small or large (blocks of their own from the kernel too, which are zero otherwise), and of `numpy.empty` all but
the smallest, which numpy takes from a store of its own. The memory of accelerators is not."""

_FILLING = "deterministic algorithms"
"""This clamp fills `torch.empty` too, with NaN (`torch.utils.deterministic.fill_uninitialized_memory`)."""


def can_fill() -> bool:
    """Whether the C library here fills memory (glibc does)."""
    return "CS_GNU_LIBC_VERSION" in os.confstr_names and bool(os.confstr("CS_GNU_LIBC_VERSION"))


def fills_memory(name: str) -> bool:
    """Whether a clamp fills memory beside what else it does, so that it hides who reads what nobody has written."""
    return name == _FILLING


def with_clamps(launch: Launch, names: Iterable[str]) -> Launch:
    """Return what to start with some clamps on, whatever else the configuration says."""
    settings = launch.settings
    assert settings.trial is not None
    pins, set_by_clamps = dict(settings.trial.pins), dict[str, str]()
    for name in names:
        pins |= _named(name).pins
        set_by_clamps |= _named(name).variables
    environment = launch.environment | set_by_clamps
    trial = replace(settings.trial, pins=tuple(pins.items()))
    given = {name: environment[name] for name in {*(settings.given or {}), *set_by_clamps} if name in environment}
    clamped = replace(launch, environment=environment)
    return clamped.recorded_as(replace(settings, trial=trial, given=given))


def _named(name: str) -> Clamp:
    return CLAMPS[name] if name in CLAMPS else FILLS[name]


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
