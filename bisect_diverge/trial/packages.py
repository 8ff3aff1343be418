"""Another version of a package laid over the installed ones: where it lies already, or built once and kept."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from bisect_diverge.environment.dependencies import EDITED, FOLDER, normal, origin_in, read, top_level

if TYPE_CHECKING:
    from collections.abc import Iterable

BUILD_SECONDS = 600
_MISSING = re.compile(r"No module named '?(uv|pip)\b")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a version of a package lies."""

    directory: str
    """Directory to be searched first."""
    alone: bool
    """Nothing else that differs lies there."""


class CannotBuildError(Exception):
    """A configuration cannot be made here; the text says why."""


def versions(directory: str) -> dict[str, str]:
    """Return the distributions in a directory with their versions."""
    return {setting.knob: setting.value for setting in read([directory])}


def entries(path: str | None, cwd: str) -> tuple[str, ...]:
    """Return the directories of a ``PYTHONPATH``, absolute."""
    return tuple(os.path.join(cwd, part) for part in (path or "").split(os.pathsep) if part)  # noqa: PTH118


def find(name: str, version: str, directories: Iterable[str]) -> str | None:
    """Return the first directory in which a version of a package lies."""
    return next((place for place in directories if versions(place).get(name) == version), None)


def cache_directory() -> Path:
    """Return where built packages are kept between searches."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "bisect-diverge" / "packages"


def build(name: str, version: str, interpreter: str) -> str:
    """Return a directory with a version of a package, built by uv or pip when it was never asked for before.

    Raises:
        CannotBuildError: if it cannot be built.
    """
    tag = _plain(interpreter.strip("/"))[-60:]
    target = cache_directory() / f"{name}-{_plain(version)}-{tag}"
    if versions(str(target)).get(name) == version:
        return str(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".building-") as folder:
            _install(name, version, interpreter, Path(folder) / "packages")
            shutil.rmtree(target, ignore_errors=True)
            (Path(folder) / "packages").rename(target)
    except OSError as error:
        raise CannotBuildError(f"{name} {version} cannot be kept in {target.parent}: {error.strerror}") from error
    return str(target)


def _install(name: str, version: str, interpreter: str, target: Path) -> None:
    wanted = ["--no-deps", "--quiet", "--target", str(target), _requirement(name, version)]
    trouble = ""
    for installer in _installers(interpreter):
        try:
            done = subprocess.run(
                [*installer, *wanted], capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            trouble = trouble or str(error)
            continue
        if done.returncode == 0 and versions(str(target)).get(name) == version:
            return
        if not _MISSING.search(done.stderr):
            trouble = trouble or _said(done.stderr) or f"status {done.returncode}"
    raise CannotBuildError(
        f"{name} {version} cannot be installed here: {trouble or 'neither uv nor pip is there (pip install uv)'}"
    )


def _said(errors: str) -> str:
    """Return what an installer says was wrong: the first and the last of its words on it."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    words = [line.removeprefix("error: ").removeprefix("hint: ").removeprefix("cause: ") for line in lines]
    if not words:
        return ""
    return ": ".join(dict.fromkeys((words[0], words[-1]))) if lines[-1].startswith("cause: ") else words[-1]


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", text)


def _requirement(name: str, version: str) -> str:
    """Return what an installer is asked for.

    Raises:
        CannotBuildError: for a package that is on no index: another one may bear its name there.
    """
    origin = origin_in(version)
    if origin in (EDITED, FOLDER):
        raise CannotBuildError(f"{name} {version} is not on this machine any more, and was not installed from an index")
    return f"{name} @ {origin}" if origin else f"{name}=={version}"


def _installers(interpreter: str) -> list[list[str]]:
    uv = shutil.which("uv")
    with_uv = [uv] if uv else [sys.executable, "-m", "uv"]
    return [
        [*with_uv, "pip", "install", "--python", interpreter],
        [interpreter, "-m", "pip", "install", "--disable-pip-version-check"],
    ]


def only(names: Iterable[str], directory: str, folder: Path) -> str:
    """Return a directory with links to some packages of another directory.

    Args:
        names: The packages.
        directory: Where they lie.
        folder: Where the links are made.
    """
    links = folder / f"packages-{len(list(folder.iterdir()))}"
    links.mkdir()
    for name in names:
        for entry in top_level(name, directory):
            if (Path(directory) / entry).exists():
                (links / entry).symlink_to(Path(directory) / entry)
    return str(links)


def without(names: Iterable[str], directory: str, folder: Path) -> str:
    """Return a directory with links to everything in another one but the files of some packages.

    Args:
        names: The packages.
        directory: Where they lie.
        folder: Where the links are made.

    Raises:
        CannotBuildError: if it is not known which files are theirs.
    """
    gone: set[str] = set()
    for name in names:
        for info in Path(directory).glob("*.dist-info"):
            if normal(info.name.split("-")[0]) == name:
                gone |= _files_of(info, name)
    links = folder / f"packages-{len(list(folder.iterdir()))}"
    links.mkdir()
    folders = {str(parent) for path in gone for parent in PurePosixPath(path).parents}
    todo = [""]
    while todo:
        for entry in os.scandir(Path(directory) / (within := todo.pop())):
            path = f"{within}/{entry.name}".lstrip("/")
            if path in gone or entry.name == "__pycache__":
                continue
            if path in folders and entry.is_dir():
                todo.append(path)
                continue
            (links / path).parent.mkdir(parents=True, exist_ok=True)
            (links / path).symlink_to(entry.path)
    return str(links)


def _files_of(info: Path, name: str) -> set[str]:
    try:
        lines = (info / "RECORD").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise CannotBuildError(f"which files {name} has put into {info.parent} is not known") from error
    return {row[0] for row in csv.reader(lines) if row} | {f"{info.name}/{path.name}" for path in info.iterdir()}
