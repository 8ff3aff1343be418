"""Settings with which a run's bits depend on what else the machine is doing: such trials must not run side by side."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bisect_diverge.model.environment import Environment


@dataclass(frozen=True, slots=True)
class Sensitive:
    """A row of the table."""

    knob: str
    """``layer.knob`` with ``*``."""
    is_on: Callable[[str], bool]
    """Whether a value makes the bits depend on the load."""
    why: str
    """What it does; for people."""
    accelerator: bool = False
    """Only where an accelerator was used."""


def _is_set(value: str) -> bool:
    return value.strip().lower() not in ("", "0", "false", "off", "none", "unset")


def _is_tuned(value: str) -> bool:
    """Whether a mode, or a table of options, asks for tuning."""
    return "max-autotune" in value or re.search(r"'(max_autotune|coordinate_descent_tuning)': True", value) is not None


def _is_balancing(value: str) -> bool:
    return value.strip() == "load_balance"


def _is_inductor(value: str) -> bool:
    return value == "inductor"


SENSITIVE: tuple[Sensitive, ...] = (
    Sensitive("kernels.cudnn.benchmark", _is_set, "cuDNN chooses kernels by timing", accelerator=True),
    Sensitive("kernels.inductor.max_autotune", _is_set, "kernels are chosen by timing"),
    Sensitive("kernels.inductor.coordinate_descent", _is_set, "kernels are tuned by timing"),
    Sensitive("kernels.TORCHINDUCTOR_MAX_AUTOTUNE*", _is_set, "kernels are chosen by timing"),
    Sensitive("kernels.TORCHINDUCTOR_COORDINATE_DESCENT_TUNING", _is_set, "kernels are tuned by timing"),
    Sensitive("kernels.compiled.*.mode", _is_tuned, "kernels are chosen by timing"),
    Sensitive("kernels.compiled.*.options", _is_tuned, "kernels are chosen by timing"),
    Sensitive("kernels.compiled.*.backend", _is_inductor, "Triton tunes kernels by timing", accelerator=True),
    Sensitive("hardware.OMP_DYNAMIC", _is_set, "OpenMP takes fewer threads on a busy machine"),
    Sensitive("hardware.KMP_DYNAMIC_MODE", _is_balancing, "OpenMP takes fewer threads on a busy machine"),
)
"""What is known to look at the clock or at the load. GNU's OpenMP asks ``getloadavg`` where it is dynamic
(``gomp_dynamic_max_threads`` in libgomp's ``config/linux/proc.c``)."""

DETERMINISTIC = "kernels.inductor.deterministic"
"""Forbids torch.compile to choose by timing."""


def depends_on_load(*environments: Environment) -> str:
    """Return why the bits of such runs depend on what runs beside them: the first setting found; empty: none known.

    Args:
        environments: Of the runs that are repeated.
    """
    return next(filter(None, map(_of_one, environments)), "")


def _of_one(environment: Environment) -> str:
    accelerated = environment.value("hardware", "accelerators") is not None
    never = environment.value(*DETERMINISTIC.split(".", 1), resolved=True) == "True"
    for row in SENSITIVE:
        timed = row.knob.startswith(("kernels.inductor.", "kernels.TORCHINDUCTOR_", "kernels.compiled."))
        if (row.accelerator and not accelerated) or (timed and never):
            continue
        for setting in environment.settings:
            if fnmatchcase(f"{setting.layer}.{setting.knob}", row.knob) and row.is_on(setting.value):
                return f"{row.why} ({setting.layer} {setting.knob}: {setting.value})"
    return ""
