"""The verdict: is there a divergence, where first, and do its inputs differ."""

from __future__ import annotations

from rich.cells import cell_len
from textual.app import RenderResult
from textual.content import Content
from textual.widget import Widget

from bisect_diverge.model.divergence import Divergence, ElementStatistics, Place, Side, Verdict
from bisect_diverge.tui import words
from bisect_diverge.tui.comparison import Comparison


class VerdictBar(Widget):
    """Two lines that answer the question.

    Args:
        comparison: The two runs.
    """

    def __init__(self, comparison: Comparison) -> None:
        super().__init__(id="verdict")
        self._comparison = comparison

    def on_resize(self) -> None:
        """Fit the names of the runs."""
        a, b = words.plain(self._comparison.label_a), words.plain(self._comparison.label_b)
        a, b = words.shorten_both(a, b, max(16, self.size.width - 22))
        self.border_title = Content(f" bd walk   A {a}   B {b} ")

    def render(self) -> RenderResult:
        """Return the two lines, fitted to the width."""
        first, second = lines(self._comparison.divergence, self.size.width - 1)
        name = _STATE[self._comparison.divergence.verdict]
        return Content.assemble((" " + first, f"bold $state-{name}"), "\n", " " + second)


_STATE = {
    Verdict.DIVERGED: "differs",
    Verdict.EQUAL: "equal",
    Verdict.EQUAL_SO_FAR: "equal",
    Verdict.NOT_COMPARABLE: "no-partner",
}


_NO_INPUTS = ("it is fed in from outside", "it is a setting", "no earlier state", "its state before", "only ")
"""How reasons begin of origins that are not told by their inputs."""


def lines(divergence: Divergence, width: int) -> tuple[str, str]:
    """Return the verdict in two lines of at most `width` cells."""
    place = divergence.first
    if place is not None:
        head = _where(place, width)
        return head, _fitting(_facts(divergence, place), width)
    done = divergence.compared
    records = words.plural(done.records, "record")
    compared = f"{records} in {words.plural(done.steps, 'step')}"
    first, second = {
        Verdict.EQUAL: (f"= EQUAL  {compared}, bit for bit the same", ""),
        Verdict.EQUAL_SO_FAR: (f"= EQUAL SO FAR  {compared}, bit for bit", "a run is unfinished or limited"),
        Verdict.NOT_COMPARABLE: ("? NOT COMPARABLE  the runs share no record", ""),
        Verdict.DIVERGED: ("≠ DIVERGED", ""),
    }[divergence.verdict]
    note = words.plain(divergence.notes[0]) if divergence.notes else ""
    return words.fit(first, width).rstrip(), words.fit(f"  {second or note}", width).rstrip()


def _fitting(facts: list[str], width: int) -> str:
    """Return as many facts, from the first on, as have room."""
    out = f"  {facts[0]}"
    for fact in facts[1:]:
        if cell_len(out + words.SEPARATOR + fact) > width:
            break
        out += words.SEPARATOR + fact
    return words.fit(out, width).rstrip()


def _where(place: Place, width: int) -> str:
    """Return the address in words; where it does not fit, in short ones, the name cut at its start."""
    address = place.address
    slot, name = words.slot_of(address), words.name_of(address)
    if width >= 98:
        head, micro, phase = "≠ FIRST DIVERGENCE  ", "micro-batch", str(address.phase)
    else:
        head, micro, phase = "≠ ", "mb", words.SHORT_PHASE[address.phase]
    middle = [] if address.micro_batch == "-" else [f"{micro} {address.micro_batch}"]
    start = head + words.SEPARATOR.join([f"step {address.step}", *middle, phase])
    room = width - len(start) - len(slot) - 2 * len(words.SEPARATOR)
    return words.SEPARATOR.join([start, words.shorten_left(name, max(8, room)), slot])


def _facts(divergence: Divergence, place: Place) -> list[str]:
    """Return what is known of the first divergence, the most telling first."""
    origin = {
        True: _begins(divergence.origin_reason),
        False: "its inputs differ too",
        None: "whether it starts here is undetermined",
    }[divergence.is_origin]
    kind = [] if divergence.kind is None else [str(divergence.kind)]
    if place.side is not Side.BOTH:
        return [f"only in {place.side.upper()}", *kind]
    if divergence.tensor is None:
        return [origin, *kind, "no element statistics (only digests kept, or shapes differ)"]
    return [origin, *elements(divergence.tensor), *kind]


def _begins(reason: str) -> str:
    """Return why a record is an origin, in few words: where it has no inputs, what `bd diff` says of it."""
    return reason.partition(":")[0].partition(",")[0] if reason.startswith(_NO_INPUTS) else "its inputs are equal"


def elements(found: ElementStatistics) -> list[str]:
    """Return element statistics in words."""
    out = [f"{words.count(found.differing)} of {words.plural(found.numel, 'element')}"]
    if found.max_ulp is not None:
        out.append(f"≤ {words.count(found.max_ulp)} ULP")
    if found.max_abs is not None:
        out.append(f"|Δ| ≤ {found.max_abs:.2g}")
    return out
