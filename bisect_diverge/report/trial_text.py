"""One trial as text for people, and as JSON for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bisect_diverge.model.trial import Outcome
from bisect_diverge.report.words import Paint, moment, place, plain, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.model.address import Address
    from bisect_diverge.model.trial import Trial

LONGEST = 60
"""Characters of a value that are shown."""

_SENTENCES = {
    Outcome.A: ("A's bits", ": this change makes no difference"),
    Outcome.B: ("B's bits", ": this change makes B out of A"),
    Outcome.OTHER: ("neither A's bits nor B's", ""),
    Outcome.SKIP: ("it did not run", ""),
    Outcome.FLAKY: ("it does not repeat itself", ""),
}
"""Whose bits, and what follows; how far they were compared stands between."""


def trial_text(trial: Trial, *, with_b: bool, paint: Paint = plain, doubts: Sequence[str] = ()) -> str:
    """Return a trial as text, without a line end.

    Args:
        trial: The trial.
        with_b: It was compared with B as well.
        paint: Gives headings and the outcome a look.
        doubts: What is wrong with the names that were to be changed, in words; as long as the bits are A's, nothing
            shows that such a change was read by anybody.
    """
    untested = _untested(trial, doubts)
    sentence = untested or _sentence(trial, with_b)
    if trial.reason:
        sentence += f": {printable(trial.reason)}"
    good = trial.outcome in (Outcome.A, Outcome.B) and not untested
    return "\n".join((paint(sentence, "good" if good else "bad"), *_details(trial, with_b, paint)))


def _sentence(trial: Trial, with_b: bool) -> str:
    """Return whose bits a trial has, up to where they were compared, and what follows."""
    bits, follows = _SENTENCES[trial.outcome]
    if trial.outcome is Outcome.OTHER and not with_b:
        bits = "not A's bits"
    if trial.outcome is Outcome.A and not trial.swapped:
        follows = ": A repeats itself"
    ended = f"{_up_to(trial)}, where it ended" if follows and _up_to(trial) else ""
    return f"{bits}{ended}{follows}"


def _untested(trial: Trial, doubts: Sequence[str]) -> str:
    """Return that nothing was tested, and why; empty where something was."""
    if trial.outcome is not Outcome.A or not trial.swapped:
        return ""
    if doubts:
        why = "; ".join(doubts)
    elif set(trial.swapped) <= set(trial.inert):
        why = f"{', '.join(map(str, trial.swapped))} did not move"
    else:
        return ""
    return printable(f"nothing was tested: {why}; the bits are A's{_up_to(trial)}")


def _up_to(trial: Trial) -> str:
    return "" if trial.stopped_at_step is None else f" up to step {trial.stopped_at_step}"


def _details(trial: Trial, with_b: bool, paint: Paint) -> Iterator[str]:
    for unit in trial.swapped:
        note = "   (inert: no resolved value moved with it)" if unit in trial.inert else ""
        yield printable(f"  {unit.layer} {unit.knob}: {_side(unit.a)} -> {_side(unit.b)}{note}")
    yield from _first("A", trial.first_against_a)
    if with_b:
        yield from _first("B", trial.first_against_b)
    if trial.consequences:
        yield paint("moved with it", "title")
        yield from (printable(f"  {d.layer} {d.knob}: {_side(d.a)} -> {_side(d.b)}") for d in trial.consequences)
    if trial.overridden:
        yield paint("overridden", "title")
        yield from (printable(f"  {note}") for note in trial.overridden)
    if trial.stopped_at_step is not None:
        reused = ", from the journal of an earlier search" if trial.reused else ""
        yield f"ran to step {trial.stopped_at_step} in {trial.seconds:.1f} s{reused}"


def _first(name: str, address: Address | None) -> Iterator[str]:
    if address is not None:
        yield f"first divergence from {name}: {moment(address)}, {place(address)}"


def _side(value: str | None) -> str:
    if value is None:
        return "(not set)"
    return value if len(value) <= LONGEST else f"{value[:LONGEST]}..."


def trial_json(trial: Trial) -> str:
    """Return a trial as an indented JSON document."""
    moved = [{"layer": str(d.layer), "knob": d.knob, "a": d.a, "b": d.b} for d in trial.consequences]
    document: dict[str, Any] = {"schema": 1} | trial.to_json() | {"consequences": moved}
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
