"""Writes the tensors of a run for other programs: one tree of HDF5 datasets, or one archive for each rank and step.

What is being written has another name until it is whole, so that nothing half-written looks like a result.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import uuid
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from bisect_diverge.errors import OutputExistsError, UsageError
from bisect_diverge.store.selection import Chosen, Wanted, chosen, chosen_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from bisect_diverge.store.reader import Run, RunFile

    Save = Callable[[Path, dict[str, NDArray[Any]], dict[str, dict[str, Any]]], None]

INDEX = "index.json"
"""Member of an ``.npz`` archive that says what each tensor is: names to attributes, UTF-8 JSON as uint8[n]."""

LONGEST_MEMBER = 60_000
"""Bytes of the longest name of a member; a ZIP archive holds at most 65535."""

LONGEST_ATTRIBUTE = 10_000
"""Characters of an attribute that are written; HDF5 holds 64 KiB."""

_ARCHIVES = re.compile(r"rank-\d{5}")


@dataclass(slots=True)
class Exported:
    """What was written."""

    path: Path
    """File or directory."""
    tensors: int = 0
    """Tensors in it."""
    left_out: int = 0
    """Records that were asked for and whose tensor is not in the run's files."""


def export_tree(run: Run, out: Path, wanted: Wanted, *, force: bool = False) -> Exported:
    """Write a file with one dataset for each tensor, ``/r0/3/0/forward/model:blocks.2.attn#0/output.0``.

    Each has the attributes ``address``, ``dtype``, ``digest``, ``module_type``, ``site`` and ``row``. Types that HDF5
    has no number for (bfloat16, float8, complex32) are unsigned integers of the same width, bit for bit.

    Raises:
        OutputExistsError: if `out` exists and `force` is not given.
        DamagedRunError: if a tensor cannot be read; nothing is left at `out` then.
    """
    done = Exported(out)
    with _becoming(run, out, force=force) as partial, h5py.File(partial, "w", libver=("v110", "v110")) as target:
        for file, rows in _steps(run, wanted):
            for entry in _counted(chosen(file, rows), len(rows), done):
                _dataset(target, entry, file.tensor(entry.record.row))
    return done


def export_archives(run: Run, out: Path, wanted: Wanted, suffix: str, save: Save, *, force: bool = False) -> Exported:
    """Write a directory with one archive for each rank and step, ``rank-00000/step-000003.npz``.

    Args:
        run: The run.
        out: Directory to make.
        wanted: What to export.
        suffix: ``npz`` or ``pt``.
        save: Writes one archive: path, names to arrays as stored, names to attributes.
        force: Replace what is at `out`.

    Raises:
        OutputExistsError: if `out` exists and `force` is not given.
        DamagedRunError: if a tensor cannot be read; nothing is left at `out` then.
    """
    done = Exported(out)
    with _becoming(run, out, force=force) as partial:
        partial.mkdir()
        for file, rows in _steps(run, wanted):
            arrays: dict[str, NDArray[Any]] = {}
            index: dict[str, dict[str, Any]] = {}
            for entry in _counted(chosen(file, rows), len(rows), done):
                name = "/".join(entry.parts[2:])
                tensor = file.tensor(entry.record.row)
                if tensor is not None:  # `chosen` yields none without
                    arrays[name], index[name] = tensor, entry.attributes()
            if arrays:
                folder = partial / f"rank-{file.record.rank:05d}"
                folder.mkdir(exist_ok=True)
                step = int(file.events["step"][rows[0]])
                save(folder / f"step-{step:06d}.{suffix}", arrays, index)
    return done


def save_npz(path: Path, arrays: dict[str, NDArray[Any]], index: dict[str, dict[str, Any]]) -> None:
    """Write an uncompressed archive that `numpy.load` reads without pickle; `INDEX` says what each array is."""
    text = json.dumps(index).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in [*arrays.items(), (INDEX, np.frombuffer(text, np.uint8))]:
            if len(name.encode()) > LONGEST_MEMBER:
                raise UsageError(
                    f"a name of {len(name)} characters does not fit into a .npz archive", hint="--format h5"
                )
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _steps(run: Run, wanted: Wanted) -> Iterator[tuple[RunFile, NDArray[np.int64]]]:
    found = False
    for rank in sorted(run.ranks):
        for rows in chosen_rows(run.ranks[rank], wanted).values():
            found = True
            yield run.ranks[rank], rows
    if not found:
        raise UsageError(f"{run.path} has no record that fits", hint=f"bd show {run.path} lists its steps and roots")


def _counted(entries: Iterable[Chosen], asked: int, done: Exported) -> Iterator[Chosen]:
    """Yield entries and count them, and what was asked for and is not there."""
    count = 0
    for entry in entries:
        count += 1
        yield entry
    done.tensors += count
    done.left_out += asked - count


def _dataset(target: Any, entry: Chosen, tensor: NDArray[Any] | None) -> None:
    found = target.create_dataset("/".join(entry.parts), data=tensor)
    for name, value in entry.attributes().items():
        if name != "shape":
            found.attrs[name] = _text(value) if isinstance(value, str) else value


def _text(value: str) -> str:
    """Return a text as an HDF5 attribute can hold it: without lone surrogates and NUL, and not endless."""
    return value.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")[:LONGEST_ATTRIBUTE]


@contextlib.contextmanager
def _becoming(run: Run, out: Path, *, force: bool) -> Iterator[Path]:
    """Give a name to write to, beside the final one; move it there when everything went well, else remove it."""
    _check_place(run, out, force=force)
    partial = out.with_name(f".{out.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.partial")
    try:
        yield partial
        if out.is_dir() and not out.is_symlink():
            shutil.rmtree(out)
        partial.replace(out)
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"{out} cannot be written: {error}", hint="choose another place with -o") from error
    finally:
        shutil.rmtree(partial) if partial.is_dir() else partial.unlink(missing_ok=True)


def _check_place(run: Run, out: Path, *, force: bool) -> None:
    """Raise an error unless something may be written there: never over a run, nor over a folder of other things."""
    another = "choose another place with -o"
    place = out.resolve()
    for file in run.ranks.values():
        if file.path.resolve().is_relative_to(place):
            raise UsageError(f"{out} is, or holds, the run itself", hint=another)
    if out.is_dir() and not all(_ARCHIVES.fullmatch(entry.name) for entry in out.iterdir()):
        raise OutputExistsError(f"{out} holds other things than an export: it is not replaced", hint=another)
    if out.exists() and not force:
        raise OutputExistsError(f"{out} exists", hint="choose another with -o, or add --force to replace it")
    if not out.parent.is_dir():
        raise UsageError(f"there is no directory {out.parent}", hint=f"mkdir -p {out.parent}")
