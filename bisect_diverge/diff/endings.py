"""How a recording ended, and in or after which step."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import numpy as np

from bisect_diverge.model.address import PHASE_CODE, Phase
from bisect_diverge.model.record import Flag
from bisect_diverge.model.run import State

if TYPE_CHECKING:
    from bisect_diverge.store.reader import RunFile

_SIGNALLED = 128
"""What a shell adds to the number of the signal that ended a command."""
_INIT, _OPTIMIZER = PHASE_CODE[Phase.INIT], PHASE_CODE[Phase.OPTIMIZER]


def failure(file: RunFile) -> str:
    """Return what ended a script that did not reach its end, with the step; empty: it did, or that is not known."""
    status = file.status
    if status.state is not State.INTERRUPTED or not status.exit_status:
        return ""
    number = abs(status.exit_status) - (_SIGNALLED if status.exit_status > 0 else 0)
    known = number in {one.value for one in signal.Signals}
    how = f"was ended by {signal.Signals(number).name}" if known else "failed"
    where = f" {where_ended(file)}" if len(file.events) else ""
    return f"the script {how} (exit status {status.exit_status}){where}"


def where_ended(file: RunFile) -> str:
    """Return ``in step 5`` where the last step that has rows was begun only, ``after step 4`` where it was ended."""
    return f"{'after' if _is_whole(file) else 'in'} step {file.steps - 1}"


def _is_whole(file: RunFile) -> bool:
    """Whether the last step has all phases of the step before it; the first step: whether it has an update."""
    events = file.events
    if not len(events) or events["flags"][-1] & Flag.PARTIAL:
        return False
    steps = np.unique(events["step"])
    of_last = set(events["phase"][events["step"] == steps[-1]].tolist())
    if len(steps) == 1:
        return _OPTIMIZER in of_last
    return of_last >= set(events["phase"][events["step"] == steps[-2]].tolist()) - {_INIT}
