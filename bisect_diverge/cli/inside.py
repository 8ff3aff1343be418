"""What differs inside files that two opened runs read, for verbs that list what differs around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.model.environment import Difference
    from bisect_diverge.store.reader import Run


def inside(a: Run, b: Run, found: Sequence[Difference], rank: int | None = None) -> dict[str, tuple[str, ...]]:
    """Return what differs inside files, by knob (`report.contents`).

    Args:
        a: The baseline, open.
        b: The candidate, open.
        found: What differs in the environment of a rank.
        rank: The rank; None: the first.
    """
    if not any(row.knob.startswith("file:") for row in found):
        return {}
    from bisect_diverge.report.contents import contents

    files = [run.first if rank is None else run.ranks[rank] for run in (a, b)]
    of_a, of_b = (file.record.with_(place=str(file.path.parent.resolve())) for file in files)
    return contents(of_a, of_b, found)
