"""What differs inside the files that two runs read: keys of configuration files, lines of text tables."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.environment.inputs import FILE, LARGEST_COPY
from bisect_diverge.environment.secrets import mask_data
from bisect_diverge.model.trial import Unit
from bisect_diverge.report.words import plural, printable, whole
from bisect_diverge.trial.inputs import HASH, content, file_in, keys_of, path_of, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bisect_diverge.model.environment import Difference
    from bisect_diverge.model.run import RunRecord

KEYS = 3
"""Keys of a file that are named; the rest is counted."""
TABLES = (".csv", ".tsv")
"""How the names of text tables end."""


def contents(a: RunRecord, b: RunRecord, differences: Iterable[Difference]) -> dict[str, tuple[str, ...]]:
    """Return what differs inside the files that both runs read, by knob; credentials are masked.

    Args:
        a: The baseline.
        b: The candidate.
        differences: What differs in their environments.

    Returns:
        Lines for a reader. A knob is left out where a content is not to be had any more, and where it is binary.
    """
    found = {row.knob: tuple(_inside(a, b, row)) for row in differences if _is_file(row)}
    return {knob: lines for knob, lines in found.items() if lines}


def _is_file(row: Difference) -> bool:
    both = row.a is not None and row.b is not None and row.a.startswith(HASH) and row.b.startswith(HASH)
    return both and row.knob.startswith(FILE)


def _inside(a: RunRecord, b: RunRecord, row: Difference) -> Iterator[str]:
    name = file_in(row.knob)
    if not (_is_small(a, name, row.a) and _is_small(b, name, row.b)):
        return
    if Path(name).suffix.lower() in TABLES:
        yield from _lines(text_of(a, name, row.a), text_of(b, name, row.b))
        return
    keys = keys_of(a, b, Unit(layer=row.layer, knob=row.knob, a=row.a, b=row.b))
    for key in keys[:KEYS]:
        bare = key.knob.removeprefix(f"{row.knob}:")
        yield printable(f"{bare}: {whole(key.a)} -> {whole(key.b)}")
    if len(keys) > KEYS:
        yield f"... {plural(len(keys) - KEYS, 'more key')}"


def _is_small(record: RunRecord, name: str, value: str | None) -> bool:
    place = content(record, path_of(record.cwd, name), value)
    try:
        return place is not None and Path(place).stat().st_size <= LARGEST_COPY
    except OSError:
        return False


def _lines(a: str | None, b: str | None) -> Iterator[str]:
    if a is None or b is None:
        return
    pairs = enumerate(zip_longest(a.splitlines(), b.splitlines()), 1)
    differ = [(number, *pair) for number, pair in pairs if pair[0] != pair[1]]
    if differ:
        number, of_a, of_b = differ[0]
        what = f"{plural(len(differ), 'line')} {'differs' if len(differ) == 1 else 'differ'}"
        yield printable(f"{what}, the first is line {number}: {_line(of_a)} -> {_line(of_b)}")


def _line(line: str | None) -> str:
    return "(no line)" if line is None else mask_data(line)
