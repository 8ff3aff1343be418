"""The matrix: each unit alone in A, and each alone put back in B; all in one round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.bisector.bench import A
from bisect_diverge.bisector.partners import minimal
from bisect_diverge.bisector.roles import prove

if TYPE_CHECKING:
    from bisect_diverge.bisector.state import State
    from bisect_diverge.model.trial import Unit


def fill(state: State) -> None:
    """Run the matrix and read the causes from it: ``2n + 2`` trials with the controls.

    A unit that makes the target alone is a cause of its own. Where there is none, the units without which B is
    not B are taken together, which costs trials of that set. What needs a partner and has a double at the same
    time is not seen: that takes the chain.

    Raises:
        Flaky: if a trial that the answer rests on does not repeat itself.
        Stopped: if the budget is spent.
    """
    units, bench = state.units, state.bench
    values = bench.values([*((unit,) for unit in units), *(state.rest(unit) for unit in units)])
    alone = dict(zip(units, values[: len(units)], strict=True))
    put_back = dict(zip(units, values[len(units) :], strict=True))
    state.found += [(unit,) for unit in units if alone[unit] == state.target]
    if not state.found:
        _together(state, tuple(unit for unit in units if put_back[unit] != state.target))
    for chosen in state.found:
        prove(state, chosen)
        state.explained.update(chosen)
    blamed = state.blamed()
    state.covered += [(unit,) for unit in units if unit not in blamed and alone[unit] not in {A, None}]
    state.aside += [u for u in units if u not in state.blamed() and put_back[u] not in {state.target, None}]
    state.explained.update(state.blamed())
    state.complete = _is_whole(state)


def _is_whole(state: State) -> bool:
    """Whether nothing else has part: A is left without all that was blamed, and B is not left without the causes."""
    if not state.found or state.bench.value(state.rest(*state.explained)) != A:
        return False
    causes = {unit for group in state.found for unit in group}
    needed = [state.rest(unit) for group in state.found if len(group) > 1 for unit in group]
    for rest in (state.rest(*causes), *needed):
        if state.bench.value(rest) not in {A, state.target}:
            state.bench.sure(rest)  # noise here would make a stand-in innocent
    if state.bench.value(state.rest(*causes)) != state.target:
        return True
    state.notes.append("some units together do the same, which the matrix does not tell apart; use the chain")
    return False


def _together(state: State, needed: tuple[Unit, ...]) -> None:
    if needed and state.bench.value(needed) == state.target:
        state.found.append(minimal(state.bench, needed, str(state.target)))
    else:
        state.why = "no set can be read from the matrix: some unit has a double; use the chain (--mode chain)"
        state.notes.append(state.why)
