"""Runtime: Python, C library, operating system, container, and the CUDA libraries."""

from __future__ import annotations

import locale
import os
import sys
import time
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


KNOBS: tuple[Knob, ...] = (
    Knob("python.executable", lambda: sys.executable, "path of the interpreter", resolved=False),
    Knob("python.version", _version, "the interpreter", resolved=False),
    Knob("python.implementation", lambda: sys.implementation.name, "the interpreter", resolved=False),
    Knob("python.build", lambda: sys.version, "version, date and compiler of the interpreter"),
    Knob("python.flags", _flags, "options of the interpreter, as -O or -X set them"),
    Knob("glibc", lambda: os.confstr("CS_GNU_LIBC_VERSION"), "the C library"),
    Knob("kernel", lambda: f"{os.uname().sysname} {os.uname().release}", "the operating system's kernel"),
    Knob("system", _system, "the distribution, from /etc/os-release"),
    Knob("machine", lambda: os.uname().machine, "architecture"),
    Knob("container", _container, "whether a container runs it; the image itself cannot be seen from inside"),
    Knob("locale", lambda: locale.setlocale(locale.LC_ALL, None), "locale in effect (asked, not set)"),
    Knob("timezone", lambda: "/".join(time.tzname), "time zone in effect"),
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
