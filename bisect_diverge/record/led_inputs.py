"""What a trial reads otherwise than it is there, and what is told of it.

Standard library only, and imported before the script's first line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from bisect_diverge.record.real_os import REAL, real_open

SEEN = "seen-"
"""How a file in the scratch directory begins in which a process notes what it opens, for its parent and other ranks."""

OPENED = "opened"
"""Word for a file that was opened, or a folder that was listed."""
NOT_OPENED = "not opened"
"""Word for one that was not."""


class Inputs:
    """What a process reads otherwise than it is there.

    Args:
        row: JSON object with any of the keys ``paths`` (absolute path of a file or folder to the one that is read
            instead), ``listings`` (absolute path of a folder to the names in it, in their order) and ``expected``
            (absolute path to pairs of ``layer.knob`` and the word, `OPENED` or `NOT_OPENED`, that is to be told).
    """

    def __init__(self, row: dict[str, Any] | None = None) -> None:
        row = row or {}
        self.paths: dict[str, str] = row.get("paths", {})
        self.listings: dict[str, list[str]] = row.get("listings", {})
        self.expected: dict[str, list[tuple[str, str]]] = row.get("expected", {})
        self.children: dict[str, list[str]] = {}
        """Folder to the names of what is read in it although it may not be there."""
        for path in self.paths:
            self.children.setdefault(os.path.dirname(path), []).append(os.path.basename(path))  # noqa: PTH119, PTH120
        self.leads = {place: path for path, place in self.paths.items()}
        """The other way round: a script that is told the other place asks for it by itself."""
        self._scratch = ""
        self._seen: set[str] = set()

    def found(self, absolute: str) -> str:
        """Return the path that is read for another."""
        above = absolute if self.paths else ""
        while len(above) > 1:
            place = self.paths.get(above)
            if place is not None:
                return place + absolute[len(above) :]
            above = os.path.dirname(above)  # noqa: PTH120
        return absolute

    def concerns(self, absolute: str) -> bool:
        """Whether a path is read otherwise than it is there, or is to be told of."""
        return any(absolute in table for table in (self.paths, self.listings, self.expected, self.leads))

    def note_in(self, scratch: str) -> None:
        """Let each process note there what it opens."""
        self._scratch = scratch

    def note(self, absolute: str) -> None:
        """Note that something was opened or listed, if anybody wants to know."""
        absolute = self.leads.get(absolute, absolute)
        if absolute not in self.expected or absolute in self._seen:
            return
        self._seen.add(absolute)
        with real_open(f"{self._scratch}/{SEEN}{os.getpid()}", "a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"{absolute}\0")

    def note_held(self, held: Iterable[str]) -> None:
        """Note what is open or mapped, by its real path."""
        real = os.path.realpath
        asked = {real(path): path for path in self.expected} | {real(place): path for place, path in self.leads.items()}
        for path in held:
            if path in asked:
                self.note(asked[path])

    def told(self) -> Iterator[tuple[str, str]]:
        """Yield ``layer.knob`` and the word of what turned out as it was to be told."""
        for name in REAL["listdir"](self._scratch) if self._scratch else ():
            if name.startswith(SEEN):
                with real_open(f"{self._scratch}/{name}", encoding="utf-8", errors="surrogateescape") as file:
                    self._seen.update(file.read().split("\0"))
        opened: dict[tuple[str, str], bool] = {}  # a file may be known by several paths: one of them is enough
        for absolute, wanted in self.expected.items():
            for knob, when in wanted:
                opened[knob, when] = opened.get((knob, when), False) or absolute in self._seen
        yield from ((knob, when) for (knob, when), is_open in opened.items() if is_open == (when == OPENED))
