"""Hardware: processors, accelerators, threads, loader workers, world size."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bisect_diverge.environment import blas
from bisect_diverge.environment.knobs import Knob, Variable, call, loaded, setting, setting_of_all
from bisect_diverge.model.environment import Layer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bisect_diverge.model.environment import Setting

VARIABLES: tuple[Variable, ...] = (
    Variable("OMP_*", "threads of OpenMP, and so of torch"),
    Variable("GOMP_*", "GNU's OpenMP"),
    Variable("KMP_*", "Intel's and LLVM's OpenMP"),
    Variable("MKL_NUM_THREADS", "threads of MKL; torch takes no more than these"),
    Variable("MKL_DOMAIN_NUM_THREADS", "threads of parts of MKL"),
    Variable("MKL_DYNAMIC", "whether MKL may take fewer threads than asked (it caps at the number of cores)"),
    Variable("OPENBLAS_NUM_THREADS", "threads of OpenBLAS, which numpy uses"),
    Variable("GOTO_NUM_THREADS", "the same, old name"),
    Variable("BLIS_NUM_THREADS", "threads of BLIS"),
    Variable("VECLIB_MAXIMUM_THREADS", "threads of Accelerate"),
    Variable("NUMEXPR_NUM_THREADS", "threads of numexpr"),
    Variable("NUMEXPR_MAX_THREADS", "threads of numexpr"),
    Variable("NUMBA_NUM_THREADS", "threads of numba"),
    Variable("POLARS_MAX_THREADS", "threads of polars"),
    Variable("RAYON_NUM_THREADS", "threads of Rust libraries (tokenizers)"),
    Variable("TORCHINDUCTOR_COMPILE_THREADS", "processes that compile"),
    Variable("CUDA_VISIBLE_DEVICES", "which accelerators, in which order"),
    Variable("CUDA_DEVICE_ORDER", "order in which accelerators are numbered"),
    Variable("HIP_VISIBLE_DEVICES", "which accelerators"),
    Variable("ROCR_VISIBLE_DEVICES", "which accelerators"),
    Variable("NVIDIA_VISIBLE_DEVICES", "which accelerators, for a container"),
    Variable("WORLD_SIZE", "number of ranks"),
    Variable("RANK", "this process among them"),
    Variable("LOCAL_WORLD_SIZE", "ranks on this host"),
    Variable("LOCAL_RANK", "this process among them"),
    Variable("SLURM_NTASKS", "number of ranks as Slurm has it"),
    Variable("SLURM_NNODES", "number of hosts"),
    Variable("SLURM_CPUS_PER_TASK", "processors for each rank"),
    Variable("SLURM_GPUS_ON_NODE", "accelerators on this host"),
)


def _cpu_model() -> str | None:
    fields: dict[str, str] = {}
    with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if not line.strip():
                break
            key, _, value = line.partition(":")
            fields[key.strip()] = value.strip()
    model = fields.get("model name") or fields.get("CPU part")
    if model is None:
        return None
    numbers = [fields[key] for key in ("cpu family", "model", "stepping") if key in fields]
    return f"{model} ({'/'.join(numbers)})" if numbers else model


def _quota() -> str | None:
    """Return the processors that the control group allows, from its own directory upwards the smallest."""
    limits = []
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        number, controllers, place = line.split(":", 2)
        if number == "0":
            root, names = Path("/sys/fs/cgroup"), ["cpu.max"]
        elif "cpu" in controllers.split(","):
            root, names = Path("/sys/fs/cgroup/cpu"), ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        else:
            continue
        inner = root / place.lstrip("/")
        for directory in (inner, *inner.parents):
            if not directory.is_relative_to(root):
                break
            try:
                quota, period = " ".join((directory / name).read_text() for name in names).split()
            except (OSError, ValueError):
                continue
            if quota not in ("max", "-1"):
                limits.append(int(quota) / int(period))
    return f"{min(limits):g}" if limits else None


def _accelerators() -> object:
    """Return how many accelerators the script sees, once it has started one."""
    torch = loaded("torch")
    return torch.cuda.device_count() if torch.cuda.is_initialized() else None


def _accelerator_models() -> str | None:
    torch: Any = loaded("torch")
    if not torch.cuda.is_initialized():
        return None
    models = []
    for index in range(torch.cuda.device_count()):
        p = torch.cuda.get_device_properties(index)
        models.append(f"{p.name} ({p.major}.{p.minor}, {p.multi_processor_count} SMs, {p.total_memory >> 20} MiB)")
    return "; ".join(models)


def _world_size() -> int | None:
    """Return the number of ranks of the process group, else of the launcher's variables; None: there is neither."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_world_size())
    return int(os.environ["WORLD_SIZE"]) if "WORLD_SIZE" in os.environ else None


KNOBS: tuple[Knob, ...] = (
    Knob("cpu.model", _cpu_model, "processor, with family, model and stepping"),
    Knob("cpu.logical", os.cpu_count, "logical processors of the machine"),
    Knob("affinity", lambda: len(os.sched_getaffinity(0)), "processors this process may use", resolved=False),
    Knob("cgroup.cpus", _quota, "processors' worth of time that the container allows", resolved=False),
    Knob("accelerators", _accelerators, "number of accelerators, once one is started"),
    Knob("accelerator.models", _accelerator_models, "their models, capability, size; once one is started"),
    Knob("world.size", _world_size, "number of ranks: of the process group, else as the launcher says"),
    Knob("threads.intra_op", call("torch", "get_num_threads"), "threads of one torch operation"),
    Knob("threads.inter_op", call("torch", "get_num_interop_threads"), "torch operations at a time"),
    Knob("threads.mkl", blas.mkl_threads, "threads of MKL inside torch"),
    Knob("mkl.dynamic", blas.mkl_dynamic, "whether MKL may take fewer threads than asked"),
)


def read_libraries() -> Iterator[Setting]:
    """Yield the threads of each BLAS and OpenMP library that is loaded: ``blas.numpy.threads``, ..."""
    for name, library in blas.libraries():
        if library.get("num_threads") is not None:
            yield setting(Layer.HARDWARE, f"{name}.threads", library["num_threads"], resolved=True)


def device_setting(name: str, weights: Iterable[Any]) -> tuple[Setting, ...]:
    """Return on which devices a model lies; none where it has no weights.

    Args:
        name: Root of the model.
        weights: Its parameters.
    """
    return setting_of_all(Layer.HARDWARE, f"model.{name}.device", (weight.device for weight in weights))


def loader_setting(
    name: str,
    num_workers: int,
    *,
    prefetch_factor: int | None = None,
    persistent_workers: bool = False,
    multiprocessing_context: object = None,
    in_order: bool = True,
    pin_memory: bool = False,
    threads: int | None = None,
) -> tuple[Setting, ...]:
    """Return what a data loader resolved to; the arguments are the loader's own.

    Args:
        name: Variable that holds the loader, else its number.
        num_workers: Worker processes; a worker computes with one thread, so that this changes bits without
        any
            randomness.
        prefetch_factor: Batches fetched ahead by each worker.
        persistent_workers: Whether the workers live on between epochs.
        multiprocessing_context: A context, the name of a start method, or None for the platform's.
        in_order: Whether batches come in the order of their indices.
        pin_memory: Whether batches are copied into pinned memory.
        threads: Threads of a torch operation where the samples are made: in a worker, without workers in this process;
            None: not known.
    """
    values: dict[str, object] = {"num_workers": num_workers, "pin_memory": pin_memory}
    if num_workers:
        values["prefetch_factor"] = prefetch_factor
        values["persistent_workers"] = persistent_workers
        values["start_method"] = _start_method(multiprocessing_context)
        values["in_order"] = in_order
    if threads is not None:
        values["threads"] = threads
    return tuple(
        setting(Layer.HARDWARE, f"loader.{name}.{knob}", value, resolved=True) for knob, value in values.items()
    )


def _start_method(context: object) -> str:
    """Return how workers are started; asking must not fix the default that the script may still choose."""
    import multiprocessing

    if isinstance(context, str):
        return context
    own = getattr(context, "_name", None)
    if isinstance(own, str):
        return own
    return multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
