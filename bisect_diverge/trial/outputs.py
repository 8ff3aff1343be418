"""What the two runs made themselves: what a trial must not find, what B read of it, and what is gone.

A trial starts as A did, so that it does not find what A and B have left behind. A resumed B has read what A left. Where
its command names the file, the file is there in every trial, since nobody else asks for it. Where it does not, a script
may read whatever it finds: the file is lent only to a trial that fails without it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.environment.inputs import FILE, present
from bisect_diverge.model.run import Written
from bisect_diverge.trial.inputs import content, path_of, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bisect_diverge.model.environment import Setting
    from bisect_diverge.model.run import RunRecord
    from bisect_diverge.trial.draft import Sides


def made(record: RunRecord, how: Written) -> set[str]:
    """Return what a run wrote in one of the ways, as absolute paths."""
    return {path for path, word in record.written.items() if word == how}


def hidden(sides: Sides) -> tuple[str, ...]:
    """Return the files that a trial must not find.

    That is: outputs of one run that the command of the other does not name, and what A prepared and others made anew.
    """
    found = set()
    for mine, other in ((sides.a, sides.b), (sides.b, sides.a)):
        own = made(mine, Written.OUTPUT)
        if mine is sides.a and not sides.stale:
            own.update(made_anew(sides.a, sides.b))
        found |= own - (_named(other) - other.written.keys())
    return tuple(sorted(found))


def made_anew(a: RunRecord, b: RunRecord) -> tuple[str, ...]:
    """Return the files that A made before its first module call and that B, or somebody since, has made again.

    A began without them, and what they hold now is not known to be what A put there: a cache, say.
    """
    own = {path for path in made(a, Written.PREPARED) if Path(path).is_file()}
    again = b.written.keys() if b.place != a.place else set()
    end = _end(a)
    return tuple(sorted(path for path in own if path in again or Path(path).stat().st_mtime > end))


def _end(record: RunRecord) -> float:
    """Return when a recording was ended, seconds since 1970; infinity where that is not known."""
    files = Path(record.place).glob("rank-*.h5") if record.place else ()
    return max((file.stat().st_mtime for file in files), default=float("inf"))


def in_a(sides: Sides, prefix: str) -> dict[str, Setting]:
    """Return B's rows by the paths that they have where A runs."""
    by_knob = {row.knob: row for row in rows(sides.b, prefix).values()}
    return {path_of(sides.a.cwd, knob.removeprefix(prefix)): row for knob, row in by_knob.items()}


def of_b_alone(sides: Sides) -> dict[str, str]:
    """Return files that B has read and A has not, and that are not there as B read them: path to where the content is.

    A file that is hidden or gone is among them if B's command names it, or if the trial is lent it. One that B has
    written over since is hidden: it is among them if A's command does not name it too.
    """
    out_of_sight, named = set(hidden(sides)), _named(sides.b)
    asked_by_b = named - _named(sides.a)
    found = {}
    for path, theirs, row in read_by_b_alone(sides):
        now = present(path, row.value)
        in_sight = path not in out_of_sight
        place = content(sides.b, theirs, row.value)
        is_other = (in_sight and now != row.value and (now or theirs in named)) or (
            not in_sight and theirs in asked_by_b
        )
        if place is not None and (is_other or (sides.lent and not (in_sight and now == row.value))):
            found[path] = place
    return found


def is_lendable(sides: Sides) -> bool:
    """Whether a trial that is lent what B alone has read finds more files than another."""
    out_of_sight = set(hidden(sides))
    return any(
        (path in out_of_sight or not present(path, row.value)) and content(sides.b, theirs, row.value) is not None
        for path, theirs, row in read_by_b_alone(sides)
    )


def lost(sides: Sides, said: str) -> str:
    """Return which file that A made B cannot be given again; empty if there is none.

    Args:
        sides: The two runs.
        said: Why a trial with B's values failed.
    """
    of_a = made(sides.a, Written.OUTPUT)
    named = _named(sides.b) - _named(sides.a)
    known = {theirs for _, theirs, row in read_by_b_alone(sides) if content(sides.b, theirs, row.value) is not None}
    for path, theirs, row in read_by_b_alone(sides):
        if theirs in of_a and content(sides.b, theirs, row.value) is None:
            return f"{path}, which A made and B read, was not kept and holds something else now"
    for path in sorted(of_a & made(sides.b, Written.CHANGED)):
        if path in known:
            continue
        if path in named or Path(path).name in said:
            return f"B has written over {path}, which A made: what it held before is gone"
    return ""


def read_by_b_alone(sides: Sides) -> Iterator[tuple[str, str, Setting]]:
    """Yield the path where A runs, the path where B ran, and the row of each file that A has not read."""
    of_a = rows(sides.a, FILE)
    for path, row in in_a(sides, FILE).items():
        if path not in of_a:
            yield path, path_of(sides.b.cwd, row.knob.removeprefix(FILE)), row


def _named(record: RunRecord) -> set[str]:
    """Return the paths that the words of a command would be."""
    tokens = [os.path.join(record.cwd, token.rpartition("=")[2]) for token in record.command]  # noqa: PTH118
    return {os.path.normpath(token) for token in tokens}
