"""Checks the names that a user gives for pairing renamed modules: each must be one that the run has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.errors import UsageError

if TYPE_CHECKING:
    from bisect_diverge.diff.options import DiffOptions
    from bisect_diverge.store.reader import Run

CLOSE = 3
"""Close matches that are named."""


def check_names(a: Run, b: Run, options: DiffOptions) -> None:
    """Raise where a pair of ``--map`` names something that its run does not have.

    Raises:
        UsageError: with the closest names that there are.
    """
    if not options.renamed:
        return
    sides = (("A", a, names_of(a)), ("B", b, names_of(b)))
    for pair in options.renamed:
        for name, (side, run, known) in zip(pair, sides, strict=True):
            if name and name not in known:
                raise UsageError(
                    f"--map {pair[0]}={pair[1]}: {side} ({run.path}) has no {name!r}", hint=_hint(name, known, run)
                )


def names_of(run: Run) -> set[str]:
    """Return every name that a pair of ``--map`` may have: roots, FQNs and ``root:fqn``, each with all above it."""
    out = set()
    for file in run.ranks.values():
        for root, fqn, _ in file.names:
            out |= {root, f"{root}:"}
            name = fqn
            while name:
                out |= {name, f"{root}:{name}"}
                name = name.rpartition(".")[0]
    return out


def _hint(name: str, known: set[str], run: Run) -> str:
    import difflib

    close = difflib.get_close_matches(name, sorted(known), CLOSE)
    return f"did you mean {' or '.join(close)}?" if close else f"bd show {run.path} lists its roots"
