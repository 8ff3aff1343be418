"""What to answer where two runs differ in nothing but what every process begins with."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bisect_diverge.environment.seeds import FAMILIES, FRESH, INITIAL, rank_of
from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import IDENTICAL, BisectVerdict, Outcome
from bisect_diverge.trial.swap_seed import CALL, stands_alone

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.model.trial import Bisection, Unit


def with_unseeded(bisection: Bisection, moving: Sequence[str] = ()) -> Bisection:
    """Return a bisection that blames no setting where the runs differ only in seeds that nobody gave.

    Swapping A's first states against B's is proof of where the difference comes from, and it is kept, as a note. But
    nothing of B's environment did it: A recorded once more differs from A as well, so A is what does not repeat itself.

    Args:
        bisection: The result.
        moving: Setters that got another seed when A was replayed with nothing swapped.
    """
    units = [unit for cause in bisection.causes for unit in cause.units]
    moves = [_moves_by_itself(unit, moving) for unit in units]
    if bisection.verdict is not BisectVerdict.CAUSE or not units or not all(moves):
        return bisection
    return replace(
        bisection,
        verdict=BisectVerdict.NOT_REPEATABLE,
        causes=(),
        notes=(*map(_said, units), *_proof(bisection, units), *map(_as_held, bisection.notes)),
        reason="; ".join(map(_short, units)),
    )


def _moves_by_itself(unit: Unit, moving: Sequence[str]) -> bool:
    return unit.layer is Layer.SEEDS and (stands_alone(unit) or rank_of(unit.knob.partition(CALL)[0])[0] in moving)


def _as_held(note: str) -> str:
    """Return a note; of replays that agree, with the reason why they do."""
    agree = note.startswith(("A ", "B ")) and note.endswith(IDENTICAL)
    held = "only since the trials hold the first states and seeds that were recorded"
    return f"{note}, {held}" if agree else note


def _short(unit: Unit) -> str:
    """Return what moves by itself and what to do about it, in few words."""
    if unit.knob.startswith(INITIAL):
        family, rank = rank_of(unit.knob.removeprefix(INITIAL))
        where = "" if rank is None else f" on rank {rank}"
        generator = f"{family}.random" if family == "numpy" else family
        return (
            f"nobody seeds {generator}{where} (each process begins with another state); call {FAMILIES[family][0]}(...)"
        )
    setter = unit.knob.partition(CALL)[0]
    return f"{setter} gets another seed each time; give it a fixed one"


def _said(unit: Unit) -> str:
    if unit.knob.startswith(INITIAL):
        family, rank = rank_of(unit.knob.removeprefix(INITIAL))
        setter, where = FAMILIES[family][0], "" if rank is None else f" on rank {rank}"
        return (
            f"the script draws from the generator of {family}{where} and never seeds it: "
            f"call {setter} with a fixed seed"
        )
    setter = unit.knob.partition(CALL)[0]
    how = "lets the system choose the seed" if FRESH in str(unit.a) else "takes the seed from time or process"
    if not stands_alone(unit):
        how = "gives another seed each time"
    return f"the script {how} in {setter} ({unit.a}, {unit.b}): give it a fixed one"


def _proof(bisection: Bisection, units: list[Unit]) -> Iterator[str]:
    """Yield the sentence that names the trials in which A's and B's values were held."""
    names = ", ".join(unit.knob for unit in units)
    swapped = {frozenset[object](): Outcome.A, frozenset[object](units): Outcome.B}
    numbers = [
        next((t.n for t in bisection.trials if frozenset(t.swapped) == which and t.outcome is outcome), None)
        for which, outcome in swapped.items()
    ]
    if None not in numbers:
        of_a, of_b = numbers
        yield f"proved: with A's {names} held A repeats itself (trial {of_a}), with B's it is B (trial {of_b})"
