"""Whether a candidate looks like the baseline resumed from a checkpoint, and from which step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bisect_diverge.model.address import PHASE_CODE, Phase

if TYPE_CHECKING:
    from bisect_diverge.store.reader import RunFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedOffset:
    """Where B seems to go on from A."""

    after: int
    """A's step after whose update A had what B begins with."""
    offset: int
    """What makes B's steps A's."""


def proposed_offset(a: RunFile, b: RunFile) -> ProposedOffset | None:
    """Return the offset with which B's first parameters are A's after an update; None where there is none.

    B's first parameters are those of the first step that it recorded: 0, or the begin of a window. The latest fitting
    step of A is returned, and only if all parameters that both name are equal there.
    """
    parameters = _parameters(b, Phase.INIT)
    begin = min((step for _, step, _ in parameters), default=0)
    initial = {fqn: digest for fqn, step, digest in parameters if step == begin}
    steps: dict[str, set[int]] = {}
    for fqn, step, digest in _parameters(a, Phase.OPTIMIZER):
        wanted = initial.get(fqn, initial.get(fqn.partition(".")[2]))
        if wanted is not None:
            fitting = steps.setdefault(fqn, set())
            if wanted == digest:
                fitting.add(step)
    common = set.intersection(*steps.values()) if steps else set()
    if not common or max(common) + 1 == begin:
        return None
    return ProposedOffset(after=max(common), offset=max(common) + 1 - begin)


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
