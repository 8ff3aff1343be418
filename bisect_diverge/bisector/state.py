"""What a search has found so far: enough to give an honest answer wherever it stops."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bisect_diverge.model.trial import LEFT_OUT, Observer

if TYPE_CHECKING:
    from bisect_diverge.bisector.bench import Bench
    from bisect_diverge.model.address import Address
    from bisect_diverge.model.sampling import Sampling
    from bisect_diverge.model.trial import BisectVerdict, Cause, Trial, Unit, Untested


@dataclass(slots=True, kw_only=True)
class State:
    """The search so far; only trials that were made count as known."""

    bench: Bench
    units: tuple[Unit, ...]
    """What is moved, in the order of the plan; a unit that was taken apart is replaced by its parts."""
    first: Address | None
    """The divergence that is looked for; None: not known, taken from the control of B."""
    untestable: list[Untested]
    """What cannot be swapped here, or was left out by the user (`LEFT_OUT`)."""
    all_of_b: tuple[Unit, ...] = ()
    """`units` before any was taken apart: what is swapped where B is replayed."""
    target: str | None = None
    """Value of all units at B's: B's bits unless something that cannot be swapped has part in them."""
    replays_of_a: list[Trial] = field(default_factory=list)
    """A as it was replayed: independent runs of one configuration, judged alike."""
    replays_of_b: list[Trial] = field(default_factory=list)
    """All units at B's, replayed."""
    verdict: BisectVerdict | None = None
    """Set where the controls settle it, or where nothing can be blamed."""
    settled: tuple[Cause, ...] = ()
    """Causes that the controls alone prove."""
    found: list[tuple[Unit, ...]] = field(default_factory=list)
    """Smallest sets that make the target."""
    covered: list[tuple[Unit, ...]] = field(default_factory=list)
    """Sets that change A, but without part in the target."""
    aside: list[Unit] = field(default_factory=list)
    """Units that matter only beside others, without part in the target."""
    explained: set[Unit] = field(default_factory=set)
    """Units that are put back to A's value to see whether anything else has part."""
    doubtful: bool = False
    """A trial that something rests on did not repeat itself: only what is proved both ways counts."""
    complete: bool = False
    """All units but the explained ones at B's value give A: the rest has no part."""
    taken_apart: dict[Unit, tuple[Unit, ...]] = field(default_factory=dict)
    """Guilty units to their parts."""
    observer: Observer = Observer.NOT_TESTED
    """What recording does to A and B."""
    confidence: float | None = None
    """With what confidence to search by repeats if need be; None: not asked for."""
    sampling: Sampling | None = None
    """How a search by repeats went, if there was one."""
    remedies: list[str] = field(default_factory=list)
    """Options of the command that may help, the best first."""
    why: str = ""
    """Why nothing is proved, where that is so; empty: what the rest says."""
    finished: bool = True
    notes: list[str] = field(default_factory=list)

    def rest(self, *taken: Unit) -> tuple[Unit, ...]:
        """Return all units but some."""
        return tuple(unit for unit in self.units if unit not in taken)

    def left_out(self) -> tuple[Unit, ...]:
        """Return the units that the user did not want to be tested."""
        return tuple(row.unit for row in self.untestable if row.reason.startswith(LEFT_OUT))

    def part_of(self, chosen: tuple[Unit, ...]) -> tuple[Unit, ...]:
        """Return the units that were taken apart, and of which some of these are parts, the outermost first."""
        wholes: list[Unit] = []
        below = set(chosen)
        for unit, parts in reversed(self.taken_apart.items()):
            if below & set(parts):
                wholes.insert(0, unit)
                below.add(unit)
        return tuple(wholes)

    def blamed(self) -> set[Unit]:
        """Return every unit that is in some set."""
        return {unit for group in (*self.found, *self.covered) for unit in group}
