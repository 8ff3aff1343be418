"""Whether a candidate looks like the baseline resumed from a checkpoint, and from which step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.model.address import PHASE_CODE, Phase

if TYPE_CHECKING:
    from bisect_diverge.store.reader import RunFile


def proposed_offset(a: RunFile, b: RunFile) -> int | None:
    """Return the offset with which B's initial parameters are A's after an update; None where there is none.

    An offset of k says that B goes on where A stood at the beginning of its step k. The latest fitting k is
    returned, and only if all parameters that both name are equal there.
    """
    initial = {fqn: digest for fqn, _, digest in _parameters(b, Phase.INIT)}
    steps: dict[str, set[int]] = {}
    for fqn, step, digest in _parameters(a, Phase.OPTIMIZER):
        wanted = initial.get(fqn, initial.get(fqn.partition(".")[2]))
        if wanted is not None:
            fitting = steps.setdefault(fqn, set())
            if wanted == digest:
                fitting.add(step)
    common = set.intersection(*steps.values()) if steps else set()
    return max(common) + 1 if common else None


def _parameters(file: RunFile, phase: Phase) -> list[tuple[str, int, bytes]]:
    """Return FQN, step and digest of every parameter row of a phase."""
    slots = [number for number, slot in enumerate(file.slots) if slot == "param"]
    events = file.events
    rows = np.flatnonzero((events["phase"] == PHASE_CODE[phase]) & np.isin(events["slot"], slots))
    chosen: NDArray[Any] = events[rows]
    fqns = [fqn for _, fqn, _ in file.names]
    digests = [pair.tobytes() for pair in np.stack([chosen["digest0"], chosen["digest1"]], axis=1)]
    named = [fqns[number] for number in chosen["name"].tolist()]
    return list(zip(named, chosen["step"].tolist(), digests, strict=True))
