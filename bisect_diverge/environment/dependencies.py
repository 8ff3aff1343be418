"""Dependencies: every installed distribution with its version, and what decides which are found."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.environment.knobs import Variable, setting
from bisect_diverge.model.environment import Layer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.model.environment import Setting

VARIABLES: tuple[Variable, ...] = (
    Variable("PYTHONPATH", "directories searched before the installed packages"),
    Variable("PYTHONNOUSERSITE", "whether the user's own packages are left out"),
    Variable("PYTHONUSERBASE", "where the user's own packages are"),
    Variable("PYTHONHOME", "where Python's own library is"),
    Variable("TORCH_DEVICE_BACKEND_AUTOLOAD", "whether torch loads plug-ins"),
    Variable("LD_PRELOAD", "libraries loaded before all others"),
    Variable("LD_LIBRARY_PATH", "directories searched for libraries first"),
)

EDITED = "edited in place"
"""Origin of a package that is imported from the folder where its author works."""
FOLDER = "from a folder"
"""Origin of a package that was installed from a folder or a file, not from an index."""
OURS = "bisect-diverge"
"""The recorder is no part of the run that it records."""

_FOLDER = re.compile(r"(?P<name>.+?)-(?P<version>\d[^-]*)(-py[\d.]+)?\.(dist|egg)-info", re.IGNORECASE)


def normal(name: str) -> str:
    """Return the normal form of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read(path: Sequence[str] | None = None) -> Iterator[Setting]:
    """Yield each distribution on a search path, the first of each name: that is the one imported.

    Names and versions come from the folders' names (``numpy-2.4.6.dist-info``), read from the metadata only
    where those do not tell: `importlib.metadata` takes 30 ms to import and opens every file.

    Args:
        path: Directories; None: ``sys.path``.
    """
    found: dict[str, str] = {}
    for directory in sys.path if path is None else path:
        try:
            names = os.listdir(directory or ".")  # noqa: PTH208 - sys.path may hold an empty text
        except OSError:
            continue
        for folder in sorted(names):
            if not folder.endswith((".dist-info", ".egg-info")):
                continue
            with contextlib.suppress(OSError):
                name, version = _distribution(directory, folder)
                if name:
                    found.setdefault(normal(name), version)
    found.pop(OURS, None)
    for name in sorted(found):
        yield setting(Layer.DEPENDENCIES, name, found[name], resolved=False)


def release(version: str) -> str:
    """Return the release in a version as it is recorded: without its origin."""
    return version.partition(" (")[0]


def origin_in(version: str) -> str:
    """Return the origin in a version as it is recorded; empty for a package of an index."""
    return version.partition(" (")[2].removesuffix(")")


def origin_of(info: Path) -> str:
    """Return from where a package was installed, if not from an index: a revision, an address, `EDITED`, `FOLDER`.

    Args:
        info: Its ``.dist-info`` folder, in which installers write ``direct_url.json`` (PEP 610).
    """
    try:
        found = json.loads((info / "direct_url.json").read_text(encoding="utf-8"))
        url = str(found["url"])
        if "vcs_info" in found:
            return f"{found['vcs_info']['vcs']}+{url}@{found['vcs_info']['commit_id']}"
    except (OSError, ValueError, LookupError, TypeError):
        return ""
    if found.get("dir_info", {}).get("editable"):
        return EDITED
    return url if url.startswith(("http:", "https:")) else FOLDER


def _distribution(directory: str, folder: str) -> tuple[str, str]:
    """Return name and version of a distribution; the name is empty when it cannot be told."""
    match = _FOLDER.fullmatch(folder)
    if match:
        origin = origin_of(Path(directory) / folder)
        return match["name"], f"{match['version']} ({origin})" if origin else match["version"]
    fields = {"Name": "", "Version": ""}
    place = Path(directory) / folder
    for metadata in (place / "METADATA", place / "PKG-INFO", place):
        if metadata.is_file():
            head, _, _ = metadata.read_text(encoding="utf-8", errors="replace").partition("\n\n")
            for line in head.splitlines():
                key, _, value = line.partition(":")
                if key in fields:
                    fields[key] = value.strip()
            break
    return fields["Name"], fields["Version"]


def top_level(name: str, directory: str) -> set[str]:
    """Return what a package has put into a directory, by its list of files, else by its name."""
    plain = name.replace("-", "_")
    found = {plain, f"{plain}.py", f"{plain}.libs", f"{name}.libs"}
    for info in Path(directory).glob("*-info"):
        if normal(info.name.split("-")[0]) != name:
            continue
        found.add(info.name)
        for table, separator in (("RECORD", ","), ("top_level.txt", "\n")):
            if (info / table).is_file():
                lines = (info / table).read_text(encoding="utf-8", errors="replace").splitlines()
                found.update(line.split(separator)[0].split("/")[0].strip() for line in lines)
    return {entry for entry in found if entry and entry not in (".", "..", "__pycache__", "bin")}
