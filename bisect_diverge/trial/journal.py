"""Remembers trials in the baseline's directory: one JSON line each, appended, so that Ctrl-C loses nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bisect_diverge.errors import ReplayError
from bisect_diverge.model.address import Address
from bisect_diverge.model.environment import Difference, Layer
from bisect_diverge.model.trial import Outcome, Trial, Unit

if TYPE_CHECKING:
    from collections.abc import Iterable

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

    Raises:
        ReplayError: if the file there is another pair's.
    """

    def __init__(self, folder: Path | None, a: str, b: str, circumstances: str, *, fresh: bool = False) -> None:
        self._folder, self._fresh = folder, fresh
        self._head = {"journal": FORMAT, "a": a, "b": b, "circumstances": circumstances}
        name = hashlib.blake2b(json.dumps(self._head).encode(), digest_size=8).hexdigest()
        self._file = None if folder is None else folder / f"{name}.jsonl"
        self._lock = threading.Lock()
        self._known: dict[str, Trial] = {}
        self._torn = False
        if self._file is not None and self._file.exists():
            if fresh:
                with contextlib.suppress(OSError):
                    self._file.unlink()
            else:
                self._load(self._file)

    def until(self, last_step: int) -> Journal:
        """Return the journal of the same runs for trials that end earlier."""
        head = self._head
        circumstances = f"{head['circumstances']}, until {last_step}"
        return Journal(self._folder, str(head["a"]), str(head["b"]), circumstances, fresh=self._fresh)

    def find(self, swapped: Iterable[Unit], repeat: int) -> Trial | None:
        """Return a trial that was made before."""
        return self._known.get(configuration_key(swapped, repeat))

    def add(self, trial: Trial, repeat: int) -> None:
        """Append a trial; a directory that cannot be written to costs the memory, not the trial."""
        key = configuration_key(trial.swapped, repeat)
        with self._lock:
            self._known[key] = trial
            if self._file is None:
                return
            with contextlib.suppress(OSError):
                new = not self._file.exists()
                self._file.parent.mkdir(exist_ok=True)
                with self._file.open("a", encoding="utf-8") as file:
                    # What was cut off is a line of its own, and is skipped; so is an empty one.
                    file.write(f"{json.dumps(self._head)}\n" if new else "\n" * self._torn)
                    file.write(json.dumps({"key": key} | _row(trial)) + "\n")
                    self._torn = False

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


def configuration_key(swapped: Iterable[Unit], repeat: int) -> str:
    """Return what names a configuration."""
    rows = sorted(json.dumps(unit.to_json(), sort_keys=True) for unit in swapped)
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
    return Trial(
        n=row["n"],
        base=row["base"],
        swapped=tuple(_unit(unit) for unit in row["swapped"]),
        outcome=Outcome(row["outcome"]),
        signature=row["signature"],
        inert=tuple(_unit(unit) for unit in row["inert"]),
        consequences=tuple(
            Difference(layer=Layer(d["layer"]), knob=d["knob"], a=d["a"], b=d["b"]) for d in row["consequences"]
        ),
        first_against_a=_address(row["first_against_a"]),
        first_against_b=_address(row["first_against_b"]),
        seconds=row["seconds"],
        stopped_at_step=row["stopped_at_step"],
        reason=row["reason"],
        reused=True,
    )


def _unit(row: dict[str, Any]) -> Unit:
    return Unit(layer=Layer(row["layer"]), knob=row["knob"], a=row["a"], b=row["b"])


def _address(text: str | None) -> Address | None:
    return None if text is None else Address.parse(text)
