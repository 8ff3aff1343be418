"""Which other values the knobs of this machine can have: one table, a row for each knob."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from bisect_diverge.environment.apply import is_variable
from bisect_diverge.environment.variables import layer_of
from bisect_diverge.model.environment import Environment, Layer
from bisect_diverge.model.trial import Unit, Untested

FLIP = {"True": ("False",), "False": ("True",), "default": ("True", "False")}
"""Value of a switch to its other values; ``default`` is left to the library."""

NEW_NUMPY = ("X86_V4", "AVX512_ICL", "AVX512_SPR")
OLD_NUMPY = ("AVX512F", "AVX512CD", "AVX512_SKX", "AVX512_CLX", "AVX512_CNL", "AVX512_ICL", "AVX512_SPR")
"""Names of what numpy can leave out, by its version; a name that it does not know it warns of."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where the run is repeated."""

    environment: Environment
    """What surrounded the run."""
    processors: int
    """Processors that a trial may use."""
    features: frozenset[str]
    """Instruction sets of the processor, as Linux names them."""

    def value(self, knob: str) -> str | None:
        """Return the value of ``layer.knob``, what was asked for before what came of it; None where it has none."""
        layer, _, name = knob.partition(".")
        return self.environment.value(layer, name)

    def names(self, pattern: str) -> list[str]:
        """Return the recorded knobs that fit ``layer.knob`` with ``*``."""
        known = dict.fromkeys(f"{s.layer}.{s.knob}" for s in self.environment.settings)
        return [name for name in known if fnmatchcase(name, pattern)]


Values = Callable[[Site, str | None], Sequence[str]]
"""Returns the values to try, given where and the present value; the present one is left out by itself."""
Condition = Callable[[Site], str]
"""Returns why a knob means nothing here; empty: it does."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """A row of the table."""

    knob: str
    """``layer.knob``; with ``*`` every recorded knob of that form."""
    values: Values
    """What else it can be."""
    needs: Condition = lambda _: ""
    """Whether it means anything here."""


def this_site(environment: Environment) -> Site:
    """Return what is known of this machine and of a run."""
    return Site(environment, len(os.sched_getaffinity(0)), frozenset(_features()))


def _features() -> Iterator[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        if line.startswith(("flags", "Features")):
            yield from line.partition(":")[2].split()
            return


def _fixed(*values: str) -> Values:
    return lambda _site, _old: values


def _flip(_site: Site, old: str | None) -> Sequence[str]:
    return FLIP.get(old or "", ())


def _threads(site: Site, _old: str | None) -> Sequence[str]:
    return ("1", str(site.processors), str(2 * site.processors))


def _workers(_site: Site, old: str | None) -> Sequence[str]:
    return ("1", "2") if old == "0" else ("0", str(int(old or 0) + 1))


def _without_avx512(site: Site, _old: str | None) -> Sequence[str]:
    have = (site.value("kernels.numpy.cpu_features") or "").split()
    names = [name for name in (NEW_NUMPY if "X86_V4" in have else OLD_NUMPY) if name in have]
    return (" ".join(names),) if names else ()


def _capabilities(site: Site, _old: str | None) -> Sequence[str]:
    return ("default", *(("avx2",) if "avx512f" in site.features else ()))


def _isa(site: Site, _old: str | None) -> Sequence[str]:
    return ("SSE41", *(("AVX2",) if "avx512f" in site.features else ()))


def _core(_site: Site, old: str | None) -> Sequence[str]:
    return ("Sandybridge",) if old == "Haswell" else ("Haswell",)


def _layout(_site: Site, old: str | None) -> Sequence[str]:
    return ("channels_last",) if old == "contiguous" else ("contiguous",)


def _accelerator(site: Site) -> str:
    return "" if site.value("hardware.accelerators") else "the run used no accelerator"


def _ranks(site: Site) -> str:
    return "" if int(site.value("hardware.world.size") or 1) > 1 else "the run has one rank"


def _nccl(site: Site) -> str:
    return _accelerator(site) or _ranks(site)


def _cores(site: Site) -> str:
    return "" if site.processors > 1 else "there is one processor"


def _x86(site: Site) -> str:
    return "" if "avx2" in site.features else "the processor has no AVX2"


def _has(knob: str, why: str) -> Condition:
    return lambda site: "" if site.value(knob) is not None else why


_mkl = _has("kernels.mkl.cbwr", "torch is built without MKL here")
_numpy = _has("kernels.numpy.cpu_features", "the run has not imported numpy")
_openblas = _has("kernels.blas.numpy.architecture", "the run has loaded no OpenBLAS")
_compile = _has("kernels.compiled.0.backend", "the run compiles nothing")
_einsum = _has("dependencies.opt-einsum", "opt_einsum is not installed")

ALTERNATIVES: tuple[Alternative, ...] = (
    Alternative("hardware.threads.intra_op", _threads),
    Alternative("hardware.threads.inter_op", _fixed("1")),
    Alternative("hardware.affinity", _fixed("1"), _cores),
    Alternative("hardware.loader.*.num_workers", _workers),
    Alternative("hardware.loader.*.prefetch_factor", _fixed("4")),
    Alternative("kernels.ATEN_CPU_CAPABILITY", _capabilities, _x86),
    Alternative("kernels.ONEDNN_MAX_CPU_ISA", _isa, _x86),
    Alternative("kernels.MKL_CBWR", _fixed("COMPATIBLE"), _mkl),
    Alternative("kernels.OPENBLAS_CORETYPE", _core, _openblas),
    Alternative("kernels.NPY_DISABLE_CPU_FEATURES", _without_avx512, _numpy),
    Alternative("kernels.mkldnn.enabled", _flip),
    Alternative("kernels.mkldnn.deterministic", _flip),
    Alternative("kernels.matmul.precision", _fixed("highest", "medium")),
    Alternative("kernels.sdpa.flash", _flip),
    Alternative("kernels.mha.fastpath", _flip),
    Alternative("kernels.deterministic", _flip),
    Alternative("kernels.denormals", _fixed("flushed")),
    Alternative("kernels.model.*.layout", _layout),
    Alternative("kernels.optimizer.*.foreach", _flip),
    Alternative("kernels.optimizer.*.fused", _flip),
    Alternative("kernels.opt_einsum", _flip, _einsum),
    Alternative("kernels.TORCH_COMPILE_DISABLE", _fixed("1"), _compile),
    Alternative("kernels.TORCHINDUCTOR_EMULATE_PRECISION_CASTS", _fixed("1"), _compile),
    Alternative("kernels.TORCHINDUCTOR_DETERMINISTIC", _fixed("1"), _compile),
    Alternative("kernels.compiled.*.backend", _fixed("aot_eager")),
    Alternative("kernels.compiled.*.dynamic", _fixed("True", "False")),
    Alternative("runtime.GLIBC_TUNABLES", _fixed("glibc.cpu.hwcaps=-AVX512F,-AVX2,-FMA"), _x86),
    Alternative("runtime.MALLOC_PERTURB_", _fixed("165")),
    Alternative("seeds.PYTHONHASHSEED", _fixed("1", "2")),
    Alternative("kernels.sdpa.mem_efficient", _flip, _accelerator),
    Alternative("kernels.sdpa.cudnn", _flip, _accelerator),
    Alternative("kernels.cudnn.enabled", _flip, _accelerator),
    Alternative("kernels.cudnn.benchmark", _flip, _accelerator),
    Alternative("kernels.cudnn.deterministic", _flip, _accelerator),
    Alternative("kernels.cudnn.conv.fp32_precision", _fixed("ieee", "tf32"), _accelerator),
    Alternative("kernels.cudnn.rnn.fp32_precision", _fixed("ieee", "tf32"), _accelerator),
    Alternative("kernels.cuda.matmul.fp32_precision", _fixed("ieee", "tf32"), _accelerator),
    Alternative("kernels.cuda.matmul.fp16_reduction", _flip, _accelerator),
    Alternative("kernels.cuda.matmul.bf16_reduction", _flip, _accelerator),
    Alternative("kernels.cuda.matmul.fp16_accumulation", _flip, _accelerator),
    Alternative("kernels.cuda.blas", _fixed("cublas", "cublaslt"), _accelerator),
    Alternative("kernels.cuda.linalg", _fixed("cusolver", "magma"), _accelerator),
    Alternative("kernels.NVIDIA_TF32_OVERRIDE", _fixed("0"), _accelerator),
    Alternative("kernels.TORCH_CUDNN_USE_HEURISTIC_MODE_B", _fixed("1"), _accelerator),
    Alternative("kernels.CUBLAS_WORKSPACE_CONFIG", _fixed(":4096:8"), _accelerator),
    Alternative("kernels.CUDA_LAUNCH_BLOCKING", _fixed("1"), _accelerator),
    Alternative("kernels.NCCL_ALGO", _fixed("Ring", "Tree"), _nccl),
    Alternative("kernels.NCCL_PROTO", _fixed("Simple", "LL"), _nccl),
)
"""Knobs that leave the mathematics as they are and may move bits; seeds, data and hyperparameters are none. Rows with
accelerators have never been tried on one."""


def alternatives(site: Site, wanted: Sequence[str] = ()) -> tuple[tuple[Unit, ...], tuple[Untested, ...]]:
    """Return what can be tried, and what means nothing here with the reason.

    Args:
        site: Where.
        wanted: ``knob`` or ``layer.knob`` with ``*``, or either with ``=VALUE``; empty: all of the table.
    """
    units: dict[Unit, None] = {}
    out: list[Untested] = []
    for row in ALTERNATIVES:
        for knob in site.names(row.knob) if "*" in row.knob else [row.knob]:
            if wanted and not any("=" not in text and fits(knob, text) for text in wanted):
                continue
            reason = row.needs(site)
            found = () if reason else _units(site, row, knob)
            units |= dict.fromkeys(found)
            if not found:
                out.append(Untested(unit=_unit(site, knob, None), reason=reason or "has no other value here"))
    for text in wanted:
        name, equals, value = text.partition("=")
        if equals:
            units |= dict.fromkeys(_unit(site, knob, value) for knob in _full_names(site, name))
    return tuple(units), tuple(out)


def unknown(site: Site, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return those of the wanted knobs that are none of this run's."""
    units, out = alternatives(site, wanted)
    known = [*(str(unit) for unit in units), *(str(row.unit) for row in out)]
    return tuple(text for text in wanted if not any(fits(name, text.partition("=")[0]) for name in known))


def fits(knob: str, text: str) -> bool:
    """Whether ``layer.knob`` is meant by a text, which may leave out the layer."""
    return fnmatchcase(knob, text) or fnmatchcase(knob.partition(".")[2], text)


def _full_names(site: Site, text: str) -> list[str]:
    """Return the knobs of a text: recorded ones, a row of the table, or a variable that is set nowhere yet."""
    rows = [row.knob for row in ALTERNATIVES if "*" not in row.knob]
    known = dict.fromkeys([*site.names("*"), *rows])
    found = [name for name in known if fits(name, text)]
    layer, _, knob = text.partition(".")
    if not found and layer in set(Layer) and is_variable(Layer(layer), knob):
        return [text]
    allowed = None if found else layer_of(text)
    return found if allowed is None else [f"{allowed}.{text}"]


def _units(site: Site, row: Alternative, knob: str) -> tuple[Unit, ...]:
    old = site.value(knob)
    if old is None and not is_variable(Layer(knob.partition(".")[0]), knob.partition(".")[2]):
        return ()
    return tuple(_unit(site, knob, value) for value in dict.fromkeys(row.values(site, old)) if value != old)


def _unit(site: Site, knob: str, value: str | None) -> Unit:
    layer, _, name = knob.partition(".")
    return Unit(layer=Layer(layer), knob=name, a=site.value(knob), b=value)
