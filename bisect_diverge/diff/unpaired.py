"""What has no partner in the other run, and why, as values of the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.diff.keys import place_text
from bisect_diverge.diff.lone import Lone
from bisect_diverge.diff.notes import WHY
from bisect_diverge.diff.places import address_at
from bisect_diverge.model.findings import Unpaired

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.diff.trace import Trace

MODULES_NAMED = 5
"""Modules that are named for each reason."""


def unpaired(traces: Sequence[Trace], lone: Sequence[Lone]) -> Iterator[Unpaired]:
    """Return one entry for each reason for which records have no partner."""
    for reason, why in WHY.items():
        found = [(trace, rows.among((reason,))) for trace, rows in zip(traces, lone, strict=True)]
        found = [(trace, at) for trace, at in found if len(at)]
        if not found:
            continue
        in_a = sum(int(np.count_nonzero(trace.row_a[at] >= 0)) for trace, at in found)
        trace, at = found[0]
        yield Unpaired(
            reason=reason.name.lower(),
            why=why,
            only_in_a=in_a,
            only_in_b=sum(len(at) for _, at in found) - in_a,
            first=address_at(trace, int(at[0])),
            modules=_modules(found),
        )


def _modules(found: Sequence[tuple[Trace, NDArray[np.int64]]]) -> tuple[str, ...]:
    """Return the places that have most of some rows, most first."""
    counts: dict[tuple[str, str], int] = {}
    for trace, at in found:
        per_place = np.bincount(trace.rows.place[at])
        for place in np.flatnonzero(per_place).tolist():
            name = trace.tables.places[place]
            counts[name] = counts.get(name, 0) + int(per_place[place])
    most = sorted(counts, key=lambda name: -counts[name])[:MODULES_NAMED]
    return tuple(place_text(root, fqn) for root, fqn in most)
