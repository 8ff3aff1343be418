"""What the bits of a trial are: A's, B's, or others."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bisect_diverge.diff.compare import compare
from bisect_diverge.diff.options import DiffOptions
from bisect_diverge.diff.trace import RowState
from bisect_diverge.environment.differences import belonging, differences
from bisect_diverge.model.divergence import Verdict
from bisect_diverge.model.environment import Difference, Environment, Layer, Setting
from bisect_diverge.model.run import State
from bisect_diverge.model.trial import Outcome
from bisect_diverge.trial.horizon import first_before, judged

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from bisect_diverge.diff.comparison import Comparison
    from bisect_diverge.model.address import Address
    from bisect_diverge.model.trial import Unit
    from bisect_diverge.store.reader import Run
    from bisect_diverge.trial.horizon import Horizon

READ_BACK = (Layer.HARDWARE, Layer.KERNELS, Layer.RUNTIME, Layer.SEEDS)
"""Layers of which a trial reads resolved values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The bits of a trial."""

    outcome: Outcome
    """=A, =B, other or skip."""
    signature: str = ""
    """Hash of the digests of all records that A has too."""
    first_against_a: Address | None = None
    """First divergence from A."""
    first_against_b: Address | None = None
    """First divergence from B."""
    reason: str = ""
    """Why it cannot be judged."""


def is_whole(run: Run, last_step: int) -> bool:
    """Whether every rank of a trial got as far as it should, or to its own end."""
    files = list(run.ranks.values())
    complete = all(f.status.state is State.COMPLETE and not f.status.exit_status for f in files)
    far = all(f.status.state is State.COMPLETE and f.steps > last_step for f in files)
    return (complete or far) and len(files) >= max(f.record.world_size for f in files)


def judge(trial: Run, a: Run, b: Run | None, offset_b: int = 0, horizon: Horizon | None = None) -> Judgement:
    """Compare a trial with both runs.

    Args:
        trial: The trial's recording; it ends where it was told to.
        a: The baseline.
        b: The candidate, if there is one.
        offset_b: A's step at which a resumed B begins. A trial that has B's numbering is recognised by its bits.
        horizon: Rows from here on are not judged; None: all are.
    """
    row_a, row_b = (None, None) if horizon is None else (horizon.row_a, horizon.row_b)
    with_a = compare(a, trial, DiffOptions())
    if with_a.divergence.verdict is Verdict.NOT_COMPARABLE:
        return Judgement(outcome=Outcome.SKIP, reason=with_a.divergence.notes[0])
    signature = _signature(with_a, trial, judged(with_a, row_a))
    first_a = first_before(with_a, row_a)
    if first_a is None:
        against_b = None if b is None else first_before(compare(b, trial, DiffOptions(offset_b=-offset_b)), row_b)
        return Judgement(outcome=Outcome.A, signature=signature, first_against_b=_in_steps_of_a(against_b, offset_b))
    if offset_b:
        first_a = _later(first_a, first_before(compare(a, trial, DiffOptions(offset_b=offset_b)), row_a))
    if b is None:
        return Judgement(outcome=Outcome.OTHER, signature=signature, first_against_a=first_a)
    with_b = compare(b, trial, DiffOptions())
    first_b = first_before(with_b, row_b)
    return Judgement(
        outcome=Outcome.B if first_b is None and _is_comparable(with_b) else Outcome.OTHER,
        signature=signature,
        first_against_a=first_a,
        first_against_b=first_b,
    )


def _is_comparable(comparison: Comparison) -> bool:
    return comparison.divergence.verdict is not Verdict.NOT_COMPARABLE


def _in_steps_of_a(address: Address | None, offset_b: int) -> Address | None:
    """Return an address in B's numbering as one in A's, in which the divergence that is looked for is told."""
    return None if address is None else replace(address, step=address.step + offset_b)


def _later(one: Address | None, other: Address | None) -> Address | None:
    """Return the divergence of the better alignment: with the wrong one the first records differ already."""
    if one is None or other is None:
        return one or other
    return other if other.step > one.step else one


def _signature(comparison: Comparison, trial: Run, within: NDArray[np.bool_]) -> str:
    """Return a hash of the trial's digests, rank by rank, of every record that is compared and that A has too."""
    total = hashlib.blake2b(digest_size=12)
    compared = (comparison.state != RowState.IGNORED) & within
    for rank in np.unique(comparison.rank).tolist():
        here = compared & (comparison.rank == rank) & (comparison.row_b >= 0)
        rows = comparison.row_b[here & (comparison.row_a >= 0)]
        for half in ("digest0", "digest1"):
            total.update(np.ascontiguousarray(trial.ranks[rank].events[half][rows]).tobytes())
        lone = np.count_nonzero(here & (comparison.row_a < 0))
        total.update(f"{rank} {len(rows)} {lone};".encode())
    return total.hexdigest()


def inert(swapped: Iterable[Unit], of_a: Environment, trial: Environment) -> tuple[Unit, ...]:
    """Return the swapped units whose resolved values are all what they are in A.

    A unit of which nobody knows a resolved value is not among them: it is judged by its bits.
    """
    before = {(s.layer, s.knob): s.value for s in of_a.settings if s.resolved or s.layer is Layer.DEPENDENCIES}
    found = []
    for unit in swapped:
        values = [s for s in belonging(unit.layer, unit.knob, trial) if s.layer in READ_BACK]
        values += [s for s in trial.settings if (s.layer, s.knob) == (unit.layer, unit.knob) and _is_read_inside(s)]
        if values and all(before.get((s.layer, s.knob), s.value) == s.value for s in values):
            found.append(unit)
    return tuple(found)


def _is_read_inside(setting: Setting) -> bool:
    """Whether a setting says what the process found, and not what it was given."""
    return setting.resolved or setting.layer is Layer.DEPENDENCIES


def consequences(swapped: Iterable[Unit], of_a: Environment, trial: Environment) -> tuple[Difference, ...]:
    """Return the resolved values that moved against A, beside the swapped units themselves."""
    own = {(unit.layer, unit.knob) for unit in swapped}
    found = {}
    for difference in differences(_read_back(of_a), _read_back(trial)):
        for row in (difference, *difference.resolved):
            key = (row.layer, row.knob)
            if row.b is not None and key not in own and not row.knob.endswith("@end"):
                found[key] = Difference(layer=row.layer, knob=row.knob, a=row.a, b=row.b)
    return tuple(found.values())


def _read_back(environment: Environment) -> Environment:
    return Environment(tuple(s for s in environment.settings if s.resolved and s.layer in READ_BACK))
