"""Looks for units that stand in for others: ``A and (B or C)`` has two smallest sets, which share A."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING

from bisect_diverge.bisector.bench import A
from bisect_diverge.bisector.partners import sufficient_set
from bisect_diverge.bisector.roles import prove
from bisect_diverge.model.trial import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.bisector.state import State
    from bisect_diverge.model.trial import Unit

SETS = 8
"""So many smallest sets are looked for at most."""
COMBINATIONS = 1024
"""So many ways to put back one unit of each set are considered at most."""


def find_stand_ins(state: State, met: dict[Unit, None]) -> bool:
    """Find the sets that make the target where one unit of each known set is put back to A's value.

    Every smallest set that is not known avoids some minimal hitting set of those that are (Reiter 1987), so that
    B with that one put back is B still, and shows it. For a pair these are the trials of B without one or the other.

    Returns:
        Whether every such trial ran: there is no further set then.

    Raises:
        Flaky: if a trial that shows that there is none does not repeat itself.
        Stopped: if the budget is spent.
    """
    silent: set[frozenset[Unit]] = set()
    while len(state.found) <= SETS and prod(len(group) for group in state.found) <= COMBINATIONS:
        rest = _sufficient_rest(state, silent)
        if rest is None:
            break
        chosen, passed = sufficient_set(state.bench, rest, str(state.target))
        met.update(dict.fromkeys(passed))
        state.found.append(chosen)
        prove(state, chosen)
    else:
        state.notes.append("there are more ways to make B than were looked for")
        return False
    if silent:
        names = "; ".join(", ".join(sorted(str(unit) for unit in hit)) for hit in silent)
        state.notes.append(f"B with only these put back does not run, so that others may do the same: {names}")
    return not silent


def _sufficient_rest(state: State, silent: set[frozenset[Unit]]) -> tuple[Unit, ...] | None:
    """Return units that make the target though they contain no known set; None if there are none."""
    for hit in minimal_hitting_sets(state.found):
        rest = _rest(state, hit)
        if rest is None:
            silent.add(hit)
            continue
        value = state.bench.value(rest)
        if value == state.target:
            return rest
        if value != A:
            state.bench.sure(rest)  # noise here would make a stand-in innocent
    return None


def _rest(state: State, hit: frozenset[Unit]) -> tuple[Unit, ...] | None:
    """Return all units but these, and but one more if they do not run: the one that needs one of these.

    Every configuration that runs without these is then also without that one, so that nothing is overlooked. That
    holds only of what fails each time.
    """
    rest = state.rest(*hit)
    if state.bench.value(rest) is not None or state.bench.sure(rest) is not None:
        return rest
    trial = state.bench.found(rest)
    if trial is None or trial.outcome is not Outcome.SKIP:
        return None
    for unit in dict.fromkeys(unit for group in state.found for unit in group if unit not in hit):
        fewer = state.rest(*hit, unit)
        if state.bench.value(fewer) is not None:
            return fewer
    return None


def minimal_hitting_sets(groups: Sequence[Sequence[Unit]]) -> list[frozenset[Unit]]:
    """Return the smallest sets that share a unit with every group, in a stable order."""
    hits = sorted(dict.fromkeys(frozenset(choice) for choice in product(*groups)), key=len)
    return [hit for hit in hits if not any(other < hit for other in hits)]
