"""Does a run read memory that nobody has written? Its bits then follow what memory is filled with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.bisector.abilities import FillingOracle
from bisect_diverge.bisector.bench import Stopped, value_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bisect_diverge.bisector.bench import Value
    from bisect_diverge.bisector.state import State
    from bisect_diverge.model.trial import Trial, Unit

LOOK = (
    "look for torch.empty, numpy.empty, Tensor.new and resize_ of which not every element is assigned before it is read"
)


def unwritten(state: State, swapped: tuple[Unit, ...], usual: Value = None) -> list[str]:
    """Return sentences on whether a configuration reads memory that nobody has written, with the trials that show it.

    Evidence are two trials with one filling that agree, two with another that agree, and that the two pairs differ.
    What else makes noise is clamped, as far as that fills no memory itself. Two runs more tell the place.

    Args:
        state: The search.
        swapped: The configuration.
        usual: What it gives each time, without clamps; a trial that has it ends this. None: it gives other bits each
            time.

    Returns:
        Nothing where the oracle cannot fill memory.

    Raises:
        Stopped: if the budget is spent.
    """
    oracle = state.bench.oracle
    fills = oracle.fills() if isinstance(oracle, FillingOracle) else ()
    if not isinstance(oracle, FillingOracle) or len(fills) < 2:
        return []
    calm = () if usual is not None else tuple(clamp for clamp in oracle.clamps() if not oracle.fills_too(clamp))
    pairs: list[list[Trial]] = []
    for fill in fills[:2]:
        clamped = oracle.clamped((*calm, fill))
        pairs.append([])
        for number in range(2):
            trial = state.bench.aside(clamped, swapped, number)
            pairs[-1].append(trial)
            if value_of(trial) is None:
                return [f"not told whether it reads memory that nobody has written: {_failed(trial, fill)}"]
            if usual is not None and value_of(trial) == usual:
                return [f"{fill} (trial {trial.n}) it gives the same bits: no memory is read that nobody has written"]
        if len(set(map(value_of, pairs[-1]))) > 1:
            return [_not_told(pairs[-1], fill, calm)]
    if value_of(pairs[0][0]) == value_of(pairs[1][0]):
        return [
            f"what memory is filled with makes no difference ({_which(pairs)}): none is read that nobody has written"
        ]
    where = _where(state, oracle, swapped, [(*calm, fill) for fill in fills[:2]])
    return [f"it reads memory that nobody has written: its bits follow {_evidence(pairs, fills)}{where}", LOOK]


def look_for_unwritten(state: State, swapped: tuple[Unit, ...], usual: Value) -> None:
    """Note whether a configuration that repeats itself does so by luck; a spent budget only ends that."""
    try:
        state.notes += unwritten(state, swapped, usual)
    except Stopped as stop:
        state.notes.append(f"not tried whether it reads memory that nobody has written: {stop}")


def _where(state: State, oracle: FillingOracle, swapped: tuple[Unit, ...], clamps: Sequence[tuple[str, ...]]) -> str:
    """Return the place where it shows, in words; none where the budget has no two runs for it."""
    try:
        place = state.bench.part(oracle, swapped, *clamps)
    except Stopped as stop:
        return f"; not looked where: {stop}"
    return "" if place is None else f"; first seen at {place}"


def _failed(trial: Trial, fill: str) -> str:
    return f"with {fill} it does not run (trial {trial.n}: {trial.reason or 'no reason known'})"


def _not_told(pair: Sequence[Trial], fill: str, calm: Sequence[str]) -> str:
    also = f" and {', '.join(calm)}" if calm else ""
    return (
        f"not told whether it reads memory that nobody has written: with {fill}{also} it does not repeat itself "
        f"(trials {pair[0].n} and {pair[1].n})"
    )


def _evidence(pairs: Sequence[Sequence[Trial]], fills: Sequence[str]) -> str:
    said = [f"with {fill} trials {one.n} and {two.n} agree" for fill, (one, two) in zip(fills, pairs, strict=False)]
    return f"what memory is filled with ({', '.join(said)}, and the two pairs differ)"


def _which(pairs: Sequence[Sequence[Trial]]) -> str:
    numbers = [str(trial.n) for pair in pairs for trial in pair]
    return f"trials {', '.join(numbers[:-1])} and {numbers[-1]}"
