"""Compares two synthetic runs in one call."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bisect_diverge.diff.compare import compare
from bisect_diverge.diff.comparison import Comparison
from bisect_diverge.diff.options import DiffOptions
from bisect_diverge.store.reader import Run
from tests.helpers.runs import Row, write_run


def compare_rows(
    folder: Path,
    a: Iterable[Row | tuple[Any, ...]],
    b: Iterable[Row | tuple[Any, ...]],
    options: DiffOptions | None = None,
    **of_b: Any,
) -> Comparison:
    """Return the comparison of two runs written from rows.

    Args:
        folder: Where the runs `a` and `b` are made.
        a: The baseline's records.
        b: The candidate's records.
        options: Of the comparison.
        **of_b: Passed on to `write_run` for B.
    """
    return compare(Run(write_run(folder / "a", a)), Run(write_run(folder / "b", b, **of_b)), options)


def first_address(result: Comparison) -> str:
    """Return the address of the first divergence as text; empty where nothing differs."""
    return "" if result.divergence.first is None else str(result.divergence.first.address)
