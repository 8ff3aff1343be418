"""Tiny packages as wheels, for an index that is a folder."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path


def wheel(folder: Path, name: str, version: str, body: str = "", requires: Sequence[str] = ()) -> Path:
    """Make a wheel of a package with one module.

    Args:
        folder: Where it is put.
        name: Name of the package and of its module.
        version: Its version.
        body: Text of the module.
        requires: What it requires, as in ``kit==1.0``.
    """
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {line}\n" for line in requires)
    files = {
        f"{name}/__init__.py": body,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return path


def unpacked(folder: Path, name: str, version: str, body: str = "", requires: Sequence[str] = ()) -> Path:
    """Put a package into a folder, as an installer would."""
    with zipfile.ZipFile(wheel(folder.parent / "made", name, version, body, requires)) as archive:
        archive.extractall(folder)
    return folder


def index_variables(folder: Path) -> dict[str, str]:
    """Return the variables that make a folder of wheels the only index of pip and uv."""
    place = str(folder)
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": place, "UV_NO_INDEX": "1", "UV_FIND_LINKS": place}
