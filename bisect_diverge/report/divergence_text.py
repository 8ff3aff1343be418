"""The result of a comparison as text for people: the answer, what supports it, and what to do next."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from bisect_diverge.diff.notes import SAME_RUN
from bisect_diverge.model.divergence import Divergence, Side, Verdict
from bisect_diverge.model.environment import Layer
from bisect_diverge.report.commands import bisect_options, command_line
from bisect_diverge.report.elements_text import elements, is_generator, looks
from bisect_diverge.report.fold import fold
from bisect_diverge.report.numbers_text import growth_lines, growth_sentence, more_numbers
from bisect_diverge.report.words import Paint, moment, place, plain, plural, printable, step

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bisect_diverge.model.address import Address
    from bisect_diverge.model.divergence import Compared, Place

LISTED = 5
"""Origins that are listed; the rest is counted."""
ENVIRONMENT_LINES = 20
"""Lines on the environment; `bd env` prints all."""
ENVIRONMENT_LINES_OF_TWO = 8
"""The same where the runs are of two scripts, between which nearly everything differs."""
PROGRAM = "argv.program"
"""Knob of the script's name."""
NOTHING_RECORDED = "nothing that was recorded (bd record --env NAME records a variable of yours)"


def divergence_text(
    divergence: Divergence,
    label_a: str,
    label_b: str,
    paint: Paint = plain,
    *,
    options: tuple[str, ...] = (),
    details: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Return the result of a comparison as text, without a line end.

    Args:
        divergence: The result.
        label_a: The baseline as the user named it.
        label_b: The candidate as the user named it.
        paint: Gives headings and the verdict a look.
        options: Options of ``bd diff`` that it was made with, as they are typed.
        details: What differs inside files, by knob (`report.contents`).
    """
    lines = [
        _verdict(divergence, paint),
        *_facts(divergence),
        *_origins(divergence, paint),
        *_growth(divergence, paint),
        *_environment(divergence, label_a, label_b, paint, details or {}),
        *_notes(divergence, paint),
        *_next(divergence, label_a, label_b, options),
    ]
    return fold("\n".join(lines))


def verdict_sentence(divergence: Divergence) -> str:
    """Return the answer as one sentence after its glyph: ``=`` equal, ``≠`` differs, ``?`` cannot be told."""
    if divergence.first is not None:
        return f"≠ the runs diverge at {_where(divergence)}"
    compared = divergence.compared
    amount = f"{plural(compared.records, 'record')} in {plural(compared.steps, 'step')}"
    if compared.unreadable:
        amount += f", {compared.unreadable} of them by class and shape only"
    if SAME_RUN in divergence.notes and divergence.verdict is not Verdict.NOT_COMPARABLE:
        return f"= A and B are one and the same recording, compared with itself: {amount}"
    sentences = {
        Verdict.EQUAL: f"= the runs are equal, bit for bit: {amount}",
        Verdict.EQUAL_SO_FAR: f"= equal so far, bit for bit: {amount}; {divergence.limited or 'a run is unfinished'}",
        Verdict.NOT_COMPARABLE: f"? the runs cannot be compared: {printable(next(iter(divergence.notes), ''))}",
    }
    return sentences[divergence.verdict]


def _verdict(divergence: Divergence, paint: Paint) -> str:
    good = divergence.verdict in (Verdict.EQUAL, Verdict.EQUAL_SO_FAR)
    return paint(verdict_sentence(divergence), "good" if good else "bad")


def _where(divergence: Divergence) -> str:
    first = divergence.first
    assert first is not None
    if divergence.structure:
        return f"{step(first.address)}: {printable(divergence.structure)}"
    only = {Side.BOTH: "", Side.A: "only A has ", Side.B: "only B has "}[first.side]
    return f"{moment(first.address)}: {only}{place(first.address)}{printable(_class(first))}"


def _class(first: Place) -> str:
    if first.module_type_b:
        return f", {first.module_type or 'no class'} in A, {first.module_type_b} in B"
    return f", {first.module_type}" if first.module_type else ""


def facts(divergence: Divergence) -> Iterator[tuple[str, str]]:
    """Yield what supports the answer, as pairs of a label and a text without control characters."""
    yield "scripts", _scripts(divergence)
    first = divergence.first
    if first is not None:
        yield "kind", str(divergence.kind)
        yield "address", str(first.address)
        yield "called", first.site
        known = {True: "yes", False: "no", None: "undetermined"}[divergence.is_origin]
        yield "origin", f"{known}: {divergence.origin_reason}"
        if divergence.stretch is not None:
            yield "begins", divergence.stretch.sentence
        if first.side is Side.BOTH:
            yield "elements", elements(divergence)
        yield "more", _more(divergence)
        yield "looks", looks(divergence)
        if divergence.batches is not None:
            yield "samples", divergence.batches.sentence
        if divergence.propagated:
            yield "follows", f"{plural(divergence.propagated, 'more record')} of that step"
    if divergence.growth is not None:
        yield "growth", growth_sentence(divergence.growth)
    if divergence.verdict is not Verdict.NOT_COMPARABLE:
        yield "compared", _amount(divergence.compared)


def _more(divergence: Divergence) -> str:
    if divergence.numbers is None or is_generator(divergence):
        return ""
    scalar = divergence.tensor is not None and divergence.tensor.numel == 1
    return "; ".join(more_numbers(divergence.numbers, scalar=scalar))


def _scripts(divergence: Divergence) -> str:
    """Return that the runs are of two scripts; empty where they are of one, or that is not known."""
    rows = (row for row in divergence.environment if row.layer is Layer.CONFIGURATION and row.knob == PROGRAM)
    row = next(rows, None)
    if row is None or row.a is None or row.b is None:
        return ""
    return f"these are different scripts ({row.a}, {row.b}): only what has the same name in both was compared"


def _facts(divergence: Divergence) -> Iterator[str]:
    return (f"  {label:<8}  {printable(text)}" for label, text in facts(divergence) if text)


def _amount(compared: Compared) -> str:
    differ = "differs" if compared.differing == 1 else "differ"
    parts = [f"{compared.equal} equal", f"{compared.differing} {differ}"]
    parts += [f"{compared.only_in_a} only in A"] * bool(compared.only_in_a)
    parts += [f"{compared.only_in_b} only in B"] * bool(compared.only_in_b)
    amount = f"{plural(compared.records, 'record')} in {plural(compared.steps, 'step')}"
    return f"{amount}: {', '.join(parts)}"


def origins(divergence: Divergence) -> tuple[Address, ...]:
    """Return the origins of the first step that differs; none where the first divergence is the only one."""
    first = None if divergence.first is None else divergence.first.address
    found = divergence.origins_in_first_step
    return found if any(address != first for address in found) else ()


def _origins(divergence: Divergence, paint: Paint) -> Iterator[str]:
    found = origins(divergence)
    if not found:
        return
    yield paint("  origins in that step", "title")
    yield from (f"    {printable(str(address))}" for address in found[:LISTED])
    if len(found) > LISTED:
        yield f"    ... {len(found) - LISTED} more (--format json has all)"


def _growth(divergence: Divergence, paint: Paint) -> Iterator[str]:
    if divergence.growth is not None and divergence.growth.steps:
        yield paint("  distance from A in each step", "title")
        yield from (f"    {line}" for line in growth_lines(divergence.growth))


def _environment(
    divergence: Divergence, label_a: str, label_b: str, paint: Paint, details: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    if not divergence.environment:
        if divergence.verdict is Verdict.DIVERGED:
            yield f"{paint('  what differs in the environment', 'title')}: {NOTHING_RECORDED}"
        return
    from bisect_diverge.report.environment_text import differences_text

    lines = differences_text(divergence.environment, (), details).splitlines()
    yield paint("  what differs in the environment", "title")
    limit = ENVIRONMENT_LINES_OF_TWO if _scripts(divergence) else ENVIRONMENT_LINES
    yield from (f"    {line}" for line in lines[:limit])
    if len(lines) > limit:
        more = plural(len(lines) - limit, "more line")
        yield f"    ... {more}: {shlex.join(['bd', 'env', label_a, label_b])}"


def _notes(divergence: Divergence, paint: Paint) -> Iterator[str]:
    notes = divergence.notes[divergence.verdict is Verdict.NOT_COMPARABLE :]
    notes = tuple(note for note in notes if note != SAME_RUN)
    if notes:
        yield paint("  notes", "title")
        yield from (f"    {printable(note)}" for note in notes)


def _next(divergence: Divergence, label_a: str, label_b: str, options: tuple[str, ...]) -> Iterator[str]:
    if divergence.verdict is not Verdict.DIVERGED:
        return
    if divergence.offset_b is not None:
        options = (*options, "--offset-b", str(divergence.offset_b))
    yield f"next: {command_line(['bd', 'walk', label_a, label_b, *options])}"
    if divergence.environment:
        yield f"      {command_line(['bd', 'bisect', label_a, label_b, *bisect_options(options)])}"
