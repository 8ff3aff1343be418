"""Runtime: Python, C library, operating system, container, and the CUDA libraries."""

from __future__ import annotations

import hashlib
import locale
import math
import os
import resource
import struct
import sys
import time
from functools import partial
from pathlib import Path

from bisect_diverge.environment.knobs import AbsentError, Knob, Variable, loaded

VARIABLES: tuple[Variable, ...] = (
    Variable("GLIBC_TUNABLES", "which instructions the C library's own functions use"),
    Variable("LANG", "locale"),
    Variable("LC_*", "locale"),
    Variable("TZ", "time zone"),
    Variable("PYTHONOPTIMIZE", "whether assertions are removed"),
    Variable("PYTHONUTF8", "default encoding"),
    Variable("PYTHONIOENCODING", "encoding of the standard streams"),
    Variable("PYTHONMALLOC", "Python's allocator"),
    Variable("MALLOC_*", "the C library's allocator; MALLOC_PERTURB_ fills uninitialised memory"),
    Variable("CUDA_HOME", "CUDA toolkit"),
    Variable("CUDA_PATH", "CUDA toolkit"),
    Variable("CUDA_VERSION", "CUDA, as container images declare it"),
    Variable("CUDNN_VERSION", "cuDNN, as container images declare it"),
    Variable("NV_*", "versions of libraries, as container images declare them"),
    Variable("NVIDIA_PYTORCH_VERSION", "container image"),
    Variable("NVIDIA_REQUIRE_CUDA", "container image"),
    Variable("APPTAINER_CONTAINER", "container image"),
    Variable("SINGULARITY_CONTAINER", "container image"),
    Variable("CONTAINER_IMAGE", "container image"),
    Variable("CONDA_DEFAULT_ENV", "name of the conda environment"),
    Variable("CXX", "compiler that torch.compile uses on the CPU"),
    Variable("CC", "compiler that triton uses"),
)


def _version() -> str:
    return ".".join(map(str, sys.version_info[:3])) + (
        "" if sys.version_info.releaselevel == "final" else sys.version_info.releaselevel
    )


FLAGS = (
    "optimize",
    "dev_mode",
    "utf8_mode",
    "isolated",
    "ignore_environment",
    "no_user_site",
    "no_site",
    "safe_path",
)
"""Options of the interpreter that can change what a script computes or finds."""


def _flags() -> str:
    on = [f"{name}={int(value)}" for name in FLAGS if (value := getattr(sys.flags, name, 0))]
    return ", ".join(on) or "none"


def _system() -> str:
    for line in Path("/etc/os-release").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition("=")
        if key == "PRETTY_NAME":
            return value.strip("\"'")
    raise AbsentError("PRETTY_NAME")


def _container() -> str:
    for name, marker in (("podman", "/run/.containerenv"), ("docker", "/.dockerenv")):
        if Path(marker).exists():
            return name
    return "none"


def _libm() -> str:
    """Return a hash of what the C library makes of some numbers: with and without FMA some of them differ."""
    points = [number / 64 for number in range(1, 2000)]
    values = [f(x) for f in (math.exp, math.sin) for x in points] + [math.pow(x, 1.7) for x in points]
    return hashlib.blake2b(struct.pack(f"<{len(values)}d", *values), digest_size=8).hexdigest()


ALLOCATORS = ("jemalloc", "tcmalloc", "mimalloc")
"""Parts of the names of libraries that take the place of the C library's allocator."""


def _allocator() -> str:
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    files = {Path(line.rpartition(" ")[2]).name for line in maps.splitlines() if ".so" in line}
    return next((name for name in ALLOCATORS if any(name in file for file in files)), "the C library's")


def _cudnn() -> object:
    """Return cuDNN's version once the script has started CUDA: asking earlier would load the library."""
    torch = loaded("torch")
    return torch.backends.cudnn.version() if torch.cuda.is_initialized() else None


def _nccl() -> object:
    torch = loaded("torch")
    return ".".join(map(str, torch.cuda.nccl.version())) if torch.cuda.is_initialized() else None


def _driver() -> object:
    torch = loaded("torch")
    return torch._C._cuda_getDriverVersion() if torch.cuda.is_initialized() else None


UMASK = "umask"
LIMIT = "limit."
"""How the knob of a limit of the operating system begins."""
UNLIMITED = "unlimited"
_LIMITS = {
    "nofile": "open files",
    "nproc": "processes and threads",
    "stack": "bytes of a thread's stack",
    "as": "bytes of address space",
    "data": "bytes of data",
    "fsize": "bytes of a file",
    "memlock": "bytes that are kept in memory",
}


def _umask() -> str:
    """Return the mask; asking the process for it would set it for a moment."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("Umask:"):
            return line.split()[1]
    raise AbsentError(UMASK)


def _limit(name: str) -> str:
    soft, _ = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))
    return UNLIMITED if soft == resource.RLIM_INFINITY else str(soft)


def _shared_memory() -> str:
    found = os.statvfs("/dev/shm")
    return str(found.f_blocks * found.f_frsize)


INHERITED: tuple[Knob, ...] = (
    Knob(UMASK, _umask, "which permissions new files do not get"),
    *(Knob(f"{LIMIT}{name}", partial(_limit, name), f"limit: {meaning}") for name, meaning in _LIMITS.items()),
)
"""What a process has from the shell that started it."""

KNOBS: tuple[Knob, ...] = (
    Knob("python.executable", lambda: sys.executable, "path of the interpreter", resolved=False),
    Knob("python.version", _version, "the interpreter", resolved=False),
    Knob("python.implementation", lambda: sys.implementation.name, "the interpreter", resolved=False),
    Knob("python.build", lambda: sys.version, "version, date and compiler of the interpreter"),
    Knob("python.flags", _flags, "options of the interpreter, as -O or -X set them"),
    Knob("glibc", lambda: os.confstr("CS_GNU_LIBC_VERSION"), "the C library"),
    Knob("libm", _libm, "hash of what the C library's exp, sin and pow make of some numbers"),
    Knob("allocator", _allocator, "which library allocates memory"),
    Knob("kernel", lambda: f"{os.uname().sysname} {os.uname().release}", "the operating system's kernel"),
    Knob("system", _system, "the distribution, from /etc/os-release"),
    Knob("machine", lambda: os.uname().machine, "architecture"),
    Knob("container", _container, "whether a container runs it; the image itself cannot be seen from inside"),
    Knob("locale", lambda: locale.setlocale(locale.LC_ALL, None), "locale in effect (asked, not set)"),
    Knob("timezone", lambda: "/".join(time.tzname), "time zone in effect"),
    *INHERITED,
    Knob("shared_memory", _shared_memory, "bytes of /dev/shm, which loader workers need"),
    Knob("encoding", sys.getfilesystemencoding, "encoding of file names"),
    Knob("torch.version", lambda: loaded("torch").__version__, "torch as imported"),
    Knob("torch.git", lambda: loaded("torch").version.git_version, "revision that torch was built from"),
    Knob("torch.cuda", lambda: loaded("torch").version.cuda, "CUDA that torch was built with"),
    Knob("torch.hip", lambda: loaded("torch").version.hip, "ROCm that torch was built with"),
    Knob("cudnn", _cudnn, "cuDNN, once CUDA is started"),
    Knob("nccl", _nccl, "NCCL, once CUDA is started"),
    Knob("cuda.driver", _driver, "the driver's CUDA version, once CUDA is started"),
    Knob("numpy.version", lambda: loaded("numpy").__version__, "numpy as imported"),
)
