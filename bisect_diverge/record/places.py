"""Where a trial's process finds its files: its own in a scratch directory, others as they are, or elsewhere.

Standard library only, and imported before the script's first line.
"""

from __future__ import annotations

import os
import stat as stat_module
from collections.abc import Iterable
from typing import Any

from bisect_diverge.record.led_inputs import Inputs
from bisect_diverge.record.native import READ, WRITE, is_path
from bisect_diverge.record.real_os import REAL, is_plain, is_there, real_open

EXCLUDED = ("/dev", "/proc", "/sys")
"""Not diverted: no files of the user's."""


class Places:
    """Maps paths.

    Args:
        scratch: Directory of the trial.
        hidden: Files that must not be seen.
        remade: Folders that may be made again.
        inputs: What is read otherwise.
    """

    def __init__(self, scratch: str, hidden: Iterable[str], remade: Iterable[str], inputs: Inputs) -> None:
        self.scratch = os.path.abspath(scratch)  # noqa: PTH100 - pathlib would be imported into every process
        self.layer = f"{self.scratch}/files"
        self.inputs = inputs
        inputs.note_in(self.scratch)
        self.gone = set(hidden) - inputs.paths.keys()
        self.remade = set(remade)
        self._excluded = tuple(f"{place}/" for place in (*EXCLUDED, self.scratch))

    def absolute(self, path: Any, dir_fd: int | None = None) -> str | None:
        """Return the absolute path of what may be diverted; None for a descriptor and for places that never are."""
        if path is None or isinstance(path, int):
            return None
        text = os.fsdecode(path)
        if dir_fd is not None and not text.startswith("/"):
            text = f"{REAL['readlink'](f'/proc/self/fd/{dir_fd}')}/{text}"
        absolute = os.path.abspath(text)  # noqa: PTH100
        if absolute.startswith("//"):  # POSIX lets two slashes at the beginning stand; they mean the same here
            absolute = absolute[1:]
        if absolute.startswith(f"{self.layer}/"):  # named through a descriptor of a folder in the scratch directory
            return absolute[len(self.layer) :]
        excluded = f"{absolute}/".startswith(self._excluded) and not self.inputs.concerns(absolute)
        return None if excluded else absolute

    def copy(self, absolute: str) -> str:
        """Return the place in the scratch directory."""
        return self.layer + absolute

    def is_gone(self, absolute: str) -> bool:
        """Whether what lies at a path, or a folder above it, is hidden or was removed."""
        if not self.gone:
            return False
        while len(absolute) > 1:
            if absolute in self.gone:
                return True
            absolute = os.path.dirname(absolute)  # noqa: PTH120
        return False

    def to_read(self, absolute: str) -> str:
        """Return the path to read."""
        copy = self.copy(absolute)
        if is_there(copy) or self.is_gone(absolute):
            return copy
        return self.inputs.found(absolute)

    def exists(self, absolute: str) -> bool:
        """Whether the process sees something there."""
        return is_there(self.to_read(absolute))

    def to_write(self, absolute: str, *, keep: bool) -> str:
        """Return the path to write, with what is there copied to it if `keep`."""
        copy = self.copy(absolute)
        if is_there(copy):
            return copy
        origin = self.inputs.found(absolute)
        visible = not self.is_gone(absolute) and is_there(origin)
        if visible and not is_plain(origin):
            return origin  # a pipe, a terminal, a socket
        self.prepare_parent(absolute)
        if visible and keep:
            self.take(absolute, copy)
        return copy

    def prepare_parent(self, absolute: str) -> None:
        """Make the folder above a path in the scratch directory, if the process sees such a folder."""
        parent = os.path.dirname(absolute)  # noqa: PTH120
        if not self.exists(parent):
            return
        missing = []
        while not is_there(self.copy(parent)):
            missing.append(parent)
            parent = os.path.dirname(parent) if len(parent) > 1 else ""  # noqa: PTH120
        for folder in reversed(missing):
            try:
                REAL["mkdir"](self.copy(folder))
            except FileExistsError:  # another rank
                continue

    def take(self, absolute: str, copy: str) -> None:
        """Copy a file or folder into the scratch directory."""
        origin = self.inputs.found(absolute)
        if stat_module.S_ISDIR(REAL["stat"](origin).st_mode):
            self.prepare_parent(absolute)
            REAL["mkdir"](copy)
            for name in self.os_listdir(absolute):
                self.to_write(f"{absolute}/{name}", keep=True)
            return
        with real_open(origin, "rb") as source, real_open(copy, "wb") as target:
            while block := source.read(1 << 20):
                target.write(block)
        REAL["chmod"](copy, stat_module.S_IMODE(REAL["stat"](origin).st_mode) | stat_module.S_IWUSR)

    def place(self, path: Any, use: str) -> Any:
        """Return the path that a library is given which opens a file by itself (`record.native`)."""
        absolute = self.absolute(path) if is_path(path) else None
        if absolute is None:
            return path
        if use != WRITE:
            self.inputs.note(absolute)
        place = self.to_read(absolute) if use == READ else self.to_write(absolute, keep=use != WRITE)
        return path if place == absolute else place

    def os_listdir(self, path: Any = ".") -> list[Any]:
        """``os.listdir``."""
        absolute = self.absolute(path)
        if absolute is None:
            names: list[Any] = REAL["listdir"](path)
            return names
        found = self._names(absolute)
        return [os.fsencode(name) for name in found] if isinstance(path, bytes) else found

    def _names(self, absolute: str) -> list[str]:
        """Return the names in a folder, in the order in which the process sees them.

        Where the folder is to be listed as it was recorded: the recorded names that can be read, then what this process
        has made; a name that has come since is not seen.
        """
        copy = self.copy(absolute)
        made: list[str] = REAL["listdir"](copy) if is_there(copy) else []
        if is_there(copy) and (self.is_gone(absolute) or not is_there(absolute)):
            found = list(made)
        else:
            own = REAL["listdir"](copy if self.is_gone(absolute) else self.inputs.found(absolute))
            found = [name for name in own if name in made or not self.is_gone(f"{absolute}/{name}")]
            found += [name for name in made if name not in own]
        found += [name for name in self.inputs.children.get(absolute, ()) if name not in found]
        recorded = self.inputs.listings.get(absolute)
        if recorded is None:
            return found
        self.inputs.note(absolute)
        there = set(found)
        return [name for name in recorded if name in there] + sorted(set(made) - set(recorded), key=found.index)
