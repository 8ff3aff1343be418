"""Remembers trials in the baseline's directory: one JSON line each, appended, so that Ctrl-C loses nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bisect_diverge.errors import ReplayError
from bisect_diverge.model.environment import Difference, Layer
from bisect_diverge.model.trial import Outcome, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bisect_diverge.model.trial import Unit
    from bisect_diverge.store.reader import Run

FORMAT = 1


def key_of(run: Run) -> str:
    """Return what names the bits of a recorded run."""
    total = hashlib.blake2b(digest_size=16)
    for rank, file in sorted(run.ranks.items()):
        total.update(f"{rank} {len(file.events)};".encode())
        for half in ("digest0", "digest1"):
            total.update(file.events[half].tobytes())
    return total.hexdigest()


class Journal:
    """The trials of one pair of runs up to one step.

    Args:
        folder: Directory of the journals, made when it is first needed; None: nothing is remembered.
        a: Key of the baseline.
        b: Key of the candidate; empty where there is none.
        circumstances: Whatever else makes a trial another one: last step, offset.
        fresh: Forget what is there.
        warn: Gets one sentence, once, where trials cannot be remembered.

    Raises:
        ReplayError: if the file there is another pair's.
    """

    def __init__(
        self,
        folder: Path | None,
        a: str,
        b: str,
        circumstances: str,
        *,
        fresh: bool = False,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._folder, self._fresh, self._warn = folder, fresh, warn
        self._head = {"journal": FORMAT, "a": a, "b": b, "circumstances": circumstances}
        name = hashlib.blake2b(json.dumps(self._head).encode(), digest_size=8).hexdigest()
        self._file = None if folder is None else folder / f"{name}.jsonl"
        self._lock = threading.Lock()
        self._known: dict[str, Trial] = {}
        self._torn = False
        if self._file is not None and _is_file(self._file):
            if fresh:
                with contextlib.suppress(OSError):
                    self._file.unlink()
            else:
                self._load(self._file)

    def but(self, difference: str | None) -> Journal:
        """Return the journal of the same runs for trials that differ from these in some way; None: without memory."""
        head = self._head
        circumstances = f"{head['circumstances']}, {difference}"
        folder = None if difference is None else self._folder
        return Journal(folder, str(head["a"]), str(head["b"]), circumstances, fresh=self._fresh, warn=self._warn_once)

    def find(self, swapped: Iterable[Unit], repeat: int) -> Trial | None:
        """Return a trial that was made before."""
        return self._known.get(configuration_key(swapped, repeat))

    def add(self, trial: Trial, repeat: int) -> None:
        """Append a trial; a directory that cannot be written to costs the memory, not the trial, and is said once."""
        key = configuration_key(trial.swapped, repeat)
        with self._lock:
            self._known[key] = trial
            if self._file is None:
                return
            try:
                self._append(self._file, json.dumps({"key": key} | _row(trial)))
            except OSError as error:
                self._warn_once(f"trials are not remembered for the next search: {self._folder}: {error.strerror}")

    def _append(self, path: Path, row: str) -> None:
        path.parent.mkdir(exist_ok=True)
        new = not path.exists()
        with path.open("a", encoding="utf-8") as file:
            # What was cut off is a line of its own, and is skipped; so is an empty one.
            file.write(f"{json.dumps(self._head)}\n" if new else "\n" * self._torn)
            file.write(f"{row}\n")
            self._torn = False

    def _warn_once(self, sentence: str) -> None:
        warn, self._warn = self._warn, lambda _: None
        warn(sentence)

    def _load(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8", errors="replace")
        lines, self._torn = text.splitlines(), not text.endswith("\n")
        if not lines:
            return
        if _json(lines[0]) != self._head:
            raise ReplayError(f"the journal {path} is another recording's", hint="start anew with --fresh")
        for line in lines[1:]:  # the last one may be cut off
            row = _json(line)
            if row is not None and row["outcome"] != Outcome.SKIP:  # what hindered it may be gone
                self._known[row["key"]] = _trial(row)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def configuration_key(swapped: Iterable[Unit], repeat: int) -> str:
    """Return what names a configuration."""
    rows = sorted(json.dumps(replace(unit, files=()).to_json(), sort_keys=True) for unit in swapped)
    return hashlib.blake2b(json.dumps([rows, repeat]).encode(), digest_size=12).hexdigest()


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _row(trial: Trial) -> dict[str, Any]:
    moved = [{"layer": str(d.layer), "knob": d.knob, "a": d.a, "b": d.b} for d in trial.consequences]
    return trial.to_json() | {"consequences": moved}


def _trial(row: dict[str, Any]) -> Trial:
    moved = tuple(Difference(layer=Layer(d["layer"]), knob=d["knob"], a=d["a"], b=d["b"]) for d in row["consequences"])
    return replace(Trial.from_json(row), consequences=moved, reused=True)
