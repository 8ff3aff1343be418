"""Seeds that the script gives to generators, call by call, and the states that generators begin with."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from bisect_diverge.environment.inputs import kept
from bisect_diverge.environment.knobs import setting
from bisect_diverge.environment.seeds import (
    DRAWN,
    FRESH,
    INITIAL,
    PROCESS,
    RANK,
    STATE,
    by_rank,
    calls_in,
    is_fresh,
    is_other,
    is_told,
    of_ranks,
    rank_of,
)
from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import Unit
from bisect_diverge.trial.packages import CannotBuildError
from bisect_diverge.trial.parts import PARTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bisect_diverge.model.environment import Difference, Environment, Setting
    from bisect_diverge.model.run import RunRecord
    from bisect_diverge.trial.draft import Draft, Sides

CALL = "#"
"""Between a setter and the number of the call, from 1, that a unit means."""

_Given = tuple["RunRecord", list[str | None]]
"""The run that has the states which texts of seeds name, and those texts, call by call; None: the script's own."""


def swap(sides: Sides, units: Sequence[Unit], draft: Draft) -> Draft:
    """Let the script's setters give B's seeds; hold what would be another in every process, whether swapped or not.

    Each rank gets its own.

    Raises:
        CannotBuildError: if a seed or state is not known any more.
    """
    values = _held(sides)
    for unit in units:
        knob, _, number = unit.knob.partition(CALL)
        base, rank = rank_of(knob)
        for one, text in _of_each(sides, unit, rank).items():
            _, before = values.get((base, one), (sides.a, []))
            values[base, one] = _swapped(sides, base, text, before, number)
    for (knob, rank), (record, texts) in values.items():
        pin = _pin(knob, record, texts)
        for process in _processes(sides, rank) if pin else ():
            draft.pins.setdefault(f"seeds.{knob}{process}", pin)
    return draft


def _of_each(sides: Sides, unit: Unit, rank: int | None) -> dict[int, str | None]:
    """Return rank to B's text, of the one rank that a unit means, or of all."""
    if rank is not None:
        return {rank: unit.b}
    world = max(sides.a.world_size, sides.b.world_size)
    return dict.fromkeys(range(world)) if unit.b is None else {**by_rank(unit.b, world)}


def _swapped(sides: Sides, knob: str, text: str | None, before: list[str | None], number: str) -> _Given:
    """Return what a rank is given: B's text for all calls of a setter, or for one of them, or as a first state."""
    if knob.startswith(INITIAL):
        return sides.b, [text]
    if not number:
        return sides.b, _calls(text, len(before))
    longer = [*before, *[None] * (int(number) - len(before))]
    longer[int(number) - 1] = text if text is None else _told(sides.b, text)
    return sides.a, longer


def _pin(knob: str, record: RunRecord, texts: list[str | None]) -> str:
    """Return what the process is told; empty where there is nothing to hold."""
    if knob.startswith(INITIAL):
        return _state(record, texts[0] or "")
    if all(text is None for text in texts):
        return ""
    return json.dumps([None if text is None else _told(record, text) for text in texts])


def _processes(sides: Sides, rank: int) -> tuple[str, ...]:
    """Return what the knob of a pin ends in for a rank, as A's command starts it, and as B's does.

    A process must know what to hold when torch is imported, when it may not know its rank yet: it is told by its
    variables, or by its number among the processes that multiprocessing has started.
    """
    ends = []
    for record in (sides.a, sides.b):
        row = next((s.value for s in record.environment.settings if s.knob == PROCESS and s.layer is Layer.SEEDS), "")
        place = by_rank(row, record.world_size).get(rank, "") if row else ""
        ends.append(f"@{place}" if place else f"{RANK}{rank}" if rank else "")
    return tuple(dict.fromkeys(ends))


def _held(sides: Sides) -> dict[tuple[str, int], _Given]:
    """Return what is held in every trial: A's seeds that are others in every process, and those that only B has."""
    found: dict[tuple[str, int], _Given] = {}
    for record in (sides.b, sides.a):
        for knob, value in seeds_of(record).items():
            for rank, text in by_rank(value, record.world_size).items():
                texts = (text,) if knob.startswith(INITIAL) else calls_in(text) or ()
                held = [t if _is_held(knob, t, sides.moving) else None for t in texts]
                if any(each is not None for each in held):
                    found[knob, rank] = (record, held)
                elif record is sides.a:
                    found.pop((knob, rank), None)
    return found


def of_all_ranks(environments: Mapping[int, Environment]) -> tuple[Setting, ...]:
    """Return the seeds of a run, and the places of its processes, with those of all ranks in one text each.

    Args:
        environments: Rank to its environment.
    """
    values: dict[str, dict[int, str]] = {}
    for rank, environment in environments.items():
        for knob, value in seeds_in(environment).items():
            values.setdefault(knob, {})[rank] = value
        place = environment.value(Layer.SEEDS, PROCESS)
        if place is not None:
            values.setdefault(PROCESS, {})[rank] = place
    return tuple(
        setting(Layer.SEEDS, knob, of_ranks(texts, len(environments)), resolved=knob == PROCESS)
        for knob, texts in values.items()
    )


def named(unit: Unit) -> Unit:
    """Return the unit of a seed; where one rank's differs alone, the unit of that rank."""
    if unit.layer is not Layer.SEEDS or not is_seed(unit.knob) or unit.a is None or unit.b is None:
        return unit
    pairs = _pairs(unit.a, unit.b)
    differing = [rank for rank, (x, y) in pairs.items() if x != y]
    if len(differing) != 1 or pairs[differing[0]] == (unit.a, unit.b):
        return unit
    (rank,) = differing
    a, b = pairs[rank]
    return replace(unit, knob=f"{unit.knob}{RANK}{rank}", a=a, b=b)


def _pairs(a: str, b: str) -> dict[int, tuple[str | None, str | None]]:
    """Return rank to its texts in A and in B; None where the rank has no such row."""
    one, other = by_rank(a, 1), by_rank(b, 1)
    world = max(*one, *other) + 1
    one, other = by_rank(a, world), by_rank(b, world)
    return {rank: (one.get(rank), other.get(rank)) for rank in sorted({*one, *other})}


def _is_held(knob: str, text: str, moving: Sequence[str]) -> bool:
    """Whether a seed is given again in every trial: it is another in every process, and it is known."""
    return knob.startswith(INITIAL) or ((is_fresh(text) or knob in moving) and is_told(text))


def seeds_of(record: RunRecord) -> dict[str, str]:
    """Return setter, or knob of a first state, to its value."""
    return seeds_in(record.environment)


def seeds_in(environment: Environment) -> dict[str, str]:
    """Return the same of an environment."""
    return {
        s.knob: s.value for s in environment.settings if s.layer is Layer.SEEDS and not s.resolved and is_seed(s.knob)
    }


def is_seed(knob: str) -> bool:
    """Whether a knob of the layer is what the script gave to a generator, or what one began with."""
    return "." in knob and not knob.startswith("hash.")


def held_in(record: RunRecord, moving: Sequence[str] = ()) -> tuple[str, ...]:
    """Return what is held at the values of a run in every trial, since it is another in every process."""
    return tuple(
        knob
        for knob, value in seeds_of(record).items()
        if knob.startswith(INITIAL)
        or any(_is_held(knob, t, moving) for text in by_rank(value, 1).values() for t in calls_in(text) or ())
    )


def moved(a: RunRecord, now: Mapping[str, str]) -> tuple[str, ...]:
    """Return the setters that got other seeds in a replay of a run, with nothing swapped."""
    return tuple(
        knob
        for knob, value in seeds_of(a).items()
        if knob in now and any(x and y and calls_in(x) and is_other(x, y) for x, y in _pairs(value, now[knob]).values())
    )


def stands_alone(difference: Difference | Unit) -> bool:
    """Whether two runs differ in seeds that no input of theirs decides: a unit, whatever else differs."""
    if difference.a is None or difference.b is None or not is_seed(difference.knob):
        return False
    if difference.knob.startswith(INITIAL):
        return True
    return all(_is_fresh_alone(x, y) for x, y in _pairs(difference.a, difference.b).values() if x != y)


def _is_fresh_alone(a: str | None, b: str | None) -> bool:
    one, other = calls_in(a or ""), calls_in(b or "")
    if a is None or b is None or one is None or other is None or len(one) != len(other):
        return False
    return all(is_fresh(x) and is_fresh(y) for x, y in zip(one, other, strict=True) if x != y)


def why_not(unit: Unit) -> str:
    """Return why seeds cannot be taken from B; empty if they can."""
    if unit.knob.startswith(INITIAL):
        return "" if unit.b is not None else "B gave that generator a seed"
    if unit.a is None or unit.b is None:
        return "the setter was called in one of the two runs only"
    return next((reason for a, b in _pairs(unit.a, unit.b).values() if (reason := _why_not(a, b))), "")


def _why_not(a: str | None, b: str | None) -> str:
    if a is None or b is None:
        return "on one rank the setter was called in one of the two runs only"
    one, other = calls_in(a), calls_in(b)
    if one is None or other is None:
        return "the setter was called more often than seeds are written out"
    if any(not is_told(text) for at, text in enumerate(other) if at >= len(one) or text != one[at]):
        return "of a seed in B no more is known than that it was there"
    return ""


def calls_of(_a: RunRecord, _b: RunRecord, unit: Unit) -> tuple[Unit, ...]:
    """Return the calls of a setter of which the seed differs, on one rank or on several."""
    if unit.knob.startswith(INITIAL) or CALL in unit.knob or unit.a is None or unit.b is None:
        return ()
    pairs = _pairs(unit.a, unit.b)
    calls = {rank: (calls_in(x or ""), calls_in(y or "")) for rank, (x, y) in pairs.items()}
    lengths = {len(texts or ()) for both in calls.values() for texts in both}
    if len(lengths) != 1 or 0 in lengths or any(None in both for both in pairs.values()):
        return ()
    units = (
        Unit(layer=unit.layer, knob=f"{unit.knob}{CALL}{n + 1}", a=_nth(calls, 0, n), b=_nth(calls, 1, n))
        for n in range(lengths.pop())
    )
    return tuple(each for each in units if each.a != each.b)


def _nth(calls: Mapping[int, tuple[tuple[str, ...] | None, ...]], side: int, number: int) -> str:
    return of_ranks({rank: (both[side] or ())[number] for rank, both in calls.items()}, len(calls))


def _calls(value: str | None, at_least: int) -> list[str | None]:
    """Return the seeds of a value; one that was given by hand counts for every call."""
    texts = calls_in(value or "")
    if texts is None:
        raise CannotBuildError("not all seeds of the setter were written out")
    told = [text if is_told(text) else None for text in texts]  # else the script's own, which is the same in both
    return told if len(told) > 1 else told * max(at_least, 1)


def _told(record: RunRecord, text: str) -> str:
    """Return the text of a seed as the process takes it: a state by the path at which it was kept."""
    kind, _, value = text.rpartition(" ")
    return f"{STATE}{_state(record, value)}" if kind in (FRESH, DRAWN) and value.startswith("xxh3:") else text


def _state(record: RunRecord, value: str) -> str:
    place = kept(record.place, value)
    if place is None:
        raise CannotBuildError(f"the state of a generator was not kept in {record.place or 'the run'}")
    return str(place)


PARTS["seeds:*"] = calls_of
