"""Modules that look renamed: a parameter of one run that the other has, with the same value, under another name."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.diff.lone import Lone
from bisect_diverge.model.address import PHASE_CODE, Phase

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.diff.trace import Trace
    from bisect_diverge.store.reader import RunFile

Name = tuple[str, str]
"""Root and FQN."""

PROPOSED = 3
"""Pairs of names that are proposed."""

_INIT = PHASE_CODE[Phase.INIT]


def renamed_note(traces: Sequence[Trace], lone: Sequence[Lone]) -> Iterator[str]:
    """Return a sentence that proposes ``--map`` where initial values tell that modules were renamed."""
    found: Counter[tuple[str, str]] = Counter()
    for trace, rows in zip(traces, lone, strict=True):
        found.update(_pairs(trace, rows))
    if found:
        maps = " ".join(shlex.join(["--map", f"{old}={new}"]) for (old, new), _ in found.most_common(PROPOSED))
        more = f" (and {len(found) - PROPOSED} more)" if len(found) > PROPOSED else ""
        yield f"equal initial values tell that modules were renamed: compare with {maps}{more}"


def _pairs(trace: Trace, lone: Lone) -> Iterator[tuple[str, str]]:
    """Return what A and B call a module, once for each parameter that tells so."""
    initial = lone.index[trace.rows.phase[lone.index] == _INIT]
    of_a, of_b = _by_digest(trace.a, trace.row_a[initial]), _by_digest(trace.b, trace.row_b[initial])
    for digest in of_a.keys() & of_b.keys():
        if len(of_a[digest]) == len(of_b[digest]) == 1:  # zeros and ones have many owners, and tell nothing
            yield _names(of_a[digest][0], of_b[digest][0])


def _by_digest(file: RunFile, rows: NDArray[np.int64]) -> dict[tuple[int, int], list[Name]]:
    """Return the names of some rows (-1: none) by their digests."""
    events = file.events[rows[rows >= 0]]
    out: dict[tuple[int, int], list[Name]] = {}
    for name, first, second in zip(events["name"], events["digest0"], events["digest1"], strict=True):
        root, fqn, _ = file.names[name]
        out.setdefault((int(first), int(second)), []).append((root, fqn))
    return out


def _names(of_a: Name, of_b: Name) -> tuple[str, str]:
    """Return the names without what both end with: the module that was renamed, not all that lies below it."""
    (root_a, fqn_a), (root_b, fqn_b) = of_a, of_b
    if fqn_a == fqn_b:
        return root_a, root_b
    parts_a, parts_b = fqn_a.split("."), fqn_b.split(".")
    while len(parts_a) > 1 and len(parts_b) > 1 and parts_a[-1] == parts_b[-1]:
        parts_a, parts_b = parts_a[:-1], parts_b[:-1]
    names = ".".join(parts_a), ".".join(parts_b)
    return names if root_a == root_b else (f"{root_a}:{names[0]}", f"{root_b}:{names[1]}")
