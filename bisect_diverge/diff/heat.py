"""How much of which module differs in which step: a table of counts, from digests alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.diff.keys import is_call, place_text
from bisect_diverge.diff.trace import RowState, Trace
from bisect_diverge.model.address import PHASE_CODE, Phase
from bisect_diverge.model.findings import Heat

if TYPE_CHECKING:
    from collections.abc import Sequence

COLUMNS = 100
"""Columns of a table; of more steps, several share one."""
LINES = 200
"""Modules of a table; of more, those of which most differs."""

_BY_PARAMETER = ("param", "grad", "state", "buffer")
_RUN_WIDE = "-"
"""Root of rows that belong to no module: the generators at step boundaries."""
GENERATORS = "generators"
"""What their line is called."""


def heat(traces: Sequence[Trace], columns: int = COLUMNS, lines: int = LINES) -> Heat:
    """Return how much of which module differs in which step.

    A parameter, its gradient and its optimizer state count for the module that owns it; settings of an update
    for the optimizer.

    Args:
        traces: The trace of each common rank; counts are over all of them.
        columns: Most columns.
        lines: Most lines.
    """
    spans = _spans(traces, columns)
    modules: dict[str, int] = {}
    cells = []
    for trace in traces:
        owner = _owners(trace, modules)
        compared = np.flatnonzero(trace.state <= RowState.DIFFERS)
        rows = trace.rows
        line = owner[rows.phase[compared], rows.place[compared]]
        column = np.searchsorted(spans[:, 0], rows.step[compared], side="right") - 1
        cells.append((line * len(spans) + column, trace.state[compared] == RowState.DIFFERS))
    size = len(modules) * len(spans)
    total, differing = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for cell, differs in cells:
        total += np.bincount(cell, minlength=size)
        differing += np.bincount(cell[differs], minlength=size)
    return _table(spans, list(modules), total.reshape(-1, len(spans)), differing.reshape(-1, len(spans)), lines)


def _table(
    spans: NDArray[np.int64],
    modules: list[str],
    total: NDArray[np.int64],
    differing: NDArray[np.int64],
    lines: int,
) -> Heat:
    used = np.flatnonzero(total.any(axis=1))
    most = np.argsort(-differing[used].sum(axis=1), kind="stable")[:lines]
    chosen = np.sort(used[most])
    return Heat(
        steps=tuple((first, last) for first, last in spans.tolist()),
        modules=tuple(modules[line] for line in chosen.tolist()),
        compared=tuple(map(tuple, total[chosen].tolist())),
        differing=tuple(map(tuple, differing[chosen].tolist())),
        left_out=len(used) - len(chosen),
    )


def _spans(traces: Sequence[Trace], columns: int) -> NDArray[np.int64]:
    """Return first and last step of each column, int64[n, 2]."""
    seen = [np.flatnonzero(np.bincount(t.rows.step[t.state <= RowState.DIFFERS])) for t in traces if len(t)]
    steps = np.unique(np.concatenate(seen)) if seen else np.zeros(0, np.int64)
    parts = np.array_split(steps, min(columns, len(steps))) if len(steps) else []
    return np.array([(part[0], part[-1]) for part in parts], np.int64).reshape(-1, 2)


def _owners(trace: Trace, lines: dict[str, int]) -> NDArray[np.int64]:
    """Return the line of each phase and place, int64[phases, places]; new lines are added to `lines`."""
    tables = trace.tables
    called = np.unique(trace.rows.place[is_call(trace.rows, tables)]).tolist()
    modules = {tables.places[place] for place in called}
    by_fqn: dict[str, tuple[str, str]] = {}
    for root, fqn in (tables.places[place] for place in called):
        by_fqn.setdefault(fqn, (root, fqn))
        by_fqn.setdefault(f"{root}.{fqn}" if fqn else root, (root, fqn))
    heads = np.array([slot.partition(".")[0] in _BY_PARAMETER for slot in tables.slots], np.bool_)
    held = set(np.unique(trace.rows.place[heads[trace.rows.slot]]).tolist())
    out = np.zeros((len(Phase), len(tables.places)), np.int64)
    seen, first = np.unique(trace.rows.phase * len(tables.places) + trace.rows.place, return_index=True)
    for number in seen[np.argsort(first)].tolist():
        phase, place = divmod(number, len(tables.places))
        root, fqn = tables.places[place]
        name = (root, fqn)
        if place in held and name not in modules:
            above = fqn.rpartition(".")[0]
            own = (root, above)
            name = own if own in modules or phase != _OPTIMIZER else by_fqn.get(above, name)
        out[phase, place] = lines.setdefault(_label(*name), len(lines))
    return out


_OPTIMIZER = PHASE_CODE[Phase.OPTIMIZER]


def _label(root: str, fqn: str) -> str:
    return GENERATORS if root == _RUN_WIDE else place_text(root, fqn)
