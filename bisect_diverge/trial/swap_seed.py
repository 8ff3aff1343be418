"""Seeds that the script gives to generators, call by call, and the states that generators begin with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from bisect_diverge.environment.inputs import kept
from bisect_diverge.environment.seeds import FRESH, INITIAL, STATE, calls_in, is_fresh, is_told
from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import Unit
from bisect_diverge.trial.packages import CannotBuildError
from bisect_diverge.trial.parts import PARTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bisect_diverge.model.environment import Difference, Environment
    from bisect_diverge.model.run import RunRecord
    from bisect_diverge.trial.draft import Draft, Sides

CALL = "#"
"""Between a setter and the number of the call, from 1, that a unit means."""


def swap(sides: Sides, units: Sequence[Unit], draft: Draft) -> Draft:
    """Let the script's setters give B's seeds; hold what would be another in every process, whether swapped or not.

    Raises:
        CannotBuildError: if a seed or state is not known any more.
    """
    values = _held(sides)
    for unit in units:
        setter, call, number = unit.knob.partition(CALL)
        if setter.startswith(INITIAL):
            values[setter] = (sides.b, [unit.b])
        elif not call:
            values[setter] = (sides.b, _calls(unit.b, len(values.get(setter, (sides.a, ()))[1])))
        else:
            _, texts = values.get(setter, (sides.a, ()))
            longer = [*texts, *[None] * (int(number) - len(texts))]
            longer[int(number) - 1] = unit.b if unit.b is None else _told(sides.b, unit.b)
            values[setter] = (sides.a, longer)
    for knob, (record, texts) in values.items():
        if knob.startswith(INITIAL):
            draft.pins[f"seeds.{knob}"] = _state(record, texts[0] or "")
        elif any(text is not None for text in texts):
            told = [None if text is None else _told(record, text) for text in texts]
            draft.pins[f"seeds.{knob}"] = json.dumps(told)
    return draft


def _held(sides: Sides) -> dict[str, tuple[RunRecord, Sequence[str | None]]]:
    """Return what is held in every trial: A's seeds that are others in every process, and those that only B has."""
    found: dict[str, tuple[RunRecord, Sequence[str | None]]] = {}
    for record in (sides.b, sides.a):
        for knob, value in seeds_of(record).items():
            texts = [value] if knob.startswith(INITIAL) else calls_in(value) or ()
            held = [t if _is_held(knob, t, sides.moving) else None for t in texts]
            if any(text is not None for text in held):
                found[knob] = (record, held)
            elif record is sides.a:
                found.pop(knob, None)
    return found


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
        if knob.startswith(INITIAL) or any(_is_held(knob, text, moving) for text in calls_in(value) or ())
    )


def moved(a: RunRecord, now: Mapping[str, str]) -> tuple[str, ...]:
    """Return the setters that got other seeds in a replay of a run, with nothing swapped."""
    return tuple(k for k, v in seeds_of(a).items() if calls_in(v) and k in now and calls_in(now[k]) != calls_in(v))


def stands_alone(difference: Difference | Unit) -> bool:
    """Whether two runs differ in seeds that no input of theirs decides: a unit, whatever else differs."""
    if difference.a is None or difference.b is None or not is_seed(difference.knob):
        return False
    if difference.knob.startswith(INITIAL):
        return True
    one, other = calls_in(difference.a), calls_in(difference.b)
    if one is None or other is None or len(one) != len(other):
        return False
    return all(is_fresh(x) and is_fresh(y) for x, y in zip(one, other, strict=True) if x != y)


def why_not(unit: Unit) -> str:
    """Return why seeds cannot be taken from B; empty if they can."""
    if unit.knob.startswith(INITIAL):
        return "" if unit.b is not None else "B gave that generator a seed"
    if unit.a is None or unit.b is None:
        return "the setter was called in one of the two runs only"
    if calls_in(unit.a) is None or calls_in(unit.b) is None:
        return "the setter was called more often than seeds are written out"
    one, other = calls_in(unit.a) or (), calls_in(unit.b) or ()
    if any(not is_told(text) for at, text in enumerate(other) if at >= len(one) or text != one[at]):
        return "of a seed in B no more is known than that it was there"
    return ""


def calls_of(_a: RunRecord, _b: RunRecord, unit: Unit) -> tuple[Unit, ...]:
    """Return the calls of a setter of which the seed differs."""
    one, other = calls_in(unit.a or ""), calls_in(unit.b or "")
    if unit.knob.startswith(INITIAL) or CALL in unit.knob or not one or not other or len(one) != len(other):
        return ()
    return tuple(
        Unit(layer=unit.layer, knob=f"{unit.knob}{CALL}{number}", a=x, b=y)
        for number, (x, y) in enumerate(zip(one, other, strict=True), 1)
        if x != y
    )


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
    return f"{STATE}{_state(record, value)}" if kind == FRESH and value.startswith("xxh3:") else text


def _state(record: RunRecord, value: str) -> str:
    place = kept(record.place, value)
    if place is None:
        raise CannotBuildError(f"the state of a generator was not kept in {record.place or 'the run'}")
    return str(place)


PARTS["seeds:*"] = calls_of
