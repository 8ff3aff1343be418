"""Environment variables: which are recorded, in which layer, and as what they were given.

The allow-list is the union of the layers' tables; a name on no table is recorded only when the user names
it. The *requested* value is the one that the process was started with; what the script itself made of it is
a resolved value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.environment import (
    configuration,
    dataset,
    dependencies,
    hardware,
    kernels,
    runtime,
    seeds,
)
from bisect_diverge.environment.knobs import UNSET, Variable, setting
from bisect_diverge.environment.secrets import MASKED, is_secret, may_be_secret
from bisect_diverge.model.environment import Layer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bisect_diverge.model.environment import Setting

ALLOWED: dict[Layer, tuple[Variable, ...]] = {
    Layer.DATASET: dataset.VARIABLES,
    Layer.CONFIGURATION: configuration.VARIABLES,
    Layer.DEPENDENCIES: dependencies.VARIABLES,
    Layer.RUNTIME: runtime.VARIABLES,
    Layer.HARDWARE: hardware.VARIABLES,
    Layer.KERNELS: kernels.VARIABLES,
    Layer.SEEDS: seeds.VARIABLES,
}
"""Every variable that is recorded, by layer."""

EXCLUDED: tuple[Variable, ...] = (
    Variable("TORCHELASTIC_*", "names of one launch: differ between any two"),
    Variable("NCCL_COMM_ID", "address of one launch"),
    Variable("NCCL_DEBUG_FILE", "an output"),
    Variable("TORCH_LOGS_OUT", "an output"),
    Variable("TORCH_TRACE", "an output"),
    Variable("TORCH_COMPILE_DEBUG_DIR", "an output"),
    Variable("TORCHINDUCTOR_CACHE_DIR", "a cache: fresh for every trial"),
    Variable("TRITON_CACHE_DIR", "a cache: fresh for every trial"),
    Variable("TORCH_EXTENSIONS_DIR", "a cache: fresh for every search"),
    Variable("CUDA_CACHE_PATH", "a cache"),
    Variable("PYTORCH_KERNEL_CACHE_PATH", "a cache"),
    Variable("HF_HUB_USER_AGENT_ORIGIN", "telemetry"),
)
"""Variables that a prefix would allow, but that mean nothing or differ between any two runs."""

USUAL = (
    "OMP_NUM_THREADS",
    "OMP_DYNAMIC",
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "OMP_SCHEDULE",
    "OMP_WAIT_POLICY",
    "OMP_THREAD_LIMIT",
    "OMP_STACKSIZE",
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "KMP_DETERMINISTIC_REDUCTION",
    "ONEDNN_MAX_CPU_ISA",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "ONEDNN_VERBOSE",
    "DNNL_MAX_CPU_ISA",
    "NPY_DISABLE_CPU_FEATURES",
    "CUBLAS_WORKSPACE_CONFIG",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCH_COMPILE_DISABLE",
    "TORCHDYNAMO_DISABLE",
    "TORCHINDUCTOR_MAX_AUTOTUNE",
    "MALLOC_PERTURB_",
    "MALLOC_ARENA_MAX",
    "LC_ALL",
)
"""Names that patterns allow and that people set: what a misspelt one is told against."""

LIVE = frozenset({"PYTHONPATH"})
"""Variables taken as they are now: the recorder changes them before the script starts and puts them back."""


def layer_of(name: str, extra_names: Sequence[str] = ()) -> Layer | None:
    """Return the layer in which a variable is recorded; None if it is not.

    Args:
        name: Name of the variable.
        extra_names: Names or prefixes (with a final ``*``) that the user asks for: they override everything
        else.
    """
    exact, prefixes = _TABLE
    named = any(_matches(name, extra) for extra in extra_names)
    if is_excluded(name):
        return Layer.CONFIGURATION if named else None
    if name in exact:
        return exact[name]
    found = max((prefix for prefix in prefixes if name.startswith(prefix)), key=len, default=None)
    if found is not None:
        return prefixes[found]
    return Layer.CONFIGURATION if named else None


def names() -> list[str]:
    """Return every name on the allow-list, and of its patterns those that are usual."""
    exact = (row.pattern for rows in ALLOWED.values() for row in rows if not row.pattern.endswith("*"))
    return [*exact, *USUAL]


def is_excluded(name: str) -> bool:
    """Return whether a variable means nothing for a run, or differs between any two."""
    return any(_matches(name, row.pattern) for row in EXCLUDED)


def read(given: Mapping[str, str], now: Mapping[str, str], extra_names: Sequence[str] = ()) -> Iterator[Setting]:
    """Yield the recorded variables: as given (requested), and as the script changed them (resolved)."""
    given = {name: value for name, value in given.items() if name not in LIVE}
    given.update({name: now[name] for name in LIVE if name in now})
    for name in sorted({*given, *now}):
        layer = layer_of(name, extra_names)
        if layer is None:
            continue
        if name in given:
            yield variable_setting(layer, name, given[name], resolved=False)
        if now.get(name) != given.get(name):
            yield variable_setting(layer, name, now.get(name, UNSET), resolved=True)


def variable_setting(layer: Layer, name: str, value: str, *, resolved: bool) -> Setting:
    """Return the setting of a variable; what is or may be a credential is masked."""
    hide = is_secret(name, value) or (layer_of(name) is None and may_be_secret(name, value))
    return setting(layer, name, MASKED if hide else value, resolved=resolved)


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _table() -> tuple[dict[str, Layer], dict[str, Layer]]:
    exact, prefixes = {}, {}
    for layer, rows in ALLOWED.items():
        for row in rows:
            if row.pattern.endswith("*"):
                prefixes[row.pattern[:-1]] = layer
            else:
                exact[row.pattern] = layer
    return exact, prefixes


_TABLE = _table()
