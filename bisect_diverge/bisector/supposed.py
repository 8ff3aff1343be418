"""A world whose causes are known: to price a search before it starts, and to test it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bisect_diverge.model.address import Address, Phase
from bisect_diverge.model.environment import Difference, Layer
from bisect_diverge.model.trial import Outcome, Trial, Unit

if TYPE_CHECKING:
    from collections.abc import Callable


def supposed_units(number: int) -> tuple[Unit, ...]:
    """Return units of made-up knobs, spread over the layers."""
    layers = list(Layer)
    return tuple(
        Unit(layer=layers[index * len(layers) // number], knob=f"knob.{index}", a="0", b="1") for index in range(number)
    )


@dataclass(frozen=True, slots=True)
class Effect:
    """Something that changes the bits."""

    alternatives: tuple[frozenset[Unit], ...]
    """It happens when all units of one of these are swapped."""
    cancels: bool = False
    """It happens when an odd number of the alternatives are swapped: two of them undo each other."""

    def happens(self, swapped: frozenset[Unit]) -> bool:
        """Return whether the bits are changed in this configuration."""
        there = sum(alternative <= swapped for alternative in self.alternatives)
        return there % 2 == 1 if self.cancels else there > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """An oracle made of effects; two configurations with the same effects have the same bits.

    An effect also moves one resolved value, so that a unit whose effects do not happen is inert.
    """

    units: tuple[Unit, ...]
    effects: tuple[Effect, ...]
    needs: tuple[tuple[Unit, Unit], ...] = ()
    """Pairs: with the first swapped and the second not, nothing runs."""
    dead: frozenset[Unit] = frozenset()
    """Units that move nothing, not even a resolved value."""
    flaky: Callable[[frozenset[Unit], int], bool] = lambda _swapped, _repeat: False
    """Whether a repeat of a configuration is flaky."""
    asked: list[frozenset[Unit]] = field(default_factory=list)
    """Every configuration asked for, in order."""

    def __call__(self, swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
        """Return the trial of a configuration."""
        self.asked.append(swapped)
        chosen = tuple(sorted(swapped, key=str))
        if any(unit in swapped and other not in swapped for unit, other in self.needs):
            return Trial(n=0, base="a", swapped=chosen, outcome=Outcome.SKIP, reason="ImportError")
        here, everywhere = self._happening(swapped), self._happening(frozenset(self.units))
        outcome = Outcome.A if not here else Outcome.B if here == everywhere else Outcome.OTHER
        if self.flaky(swapped, repeat):
            outcome = Outcome.FLAKY
        return Trial(
            n=0,
            base="a",
            swapped=chosen,
            outcome=outcome,
            signature=" ".join(map(str, sorted(here))),
            inert=tuple(unit for unit in chosen if self._is_inert(unit, swapped)),
            consequences=tuple(
                Difference(layer=Layer.HARDWARE, knob=f"resolved.{tag}", a="0", b="1") for tag in sorted(here)
            ),
            first_against_a=_address(here),
            first_against_b=_address(here ^ everywhere),
            seconds=1.0,
        )

    def bits(self, swapped: frozenset[Unit]) -> frozenset[int]:
        """Return what the bits of a configuration stand for: the numbers of the effects that happen in it."""
        return self._happening(swapped)

    def _happening(self, swapped: frozenset[Unit]) -> frozenset[int]:
        return frozenset(number for number, effect in enumerate(self.effects) if effect.happens(swapped))

    def _is_inert(self, unit: Unit, swapped: frozenset[Unit]) -> bool:
        own = [alternative for effect in self.effects for alternative in effect.alternatives if unit in alternative]
        return unit in self.dead or (bool(own) and not any(alternative <= swapped for alternative in own))


def _address(tags: frozenset[int]) -> Address | None:
    if not tags:
        return None
    return Address(
        rank=0,
        step=min(tags),
        micro_batch="0",
        phase=Phase.FORWARD,
        root="model",
        fqn="",
        call=0,
        slot="output.0",
    )
