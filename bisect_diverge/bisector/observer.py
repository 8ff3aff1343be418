"""Does recording itself change A or B, or the difference between them? Both are run without it, again if that differs.

Searching for the cause of a difference that only exists while it is looked at would end with a wrong answer (the lesson
of FLiT, where ``-fPIC`` alone removed what it should explain: Sawaya et al. 2017).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.bisector.abilities import ObservingOracle
from bisect_diverge.model.trial import BisectVerdict, Observer

if TYPE_CHECKING:
    from bisect_diverge.bisector.state import State
    from bisect_diverge.model.trial import Observation, Unit

NOT_TESTED = "not tested whether recording changes the bits"


def check_recording(state: State) -> None:
    """Run A and B once each without recording, and settle the verdict where that shows another difference.

    Raises:
        Stopped: if the budget is spent.
    """
    oracle = state.bench.oracle
    if not isinstance(oracle, ObservingOracle):
        return
    a = state.bench.observe(oracle, ())
    if a.reason:
        state.notes.append(f"{NOT_TESTED}: {a.reason}")
        return
    b = state.bench.observe(oracle, state.units)
    if b.reason:
        state.notes.append(f"{NOT_TESTED} of B: {b.reason}")
        return
    for name, swapped, seen in (("A", (), a), ("B", state.units, b)):
        if seen.unrecorded != seen.recorded and _is_noise(state, oracle, swapped, seen):
            state.verdict = BisectVerdict.NOT_REPEATABLE
            state.notes.append(
                f"unrecorded, {name} does not repeat itself (two runs differ in {seen.where}): nothing can be blamed; "
                "--no-observer-check searches the difference of the recorded runs"
            )
            return
    state.observer = _told(a, b)
    state.notes.append(_sentence(state.observer, a, b))
    if state.observer in {Observer.CREATES, Observer.HIDES}:
        state.verdict = BisectVerdict.INCONCLUSIVE
        state.why = state.notes[-1]
    elif a.recorded == b.recorded:
        state.notes.append(f"A and B do not differ in {a.where}: not tested whether recording makes their difference")


def _is_noise(state: State, oracle: ObservingOracle, swapped: tuple[Unit, ...], seen: Observation) -> bool:
    """Whether a further unrecorded run has other bits again: then that it differs from the recorded one says nothing.

    Raises:
        Stopped: if the budget is spent.
    """
    again = state.bench.observe(oracle, swapped)
    return not again.reason and again.unrecorded != seen.unrecorded


def _told(a: Observation, b: Observation) -> Observer:
    if a.unrecorded == a.recorded and b.unrecorded == b.recorded:
        return Observer.UNCHANGED
    apart, apart_recorded = a.unrecorded != b.unrecorded, a.recorded != b.recorded
    if apart == apart_recorded:
        return Observer.CHANGED
    return Observer.HIDES if apart else Observer.CREATES


def _sentence(observer: Observer, a: Observation, b: Observation) -> str:
    changed = " and ".join(name for name, seen in (("A", a), ("B", b)) if seen.unrecorded != seen.recorded)
    match observer:
        case Observer.UNCHANGED:
            return f"recording does not change A or B ({a.where} compared, both run once unrecorded)"
        case Observer.CREATES:
            return f"recording creates the effect: unrecorded, A and B have the same bits in {a.where}"
        case Observer.HIDES:
            return f"recording destroys the effect: unrecorded, A and B differ in {a.where}, recorded they do not"
    return (
        f"recording changes the bits of {changed} ({a.where}); unrecorded A and B differ as well, "
        "and what was searched is the recorded difference"
    )
