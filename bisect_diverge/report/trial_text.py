"""One trial as text for people, and as JSON for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bisect_diverge.model.trial import Outcome
from bisect_diverge.report.words import Paint, moment, place, plain, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bisect_diverge.model.address import Address
    from bisect_diverge.model.trial import Trial

LONGEST = 60
"""Characters of a value that are shown."""

_SENTENCES = {
    Outcome.A: "A's bits: this change makes no difference",
    Outcome.B: "B's bits: this change makes B out of A",
    Outcome.OTHER: "neither A's bits nor B's",
    Outcome.SKIP: "it did not run",
    Outcome.FLAKY: "it does not repeat itself",
}


def trial_text(trial: Trial, *, with_b: bool, paint: Paint = plain) -> str:
    """Return a trial as text, without a line end.

    Args:
        trial: The trial.
        with_b: It was compared with B as well.
        paint: Gives headings and the outcome a look.
    """
    sentence = _SENTENCES[trial.outcome]
    if trial.outcome is Outcome.OTHER and not with_b:
        sentence = "not A's bits"
    if trial.outcome is Outcome.A and not trial.swapped:
        sentence = "A's bits: A repeats itself"
    if trial.reason:
        sentence += f": {printable(trial.reason)}"
    return "\n".join(
        (paint(sentence, "good" if trial.outcome in (Outcome.A, Outcome.B) else "bad"), *_details(trial, with_b, paint))
    )


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
