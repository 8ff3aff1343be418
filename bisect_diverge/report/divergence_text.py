"""The result of a comparison as text for people: the answer, what supports it, and what to do next."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from bisect_diverge.model.divergence import Divergence, Side, Verdict
from bisect_diverge.model.elements import shape_text
from bisect_diverge.report.words import Paint, magnitude, moment, place, plain, plural, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bisect_diverge.model.divergence import Compared, ElementStatistics, Place

LISTED = 5
"""Origins that are listed; the rest is counted."""
ENVIRONMENT_LINES = 20
"""Lines on the environment; `bd env` prints all."""

HINTS = {
    "nan": "NaN in one run only, or other NaNs",
    "sign-of-zero": "zeros of another sign",
    "reduction-order": "as small as rounding: another order of summation, or another kernel",
    "permutation": "the same elements in another order",
    "masked": "zero in one run where the other is not: another mask, as of dropout",
    "scaled": "one constant factor apart",
    "shifted": "one constant summand apart",
    "values": "other values",
}
"""What a signature tells a reader; keys are the names of `numerics.signature`."""


def divergence_text(divergence: Divergence, label_a: str, label_b: str, paint: Paint = plain) -> str:
    """Return the result of a comparison as text, without a line end.

    Args:
        divergence: The result.
        label_a: The baseline as the user named it.
        label_b: The candidate as the user named it.
        paint: Gives headings and the verdict a look.
    """
    lines = [
        _verdict(divergence, paint),
        *_facts(divergence),
        *_origins(divergence, paint),
        *_environment(divergence, label_a, label_b, paint),
        *_notes(divergence, paint),
        *_next(divergence, label_a, label_b),
    ]
    return "\n".join(lines)


def _verdict(divergence: Divergence, paint: Paint) -> str:
    if divergence.first is not None:
        return paint(f"≠ the runs diverge at {_where(divergence.first)}", "bad")
    compared = divergence.compared
    amount = f"{plural(compared.records, 'record')} in {plural(compared.steps, 'step')}"
    sentences = {
        Verdict.EQUAL: f"= the runs are equal, bit for bit: {amount}",
        Verdict.EQUAL_SO_FAR: f"= equal so far, bit for bit: {amount}; a recording stops before its run's end",
        Verdict.NOT_COMPARABLE: f"? the runs cannot be compared: {printable(next(iter(divergence.notes), ''))}",
    }
    good = divergence.verdict is not Verdict.NOT_COMPARABLE
    return paint(sentences[divergence.verdict], "good" if good else "bad")


def _where(first: Place) -> str:
    only = {Side.BOTH: "", Side.A: "only A has ", Side.B: "only B has "}[first.side]
    kind = f", {first.module_type}" if first.module_type else ""
    return f"{moment(first.address)}: {only}{place(first.address)}{printable(kind)}"


def _facts(divergence: Divergence) -> Iterator[str]:
    first = divergence.first
    if first is not None:
        yield f"  kind      {divergence.kind}"
        yield f"  address   {printable(str(first.address))}"
        if first.site:
            yield f"  called    {printable(first.site)}"
        known = {True: "yes", False: "no", None: "undetermined"}[divergence.is_origin]
        yield f"  origin    {known}: {printable(divergence.origin_reason)}"
        if first.side is Side.BOTH:
            yield f"  elements  {_elements(divergence.tensor)}"
        if divergence.tensor is not None and divergence.tensor.numel > 1:
            hint = divergence.tensor.signature
            yield f"  looks     {hint}: {HINTS.get(hint, '')}".rstrip(": ")
    if divergence.verdict is not Verdict.NOT_COMPARABLE:
        yield f"  compared  {_amount(divergence.compared)}"


def _elements(found: ElementStatistics | None) -> str:
    if found is None:
        return "not known: their shapes or types differ, or a run kept only digests"
    parts = ["its one element differs"]
    if found.numel > 1:
        parts = [f"{found.differing} of {found.numel} elements differ, first {list(found.first_index)}"]
    if found.max_ulp is not None:
        parts.append(f"at most {found.max_ulp} ULP")
    if found.max_abs is not None:
        parts.append(f"|a-b| <= {magnitude(found.max_abs)}")
    if found.max_rel is not None:
        parts.append(f"relative {magnitude(found.max_rel)}")
    return f"{shape_text(found.dtype, found.shape_a)}: {', '.join(parts)}"


def _amount(compared: Compared) -> str:
    parts = [f"{compared.equal} equal", f"{compared.differing} differ"]
    parts += [f"{compared.only_in_a} only in A"] * bool(compared.only_in_a)
    parts += [f"{compared.only_in_b} only in B"] * bool(compared.only_in_b)
    amount = f"{plural(compared.records, 'record')} in {plural(compared.steps, 'step')}"
    return f"{amount}: {', '.join(parts)}"


def _origins(divergence: Divergence, paint: Paint) -> Iterator[str]:
    origins = divergence.origins_in_first_step
    first = None if divergence.first is None else divergence.first.address
    if not [address for address in origins if address != first]:
        return
    yield paint("  origins in that step", "title")
    yield from (f"    {printable(str(address))}" for address in origins[:LISTED])
    if len(origins) > LISTED:
        yield f"    ... {len(origins) - LISTED} more (--format json has all)"


def _environment(divergence: Divergence, label_a: str, label_b: str, paint: Paint) -> Iterator[str]:
    if not divergence.environment:
        return
    from bisect_diverge.report.environment_text import differences_text

    lines = differences_text(divergence.environment, ()).splitlines()
    yield paint("  what differs in the environment", "title")
    yield from (f"    {line}" for line in lines[:ENVIRONMENT_LINES])
    if len(lines) > ENVIRONMENT_LINES:
        more = plural(len(lines) - ENVIRONMENT_LINES, "more line")
        yield f"    ... {more}: {shlex.join(['bd', 'env', label_a, label_b])}"


def _notes(divergence: Divergence, paint: Paint) -> Iterator[str]:
    notes = divergence.notes[divergence.verdict is Verdict.NOT_COMPARABLE :]
    if notes:
        yield paint("  notes", "title")
        yield from (f"    {printable(note)}" for note in notes)


def _next(divergence: Divergence, label_a: str, label_b: str) -> Iterator[str]:
    if divergence.verdict is Verdict.DIVERGED:
        yield f"next: {shlex.join(['bd', 'walk', label_a, label_b])}"
