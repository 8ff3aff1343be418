"""What a run that does not repeat itself lacks: names the seed that moved, or the setter that is never called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.environment.seeds import BASE_SEED, INITIAL, WORKER_INIT, is_other
from bisect_diverge.model.address import Phase
from bisect_diverge.model.environment import Layer
from bisect_diverge.trial.swap_seed import is_seed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.model.address import Address
    from bisect_diverge.model.environment import Environment

SETTERS = {"python": "random.seed", "numpy": "numpy.random.seed", "torch.cpu": "torch.manual_seed"}
"""Slot of a generator to the setter that seeds it."""
_DRAWN = {Phase.INIT: ("torch.cpu",), Phase.DATA: ("torch.cpu", "numpy", "python")}
"""Phase of a first difference to the generators that are likely to have made it."""
SHOWN = 60
"""Characters of a seed that are shown."""


def advice(recorded: Environment, now: Environment | None, differing: Sequence[Address]) -> tuple[str, ...]:
    """Return sentences on what makes a run noisy, where its own settings tell; none where they do not.

    Args:
        recorded: What the run was recorded with.
        now: What its repeat had; None: not known.
        differing: Where repeats first differ.
    """
    return tuple(dict.fromkeys((*_moved(recorded, now), *_never_called(recorded, differing))))


def _moved(recorded: Environment, now: Environment | None) -> Iterator[str]:
    before, after = _seeds(recorded), {} if now is None else _seeds(now)
    for knob in sorted(before.keys() & after.keys()):
        if is_other(before[knob], after[knob]):
            yield (
                f"the script gives {knob} another seed each time ({before[knob][:SHOWN]} when it was recorded, "
                f"{after[knob][:SHOWN]} now): give it a fixed one"
            )


def _seeds(environment: Environment) -> dict[str, str]:
    return {s.knob: s.value for s in environment.settings if s.layer is Layer.SEEDS and _is_given(s.knob)}


def _is_given(knob: str) -> bool:
    """Whether a knob is what the script gave to a generator, in this process or in a loader worker."""
    return is_seed(knob) and not knob.startswith(INITIAL) and not knob.endswith((BASE_SEED, WORKER_INIT))


def _never_called(recorded: Environment, differing: Sequence[Address]) -> Iterator[str]:
    called = [f".{knob}" for knob in _seeds(recorded)]  # a loader worker may have called it
    for address in differing:
        slots = (address.slot,) if address.phase is Phase.RNG else _DRAWN.get(address.phase, ())
        setters = [SETTERS[slot] for slot in slots if slot in SETTERS]
        missing = [setter for setter in setters if not any(knob.endswith(f".{setter}") for knob in called)]
        if missing:
            yield (
                f"repeats differ already in the {address.phase} phase, and the script never calls "
                f"{' or '.join(missing)}: call {'it' if len(missing) == 1 else 'them'} with a fixed seed first"
            )
