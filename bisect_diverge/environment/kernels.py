"""Kernels: everything that chooses how a value is computed on given hardware."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bisect_diverge.environment import blas
from bisect_diverge.environment.knobs import (
    AbsentError,
    Knob,
    Variable,
    attribute,
    call,
    loaded,
    name_of_callable,
    setting,
    setting_of_all,
)
from bisect_diverge.model.environment import Layer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from bisect_diverge.model.environment import Setting

VARIABLES: tuple[Variable, ...] = (
    Variable("ATEN_CPU_CAPABILITY", "instructions of torch's own kernels; also changes randn"),
    Variable("ONEDNN_*", "oneDNN: instructions, floating point mode"),
    Variable("DNNL_*", "oneDNN, old names"),
    Variable("MKLDNN_*", "oneDNN, old names"),
    Variable("MKL_CBWR", "MKL's reproducibility branch"),
    Variable("MKL_ENABLE_INSTRUCTIONS", "instructions that MKL uses"),
    Variable("MKL_DEBUG_CPU_TYPE", "the same, old and undocumented"),
    Variable("MKL_DISABLE_FAST_MM", "MKL's allocator"),
    Variable("MKL_NUM_STRIPES", "how MKL splits a product"),
    Variable("MKL_VERBOSE", "MKL reports its calls"),
    Variable("MKL_THREADING_LAYER", "MKL's threading"),
    Variable("OPENBLAS_CORETYPE", "kernels of OpenBLAS"),
    Variable("FBGEMM_*", "FBGEMM's instructions"),
    Variable("NPY_*", "numpy: instructions that are off, promotion"),
    Variable("CUBLAS_*", "cuBLAS, its workspace above all"),
    Variable("CUBLASLT_*", "cuBLASLt"),
    Variable("CUDNN_*", "cuDNN"),
    Variable("NVIDIA_TF32_OVERRIDE", "TF32 below torch, whose getters do not show it"),
    Variable("CUDA_LAUNCH_BLOCKING", "one kernel at a time"),
    Variable("CUDA_DEVICE_MAX_CONNECTIONS", "queues of the device"),
    Variable("NCCL_*", "NCCL: algorithm, protocol, channels"),
    Variable("GLOO_*", "gloo"),
    Variable("PYTORCH_*", "torch: allocators and others"),
    Variable("TORCH_*", "torch"),
    Variable("TORCHDYNAMO_*", "torch.compile, tracing"),
    Variable("TORCHINDUCTOR_*", "torch.compile, code generation"),
    Variable("AOT_*", "torch.compile, autograd"),
    Variable("AOTAUTOGRAD_*", "torch.compile, autograd"),
    Variable("TRITON_*", "triton"),
    Variable("XLA_*", "XLA"),
    Variable("NVTE_*", "Transformer Engine"),
    Variable("FLASH_ATTENTION_*", "FlashAttention"),
    Variable("XFORMERS_*", "xFormers"),
    Variable("BITSANDBYTES_*", "bitsandbytes"),
)


def _either(first: Callable[[], object], second: Callable[[], object]) -> Callable[[], object]:
    """Return a reader that asks `second` where this torch has no `first`."""

    def read() -> object:
        try:
            return first()
        except AttributeError:
            return second()

    return read


def _once_started(module: str, path: str) -> Callable[[], object]:
    """Return a reader of a getter that looks at the device: asked only once the script has started one."""
    getter = call(module, path)

    def read() -> object:
        return getter() if loaded("torch").cuda.is_initialized() else None

    return read


def _denormals() -> str:
    """Return whether this thread keeps denormal numbers, by making one: there is no getter."""
    smallest = sys.float_info.min
    if smallest / 2.0 == 0.0:
        return "flushed"
    return "kept"


def _numpy_features() -> str:
    if "numpy._core" in sys.modules:
        features = loaded("numpy._core._multiarray_umath").__cpu_features__
    else:
        features = loaded("numpy.core._multiarray_umath").__cpu_features__
    return " ".join(sorted(name for name, on in features.items() if on)) or "none"


def _autocast(device: str) -> Callable[[], object]:
    def read() -> object:
        torch: Any = loaded("torch")
        if device == "cuda" and torch.version.cuda is None and torch.version.hip is None:
            raise AbsentError(device)
        return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else "off"

    return read


KNOBS: tuple[Knob, ...] = (
    Knob(
        "cpu.capability",
        call("torch", "backends.cpu.get_cpu_capability"),
        "instructions of torch's own kernels",
    ),
    Knob("mkl.cbwr", blas.mkl_cbwr, "MKL's reproducibility branch in effect"),
    Knob("mkldnn.enabled", attribute("torch", "backends.mkldnn.enabled"), "whether oneDNN is used"),
    Knob(
        "mkldnn.deterministic",
        attribute("torch", "backends.mkldnn.deterministic"),
        "oneDNN's own determinism",
    ),
    Knob("mkldnn.fp32_precision", attribute("torch", "backends.mkldnn.fp32_precision"), "oneDNN, float32"),
    Knob(
        "mkldnn.matmul.fp32_precision",
        attribute("torch", "backends.mkldnn.matmul.fp32_precision"),
        "oneDNN, products",
    ),
    Knob(
        "mkldnn.conv.fp32_precision",
        attribute("torch", "backends.mkldnn.conv.fp32_precision"),
        "oneDNN, convolutions",
    ),
    Knob(
        "mkldnn.rnn.fp32_precision",
        attribute("torch", "backends.mkldnn.rnn.fp32_precision"),
        "oneDNN, recurrent nets",
    ),
    Knob("fp32_precision", attribute("torch", "backends.fp32_precision"), "float32 precision of all backends"),
    Knob(
        "matmul.precision",
        call("torch", "get_float32_matmul_precision"),
        "float32 products: highest, high, medium",
    ),
    Knob("sdpa.flash", call("torch", "backends.cuda.flash_sdp_enabled"), "attention: flash kernel allowed"),
    Knob(
        "sdpa.mem_efficient",
        call("torch", "backends.cuda.mem_efficient_sdp_enabled"),
        "attention: this kernel allowed",
    ),
    Knob("sdpa.math", call("torch", "backends.cuda.math_sdp_enabled"), "attention: plain operations allowed"),
    Knob("sdpa.cudnn", call("torch", "backends.cuda.cudnn_sdp_enabled"), "attention: cuDNN allowed"),
    Knob(
        "sdpa.math_reduced",
        call("torch", "backends.cuda.fp16_bf16_reduction_math_sdp_allowed"),
        "attention: reduced precision in the plain operations",
    ),
    Knob("mha.fastpath", call("torch", "backends.mha.get_fastpath_enabled"), "fast path of transformer layers"),
    Knob("deterministic", call("torch", "are_deterministic_algorithms_enabled"), "deterministic algorithms"),
    Knob(
        "deterministic.warn_only",
        call("torch", "is_deterministic_algorithms_warn_only_enabled"),
        "whether an operation without one only warns",
    ),
    Knob("deterministic.debug_mode", call("torch", "get_deterministic_debug_mode"), "the same as a number"),
    Knob(
        "deterministic.fill",
        attribute("torch", "utils.deterministic.fill_uninitialized_memory"),
        "whether deterministic mode fills uninitialised memory",
    ),
    Knob("cudnn.enabled", attribute("torch", "backends.cudnn.enabled"), "whether cuDNN is used"),
    Knob("cudnn.benchmark", attribute("torch", "backends.cudnn.benchmark"), "cuDNN chooses by timing"),
    Knob("cudnn.benchmark_limit", attribute("torch", "backends.cudnn.benchmark_limit"), "how many it times"),
    Knob("cudnn.deterministic", attribute("torch", "backends.cudnn.deterministic"), "cuDNN's own determinism"),
    Knob(
        "cudnn.conv.fp32_precision",
        _either(
            attribute("torch", "backends.cudnn.conv.fp32_precision"),
            attribute("torch", "backends.cudnn.allow_tf32"),
        ),
        "cuDNN, convolutions: TF32 or not",
    ),
    Knob(
        "cudnn.rnn.fp32_precision",
        attribute("torch", "backends.cudnn.rnn.fp32_precision"),
        "cuDNN, recurrent nets",
    ),
    Knob(
        "cuda.matmul.fp32_precision",
        _either(
            attribute("torch", "backends.cuda.matmul.fp32_precision"),
            attribute("torch", "backends.cuda.matmul.allow_tf32"),
        ),
        "products: TF32 or not",
    ),
    Knob(
        "cuda.matmul.fp16_reduction",
        attribute("torch", "backends.cuda.matmul.allow_fp16_reduced_precision_reduction"),
        "float16 sums in float16",
    ),
    Knob(
        "cuda.matmul.bf16_reduction",
        attribute("torch", "backends.cuda.matmul.allow_bf16_reduced_precision_reduction"),
        "bfloat16 sums in bfloat16",
    ),
    Knob(
        "cuda.matmul.fp16_accumulation",
        attribute("torch", "backends.cuda.matmul.allow_fp16_accumulation"),
        "float16 products accumulated in float16",
    ),
    Knob("cuda.blas", _once_started("torch", "backends.cuda.preferred_blas_library"), "BLAS of the device"),
    Knob(
        "cuda.linalg",
        _once_started("torch", "backends.cuda.preferred_linalg_library"),
        "solvers of the device",
    ),
    Knob("default_dtype", call("torch", "get_default_dtype"), "element type of new tensors"),
    Knob("autocast.cpu", _autocast("cpu"), "automatic mixed precision where the recording starts or ends"),
    Knob("autocast.cuda", _autocast("cuda"), "automatic mixed precision where the recording starts or ends"),
    Knob("quantized.engine", attribute("torch", "backends.quantized.engine"), "quantised kernels"),
    Knob("opt_einsum", attribute("torch", "backends.opt_einsum.enabled"), "whether einsum reorders products"),
    Knob("opt_einsum.strategy", attribute("torch", "backends.opt_einsum.strategy"), "how it does"),
    Knob("denormals", _denormals, "whether denormal numbers are kept (found by making one)"),
    Knob("numpy.cpu_features", _numpy_features, "instructions that numpy uses"),
    Knob("compile.disabled", attribute("torch._dynamo.config", "disable"), "torch.compile does nothing"),
    Knob(
        "compile.suppress_errors",
        attribute("torch._dynamo.config", "suppress_errors"),
        "errors fall back to eager",
    ),
    Knob("inductor.deterministic", attribute("torch._inductor.config", "deterministic"), "no choice by timing"),
    Knob(
        "inductor.emulate_casts",
        attribute("torch._inductor.config", "emulate_precision_casts"),
        "rounding between fused operations as in eager mode",
    ),
    Knob(
        "inductor.fallback_random",
        attribute("torch._inductor.config", "fallback_random"),
        "eager mode's numbers",
    ),
    Knob(
        "inductor.max_autotune",
        attribute("torch._inductor.config", "max_autotune"),
        "kernels chosen by timing",
    ),
    Knob(
        "inductor.coordinate_descent",
        attribute("torch._inductor.config", "coordinate_descent_tuning"),
        "kernels tuned by timing",
    ),
)


def read_libraries() -> Iterator[Setting]:
    """Yield the kernels that each loaded BLAS library chose: ``blas.numpy.architecture``."""
    for name, library in blas.libraries():
        if library.get("architecture"):
            yield setting(Layer.KERNELS, f"{name}.architecture", library["architecture"], resolved=True)


def layout_setting(name: str, weights: Iterable[Any]) -> tuple[Setting, ...]:
    """Return in which order a model's convolutions keep their weights; none where there is no weight of four axes.

    Args:
        name: Root of the model.
        weights: Its parameters.
    """
    torch: Any = loaded("torch")
    found = {
        "contiguous" if w.is_contiguous() or not w.is_contiguous(memory_format=torch.channels_last) else "channels_last"
        for w in weights
        if w.dim() == 4 and min(w.shape[1], w.shape[2] * w.shape[3]) > 1  # of others both orders are one
    }
    return setting_of_all(Layer.KERNELS, f"model.{name}.layout", found)


def dtype_setting(name: str, weights: Iterable[Any]) -> tuple[Setting, ...]:
    """Return of which element types a model's weights are; none where it has no weights.

    Args:
        name: Root of the model.
        weights: Its parameters.
    """
    return setting_of_all(Layer.KERNELS, f"model.{name}.dtype", (weight.dtype for weight in weights))


COMPILE_KNOBS = {"backend": "inductor", "mode": "default", "dynamic": "None", "options": "None"}
"""Arguments of ``torch.compile`` that choose what is made of the code, with what they are if they are not given."""


def compile_setting(number: int, arguments: Mapping[str, object]) -> tuple[Setting, ...]:
    """Return what a call of ``torch.compile`` was asked for.

    Args:
        number: Number of the call, from 0.
        arguments: Its keyword arguments; functions, as backend or among the options, count by their names.
    """
    return tuple(
        setting(Layer.KERNELS, f"compiled.{number}.{knob}", argument_text(knob, arguments.get(knob)), resolved=True)
        for knob in COMPILE_KNOBS
    )


def argument_text(knob: str, value: object) -> str:
    """Return an argument of ``torch.compile`` as it is recorded: never with a place in memory."""
    if value is None:
        return COMPILE_KNOBS[knob]
    if isinstance(value, Mapping):
        value = {name: name_of_callable(option) if callable(option) else option for name, option in value.items()}
    return name_of_callable(value) if callable(value) else str(value)


OPTIMIZER_KNOBS = ("foreach", "fused", "capturable", "differentiable")
"""Values of a parameter group that choose a kernel; all other values are rows of the recording."""


def optimizer_setting(name: str, values: Mapping[str, object]) -> tuple[Setting, ...]:
    """Return which kernels an optimizer was asked for.

    Args:
        name: Variable that holds the optimizer, else its number.
        values: Values of its first parameter group.
    """
    return tuple(
        setting(
            Layer.KERNELS,
            f"optimizer.{name}.{knob}",
            "default" if values[knob] is None else values[knob],
            resolved=True,
        )
        for knob in OPTIMIZER_KNOBS
        if knob in values
    )
