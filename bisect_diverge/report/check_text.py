"""What a check of a run's files found, as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.report.words import Paint, plain, plural, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.store.verify import Checked


def check_text(found: Sequence[Checked], paint: Paint = plain) -> str:
    """Return what was found, file by file, without a line end; the worst is not hidden below the rest."""
    return "\n".join(line for checked in found for line in _file(checked, paint))


def _file(checked: Checked, paint: Paint) -> Iterator[str]:
    count = len(checked.problems)
    path = printable(checked.path)
    if count:
        yield paint(f"≠ {path}: {plural(count, 'problem')}", "bad")
    else:
        state = checked.state or "not readable"
        yield paint(f"= {path}: {state}, nothing wrong", "good")
    if checked.state is not None:
        yield f"    {plural(checked.records, 'record')}, {plural(checked.tensors, 'stored tensor')} read"
    yield from (f"  ! {printable(problem)}" for problem in checked.problems)
    yield from (f"  - {printable(note)}" for note in checked.notes)
