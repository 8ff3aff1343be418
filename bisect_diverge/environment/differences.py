"""What differs between two environments, resolved values listed under the inputs that explain them."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from bisect_diverge.environment.knobs import NOT_READ
from bisect_diverge.environment.modules import END_MARK, EXTENSION, MODULE
from bisect_diverge.environment.read import AT_END
from bisect_diverge.environment.seeds import RANDOM
from bisect_diverge.model.environment import Difference, Environment, Layer, Setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LAYERS = list(Layer)


@dataclass(frozen=True, slots=True)
class Explanation:
    """One row of the table: knobs that explain others when both differ."""

    by: str
    """``layer:knob`` with ``*`` and ``?``."""
    what: tuple[str, ...]
    """``layer:knob`` of the resolved values that it explains."""
    one_sided: bool = False
    """Explains only a value that one of the two runs does not have."""
    may_stay: bool = False
    """What it explains need not move with it: that it has not does not make the swap inert."""


_THREADS = (
    "hardware:threads.*",
    "hardware:blas.*.threads",
    "hardware:openmp.*.threads",
    "hardware:mkl.dynamic",
)
_OF_TORCHS_THREADS = (
    "hardware:threads.mkl",
    "hardware:openmp.*.threads",
    "hardware:blas.*.threads",
    "hardware:mkl.dynamic",
)
"""What ``torch.set_num_threads`` sets beside torch's own number."""
_CODE = ("source:module:*", "source:extension:*")
_TORCH = ("runtime:torch.*", "runtime:cudnn", "runtime:nccl", "kernels:mkl.cbwr", "kernels:quantized.engine")
_LOADER = tuple(
    f"hardware:loader.*.{name}" for name in ("prefetch_factor", "persistent_workers", "start_method", "in_order")
)
_RANKS = (
    "hardware:WORLD_SIZE",
    "hardware:LOCAL_WORLD_SIZE",
    "hardware:RANK",
    "hardware:LOCAL_RANK",
    "hardware:world.size",
)
_OF_THE_LAUNCHER = (
    *_RANKS,
    "hardware:OMP_*",
    "hardware:CUDA_VISIBLE_DEVICES",
    "hardware:SLURM_*",
    "configuration:ACCELERATE_*",
    "configuration:FSDP_*",
    "configuration:DEEPSPEED_*",
    "configuration:MIXED_PRECISION",
    "kernels:NCCL_*",
    "runtime:python.flags",
)
"""What torchrun, accelerate, srun and the interpreter's own options set in the processes that they start."""
_ACCELERATORS = (
    "hardware:accelerators",
    "hardware:accelerator.models",
    "hardware:model.*.device",
    "runtime:cuda.driver",
)

EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation("source:commit", (*_CODE, "source:tree", "source:uncommitted.*")),
    Explanation("source:uncommitted", (*_CODE, "source:tree", "source:uncommitted.*")),
    Explanation("source:repository", (*_CODE, "source:tree", "source:uncommitted.*")),
    Explanation("source:submodule:*", _CODE),
    Explanation("source:file:*", _CODE),
    Explanation("features:file:*", (*_CODE, "source:tree")),
    Explanation("configuration:argv.program", _CODE),
    Explanation("configuration:launcher.*", _OF_THE_LAUNCHER),
    Explanation("dependencies:torch", (*_TORCH, "source:extension:*")),
    Explanation("runtime:CXX", ("source:extension:*",)),
    Explanation("runtime:python.executable", ("source:extension:*",)),
    Explanation("dependencies:torch", ("kernels:*", "hardware:threads.mkl", "hardware:mkl.dynamic"), one_sided=True),
    Explanation("dependencies:nvidia-*", ("runtime:cudnn", "runtime:nccl", "runtime:torch.cuda")),
    Explanation("dependencies:numpy", ("runtime:numpy.version", "kernels:numpy.*", "*:blas.numpy.*")),
    Explanation("dependencies:scipy", ("*:blas.scipy.*",)),
    Explanation("dependencies:scikit-learn", ("hardware:openmp.scikit_learn.*",)),
    Explanation("dependencies:opt-einsum", ("kernels:opt_einsum", "kernels:opt_einsum.*")),
    Explanation("dependencies:PYTHONPATH", ("runtime:*.version", "source:module:*")),
    Explanation("runtime:python.version", ("runtime:python.build", "seeds:hash.salt")),
    Explanation("runtime:python.implementation", ("runtime:python.build", "seeds:hash.salt")),
    Explanation("runtime:PYTHONOPTIMIZE", ("runtime:python.flags",)),
    Explanation("runtime:PYTHONUTF8", ("runtime:python.flags", "runtime:encoding")),
    Explanation("dependencies:PYTHONNOUSERSITE", ("runtime:python.flags",)),
    Explanation("runtime:LANG", ("runtime:locale", "runtime:encoding")),
    Explanation("runtime:LC_*", ("runtime:locale", "runtime:encoding")),
    Explanation("runtime:TZ", ("runtime:timezone",)),
    Explanation("runtime:container", ("runtime:system", "runtime:glibc")),
    Explanation("runtime:GLIBC_TUNABLES", ("runtime:libm",)),
    Explanation("runtime:glibc", ("runtime:libm",)),
    Explanation("hardware:OMP_*", _THREADS),
    Explanation("hardware:GOMP_*", _THREADS),
    Explanation("hardware:KMP_*", _THREADS),
    Explanation("hardware:MKL_NUM_THREADS", _THREADS),
    Explanation("hardware:MKL_DOMAIN_NUM_THREADS", _THREADS),
    Explanation("hardware:MKL_DYNAMIC", _THREADS),
    Explanation("hardware:OPENBLAS_NUM_THREADS", ("hardware:blas.*.threads",)),
    Explanation("hardware:GOTO_NUM_THREADS", ("hardware:blas.*.threads",)),
    Explanation("hardware:BLIS_NUM_THREADS", ("hardware:blas.*.threads",)),
    Explanation("hardware:affinity", _THREADS),
    Explanation("hardware:WORLD_SIZE", ("hardware:world.size", "hardware:LOCAL_WORLD_SIZE")),
    Explanation("hardware:threads.intra_op", _OF_TORCHS_THREADS),
    Explanation("hardware:loader.*.num_workers", _LOADER, one_sided=True),
    Explanation("hardware:loader.*.num_workers", ("hardware:loader.*.threads",), may_stay=True),
    Explanation("hardware:threads.intra_op", ("hardware:loader.*.threads",), may_stay=True),
    Explanation("seeds:loader.*.worker_init_fn", ("hardware:loader.*.threads",), may_stay=True),
    Explanation("hardware:cpu.logical", ("hardware:affinity", *_THREADS)),
    Explanation(
        "hardware:cpu.model",
        (
            "kernels:cpu.capability",
            "kernels:mkl.cbwr",
            "kernels:numpy.cpu_features",
            "kernels:blas.*.architecture",
            "runtime:libm",
        ),
    ),
    Explanation("hardware:cpu.model", ("hardware:cpu.logical",)),
    Explanation("hardware:CUDA_*", _ACCELERATORS),
    Explanation("hardware:NVIDIA_VISIBLE_DEVICES", _ACCELERATORS),
    Explanation("hardware:*_VISIBLE_DEVICES", _ACCELERATORS),
    Explanation("hardware:accelerator.models", ("hardware:accelerators", "runtime:cuda.driver", "kernels:cuda.*")),
    Explanation("kernels:ATEN_CPU_CAPABILITY", ("kernels:cpu.capability",)),
    Explanation("kernels:MKL_CBWR", ("kernels:mkl.cbwr",)),
    Explanation("kernels:MKL_ENABLE_INSTRUCTIONS", ("kernels:mkl.cbwr",)),
    Explanation("kernels:NPY_*", ("kernels:numpy.cpu_features",)),
    Explanation("kernels:OPENBLAS_CORETYPE", ("kernels:blas.*.architecture",)),
    Explanation("kernels:TORCH_ALLOW_TF32_*", ("kernels:cuda.matmul.*", "kernels:matmul.precision")),
    Explanation("kernels:TORCH_BLAS_*", ("kernels:cuda.blas",)),
    Explanation("kernels:TORCH_LINALG_*", ("kernels:cuda.linalg",)),
    Explanation("kernels:TORCH_COMPILE_DISABLE", ("kernels:compile.*",)),
    Explanation("kernels:TORCHDYNAMO_*", ("kernels:compile.*",)),
    Explanation("kernels:TORCHINDUCTOR_*", ("kernels:inductor.*",)),
    Explanation("kernels:default_dtype", ("kernels:model.*.dtype",)),
    Explanation("kernels:deterministic", ("kernels:deterministic.debug_mode",)),
    Explanation("kernels:deterministic.warn_only", ("kernels:deterministic.debug_mode",)),
    Explanation("kernels:fp32_precision", ("kernels:*.fp32_precision", "kernels:matmul.precision")),
    Explanation("kernels:mkldnn.fp32_precision", ("kernels:mkldnn.*.fp32_precision",)),
    Explanation("kernels:matmul.precision", ("kernels:mkldnn.matmul.fp32_precision", "kernels:cuda.matmul.*")),
    Explanation("dataset:file:*", ("dataset:data.*.content", "dataset:data.*.bytes", "dataset:data.*.files")),
    Explanation("dataset:listing:*", ("dataset:data.*.order", "dataset:data.*.files")),
    Explanation("dataset:data.?", ("dataset:data.*.*",)),
    Explanation("seeds:PYTHONHASHSEED", ("seeds:hash.*",)),
    Explanation("seeds:loader.*.generator", ("seeds:loader.*.base_seed",), may_stay=True),
    Explanation("seeds:torch.*seed*", ("seeds:loader.*.base_seed",), may_stay=True),
    Explanation("seeds:initial-state.torch", ("seeds:loader.*.base_seed",), may_stay=True),
)
"""Which input explains which resolved value. The script's flags are not here: no name tells what one does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCompared:
    """A knob of which nobody can say whether it differs."""

    layer: Layer
    knob: str
    why: str
    """Reason, for people."""

    def to_json(self) -> dict[str, str]:
        """Return the row as plain JSON values."""
        return {"layer": str(self.layer), "knob": self.knob, "why": self.why}


_Key = tuple[Layer, str, bool]


def differences(a: Environment, b: Environment) -> tuple[Difference, ...]:
    """Return what differs, by layer and knob.

    An entry is a unit: a requested input, or a resolved value that no requested input explains. Resolved
    values that an entry explains are listed under it, under each entry that does where there are several.
    """
    values_a, values_b = _values(a), _values(b)
    _align_ends(values_a, values_b)
    _align_given(values_a, values_b)
    found: dict[_Key, Difference] = {}
    for key in sorted({*values_a, *values_b}, key=_order):
        one, other = values_a.get(key), values_b.get(key)
        if one != other:
            found[key] = Difference(layer=key[0], knob=key[1], a=one, b=other)
    parents = {key: [by for by in found if by != key and key[2] and _explains(by, found[key])] for key in found}
    entries = [key for key in found if not parents[key]]
    evidence: dict[_Key, list[_Key]] = defaultdict(list)
    for key in found:
        for entry in _origins(key, parents):
            if entry != key:
                evidence[entry].append(key)
    return tuple(
        Difference(
            layer=found[key].layer,
            knob=found[key].knob,
            a=found[key].a,
            b=found[key].b,
            resolved=tuple(found[k] for k in evidence[key]),
        )
        for key in entries
    )


def principal(rows: Sequence[Difference]) -> tuple[Difference, ...]:
    """Return those of some resolved differences that none of the others explains, in their order."""
    return tuple(
        row for row in rows if not any(by is not row and _explains((by.layer, by.knob, True), row) for by in rows)
    )


def belonging(layer: Layer, knob: str, environment: Environment) -> tuple[Setting, ...]:
    """Return the resolved values of a run that a requested knob is known to move; none: nobody knows any."""
    by = (layer, knob, False)
    return tuple(
        s
        for s in environment.settings
        if s.resolved
        and not s.knob.endswith(AT_END)
        and _explains(by, Difference(layer=s.layer, knob=s.knob, a=s.value, b=s.value))
    )


def not_compared(a: Environment, b: Environment) -> tuple[NotCompared, ...]:
    """Return the knobs that look equal but are not known to be."""
    other = {(s.layer, s.knob, s.resolved): s for s in b.settings}
    found = []
    for setting in sorted(a.settings, key=lambda s: _order((s.layer, s.knob, s.resolved))):
        partner = other.get((setting.layer, setting.knob, setting.resolved))
        if partner is None or partner.value != setting.value:
            continue
        why = _why_not_compared(setting)
        if why:
            found.append(NotCompared(layer=setting.layer, knob=setting.knob, why=why))
    return tuple(found)


def _why_not_compared(setting: Setting) -> str:
    if setting.masked:
        return "masked on both sides"
    if setting.value.startswith(NOT_READ):
        return setting.value
    if setting.knob == "hash.randomization" and setting.value == RANDOM:
        return "another salt in every process; PYTHONHASHSEED fixes it"
    return ""


def _values(environment: Environment) -> dict[_Key, str]:
    return {(s.layer, s.knob, s.resolved): s.value for s in environment.settings}


def _align_ends(a: dict[_Key, str], b: dict[_Key, str]) -> None:
    """Make what was read at the end of a run comparable.

    A run that did not get there has no such settings: then the other's mean nothing. A knob that did not
    change has none either: then its value at the start is that at the end.
    """
    mark = (Layer.SOURCE, END_MARK, True)
    whole = mark in a and mark in b
    for values, other in ((a, b), (b, a)):
        values.pop(mark, None)
        for key in [k for k in values if k[1].endswith(AT_END) or k[1].startswith((MODULE, EXTENSION))]:
            if not whole:
                del values[key]
            elif key[1].endswith(AT_END) and key not in other:
                start = key[1].removesuffix(AT_END)
                at_start = other.get((key[0], start, True), other.get((key[0], start, False)))
                if at_start is not None:
                    other[key] = at_start


def _align_given(a: dict[_Key, str], b: dict[_Key, str]) -> None:
    """Compare what the processes had where one of them had another value than it was given.

    A knob with a request has a resolved value only where that is another one (a launcher, or the script, has set the
    variable): without one the process had what was requested.
    """
    for values, other in ((a, b), (b, a)):
        for layer, knob, resolved in [k for k in other if k[2] and k not in values]:
            given = values.get((layer, knob, False))
            if given is not None:
                values[layer, knob, resolved] = given


def _explains(by: _Key, what: Difference) -> bool:
    knob = f"{what.layer}:{what.knob.removesuffix(AT_END)}"
    name = f"{by[0]}:{by[1].removesuffix(AT_END)}"
    if name == knob:  # a variable and what the script made of it; a value and the same at the end
        return not by[1].endswith(AT_END) and (not by[2] or what.knob.endswith(AT_END))
    one_sided = what.a is None or what.b is None
    is_known_to_move = what.a == what.b  # `belonging` asks, and nothing has moved yet
    return any(
        fnmatchcase(name, row.by)
        and (one_sided or not row.one_sided)
        and not (is_known_to_move and row.may_stay)
        and any(fnmatchcase(knob, w) for w in row.what)
        for row in EXPLANATIONS
    )


def _origins(key: _Key, parents: dict[_Key, list[_Key]]) -> Iterable[_Key]:
    """Return the entries that explain a difference, through others if need be; itself if it is one."""
    todo, seen, entries = [key], {key}, []
    while todo:
        current = todo.pop()
        if not parents[current]:
            entries.append(current)
        for parent in parents[current]:
            if parent not in seen:
                seen.add(parent)
                todo.append(parent)
    return entries


def _order(key: _Key) -> tuple[int, list[tuple[int, str]], bool]:
    parts = re.findall(r"\d+|\D+", key[1])
    return LAYERS.index(key[0]), [(int(p), "") if p.isdigit() else (-1, p) for p in parts], key[2]
