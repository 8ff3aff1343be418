"""Two recorded runs of the tiny script that differ in a flag, a variable and a decoy."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.helpers.command import bd

SCRIPT = Path(__file__).with_name("training.py")


def record(folder, name, *flags, **variables):
    """Record the script in a folder, which then holds its outputs."""
    (folder / "final.pt").unlink(missing_ok=True)
    bd("record", "-o", name, "--", sys.executable, "training.py", *flags, cwd=folder, **variables)


@pytest.fixture(scope="package")
def runs(tmp_path_factory):
    """Folder with the runs ``a`` and ``b``; tests leave it as it is."""
    folder = tmp_path_factory.mktemp("runs")
    shutil.copy(SCRIPT, folder)
    record(folder, "a", PYTHONHASHSEED="1")
    record(folder, "b", "--lr", "0.2", PYTHONHASHSEED="2", MKL_ENABLE_INSTRUCTIONS="SSE4_2")
    return folder


def contents(folder):
    """Return path to content, time and mode of everything in a folder but the journals."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if "trials" not in path.parts and path.name != "trials" and path.name not in ("a", "b"):
            status = path.stat()
            content = path.read_bytes() if path.is_file() else b""
            found[str(path.relative_to(folder))] = (content, status.st_mtime_ns, status.st_mode)
    return found
