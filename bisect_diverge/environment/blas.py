"""Asks the loaded math libraries themselves; none is ever loaded for that."""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bisect_diverge.environment.knobs import loaded

if TYPE_CHECKING:
    from collections.abc import Iterator

CBWR_BRANCH = 1
"""Argument of ``mkl_serv_cbwr_get`` that asks for the branch (``MKL_CBWR_BRANCH`` in ``mkl_types.h``)."""

CBWR_NAMES = {
    1: "off",
    2: "AUTO",
    3: "COMPATIBLE",
    4: "SSE2",
    6: "SSSE3",
    7: "SSE4_1",
    8: "SSE4_2",
    9: "AVX",
    10: "AVX2",
    11: "AVX512_MIC",
    12: "AVX512",
    13: "AVX512_MIC_E1",
    14: "AVX512_E1",
}
"""Branches, from ``mkl_types.h``."""
CBWR_STRICT = 0x10000


def _mkl() -> Any:
    """Return the library that MKL is linked into, if the process has loaded it."""
    folder = Path(loaded("torch").__path__[0])
    return ctypes.CDLL(str(folder / "lib" / "libtorch_cpu.so"), mode=os.RTLD_NOLOAD | os.RTLD_NOW)


def mkl_cbwr() -> str:
    """Return MKL's reproducibility branch; there is no getter in torch."""
    value = int(_mkl().mkl_serv_cbwr_get(CBWR_BRANCH))
    name = CBWR_NAMES.get(value & ~CBWR_STRICT, str(value))
    return f"{name},STRICT" if value & CBWR_STRICT else name


def mkl_threads() -> int:
    """Return the most threads that MKL takes."""
    return int(_mkl().mkl_serv_get_max_threads())


def mkl_dynamic() -> bool:
    """Return whether MKL may take fewer threads than asked."""
    return bool(_mkl().mkl_serv_get_dynamic())


def libraries() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the loaded BLAS and OpenMP libraries under the name of the package that brought each.

    `threadpoolctl` asks them without loading any. It warns when two OpenMP runtimes are loaded that do not
    get along, on the user's standard error: then nothing is asked.
    """
    if "numpy" not in sys.modules and "torch" not in sys.modules:
        return
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
        if "libiomp" in maps and "libomp" in maps.replace("libiomp", ""):
            return
        found = _threadpoolctl().threadpool_info()
    except Exception:  # whatever goes wrong in there, the training goes on
        return
    seen = set()
    for library in sorted(found, key=lambda row: str(row["filepath"])):
        name = f"{library['user_api']}.{_package(Path(library['filepath']))}"
        if name not in seen:
            seen.add(name)
            yield name, library


def _threadpoolctl() -> Any:
    """Return the module, imported without the variable that it sets for the whole process."""
    before = os.environ.get("KMP_DUPLICATE_LIB_OK")
    module = importlib.import_module("threadpoolctl")
    if before is None:
        os.environ.pop("KMP_DUPLICATE_LIB_OK", None)
    return module


def _package(path: Path) -> str:
    """Return the package that a library came with, else the library's name."""
    for above, part in zip(path.parts, path.parts[1:], strict=False):
        if above in ("site-packages", "dist-packages"):
            return part.removesuffix(".libs")
    return path.name.split(".", 1)[0]
