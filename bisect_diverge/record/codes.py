"""Numbers of phases and flags, as plain integers for the hot path."""

from bisect_diverge.model.address import PHASE_CODE, Phase
from bisect_diverge.model.record import Flag

INIT, DATA, FORWARD, BACKWARD, OPTIMIZER, RNG, RECOMPUTE = (
    PHASE_CODE[phase]
    for phase in (
        Phase.INIT,
        Phase.DATA,
        Phase.FORWARD,
        Phase.BACKWARD,
        Phase.OPTIMIZER,
        Phase.RNG,
        Phase.RECOMPUTE,
    )
)

FLAG_HOOKED = int(Flag.HOOKED)
FLAG_RECOMPUTE = int(Flag.RECOMPUTE)
FLAG_SKIPPED = int(Flag.SKIPPED)
FLAG_PARTIAL = int(Flag.PARTIAL)
