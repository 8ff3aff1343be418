"""What a set of units is to the divergence: the trials that show it, and how they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.bisector.bench import A, B
from bisect_diverge.bisector.chain import without
from bisect_diverge.model.trial import Cause, Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bisect_diverge.bisector.state import State
    from bisect_diverge.model.address import Address
    from bisect_diverge.model.environment import Difference
    from bisect_diverge.model.trial import Trial, Unit


def prove(state: State, chosen: tuple[Unit, ...]) -> None:
    """Run what tells the role of a set: A with it, B without it, and each unit of a pair alone in A.

    Of larger sets the change points were run alone already, and the set without any one of its units was shown
    not to do. B without one of the units is run when stand-ins are looked for.

    Raises:
        Stopped: if the budget is spent.
    """
    configurations = [chosen, state.rest(*chosen)]
    if len(chosen) == 2:
        configurations += [(unit,) for unit in chosen]
    state.bench.values(configurations)


def causes(state: State) -> Iterator[Cause]:
    """Yield the causes that the trials made so far show; no trial is run."""
    for chosen in state.found:
        yield _cause(state, chosen)
    if not any(len(chosen) == 1 for chosen in state.found):
        for unit in dict.fromkeys(unit for chosen in state.found for unit in chosen):
            yield from _start(state, unit)
    for chosen in state.covered:
        yield _covered(state, chosen)


def _cause(state: State, chosen: tuple[Unit, ...]) -> Cause:
    bench = state.bench
    forward, backward = bench.found(chosen), bench.found(state.rest(*chosen))
    reached = state.target == B and bench.known(chosen) == B
    back = bench.known(state.rest(*chosen))
    return Cause(
        units=chosen,
        role=_role(state, chosen),
        sufficient=reached,
        necessary=back == A,
        same_divergence=_same(state.first, forward, backward),
        consequences=_consequences(state, forward, chosen),
        proof=tuple(trial.n for trial in (forward, backward) if trial is not None),
        part_of=state.part_of(chosen),
    )


def _role(state: State, chosen: tuple[Unit, ...]) -> Role:
    bench = state.bench
    if bench.known(state.rest(*chosen)) == state.target:
        return Role.REDUNDANT
    if len(chosen) == 1:
        started = state.target != B and starts(bench.found(chosen), state.first)
        return Role.STARTS if started else Role.CAUSE
    apart = (bench.known(without(chosen, (unit,))) for unit in chosen)
    return Role.CAUSE if None in apart else Role.PARTNERS


def _same(first: Address | None, forward: Trial | None, backward: Trial | None) -> bool:
    """Return whether the proving trials first differ where B does; an address that is not known denies nothing."""
    seen = [] if forward is None else [forward.first_against_a]
    seen += [] if backward is None else [backward.first_against_b]
    return first is None or all(address in {None, first} for address in seen)


def starts(trial: Trial | None, first: Address | None) -> bool:
    """Return whether a trial has B's bits at the divergence, and A's before it.

    Such a trial first differs from A there, and from B only later: were it to differ from B any earlier, it would
    differ from A there too, since A and B are equal so far.
    """
    return trial is not None and first is not None and trial.first_against_a == first != trial.first_against_b


def _start(state: State, unit: Unit) -> Iterator[Cause]:
    trial = state.bench.found((unit,))
    if trial is None or not starts(trial, state.first):
        return
    yield Cause(
        units=(unit,),
        role=Role.STARTS,
        sufficient=False,
        necessary=state.bench.known(state.rest(unit)) == A,
        same_divergence=True,
        consequences=_consequences(state, trial, (unit,)),
        proof=(trial.n,),
        part_of=state.part_of((unit,)),
    )


def _covered(state: State, chosen: tuple[Unit, ...]) -> Cause:
    trial = state.bench.found(chosen)
    return Cause(
        units=chosen,
        role=Role.MASKED,
        sufficient=False,
        necessary=state.bench.known(state.rest(*chosen)) == A,
        same_divergence=starts(trial, state.first),
        consequences=_consequences(state, trial, chosen),
        proof=() if trial is None else (trial.n,),
        part_of=state.part_of(chosen),
    )


def _consequences(state: State, trial: Trial | None, chosen: tuple[Unit, ...]) -> tuple[Difference, ...]:
    """Return what moved with a set, but what had moved by itself since A was recorded: A's replay has that too."""
    own = {(unit.layer, unit.knob) for unit in chosen}
    rows = () if trial is None else trial.consequences
    anyway = {row for replay in state.replays_of_a for row in replay.consequences}
    return tuple(dict.fromkeys(row for row in rows if row not in anyway and (row.layer, row.knob) not in own))
