"""What an oracle may be able to do beside running trials; a search asks for it where it is there."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from bisect_diverge.model.address import Address
    from bisect_diverge.model.trial import Observation, Oracle, Trial, Unit, Untested


@runtime_checkable
class LimitedOracle(Protocol):
    """An oracle that can leave out what does not repeat itself."""

    def limit(self, differing: Sequence[Address]) -> Oracle | None:
        """Return an oracle that judges only what precedes all of these addresses.

        The earliest of them is the horizon: what lies before it is deterministic. None if the divergence
        of A and B does not lie before it, so that nothing would be left to search.
        """
        ...


@runtime_checkable
class CompletingOracle(Protocol):
    """An oracle that knows what B has beside its requested inputs."""

    def left_over(self, swapped: frozenset[Unit]) -> tuple[Sequence[Unit], Sequence[Untested]]:
        """Return resolved values of B that this configuration, which is not B, does not bring about.

        Args:
            swapped: Every requested input at B's value; its trial ran.

        Returns:
            Those that can be swapped, and those that cannot.
        """
        ...


@runtime_checkable
class DoubtingOracle(Protocol):
    """An oracle that knows of which units the parts may not be all."""

    def doubt(self, unit: Unit) -> str:
        """Return what else has part if all parts of a unit do not make what the unit makes; empty: they do make it."""
        ...


@runtime_checkable
class ObservingOracle(Protocol):
    """An oracle that can run a configuration without recording it."""

    def observe(self, swapped: frozenset[Unit]) -> Observation:
        """Return the bits of a configuration, unrecorded and recorded, as far as the trials go."""
        ...


@runtime_checkable
class ClampingOracle(Protocol):
    """An oracle that can take away what makes a run noisy, in every trial alike."""

    def clamped(self, clamps: Collection[str]) -> Oracle:
        """Return an oracle that runs its trials with these clamps; its values compare with one another only.

        Args:
            clamps: Names of clamps, of those that `clamps` returns.
        """
        ...

    def clamps(self) -> Sequence[str]:
        """Return the names of all clamps, the likeliest to help first."""
        ...


@runtime_checkable
class FillingOracle(ClampingOracle, Protocol):
    """An oracle that can fill memory that nobody has written, to see who reads it."""

    def fills(self) -> Sequence[str]:
        """Return two names for `clamped`, each of which fills it with other bytes; none where that cannot be done."""
        ...

    def fills_too(self, clamp: str) -> bool:
        """Whether one of `clamps` fills memory as well, so that it hides who reads it."""
        ...

    def parted(self, swapped: frozenset[Unit], one: Collection[str], other: Collection[str]) -> Address | None:
        """Return where a configuration first differs from itself with other clamps; two runs. None: nowhere."""
        ...


@runtime_checkable
class MeasuringOracle(Protocol):
    """An oracle that knows where the numbers of its trials stand (`Trial.numbers`)."""

    def watched(self) -> Sequence[Address]:
        """Return the address of each number, in order; none before the first trial."""
        ...


@runtime_checkable
class AdvisingOracle(Protocol):
    """An oracle that can tell what may make a run noisy."""

    def advise(self, trials: Sequence[Trial]) -> Sequence[str]:
        """Return sentences on what these repeats, which differ, suggest: a seed that moved, a setter never called."""
        ...
