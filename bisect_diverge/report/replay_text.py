"""A step replayed in place, as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.model.replay import Part, ReplayVerdict
from bisect_diverge.report.fold import fold
from bisect_diverge.report.words import Paint, change, plain, plural, printable, step

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.model.address import Address
    from bisect_diverge.model.divergence import ElementStatistics
    from bisect_diverge.model.replay import Moved, Own, Replay

MOST_ROWS = 20
"""So many of one part are listed."""
MOST_RECORDS = 3
"""So many records of one module call are listed."""
MOST_NAMED = 3
"""So many that cannot be replayed for one reason are named."""

TITLES = {
    Part.MODULE: "module calls that compute otherwise on A's inputs",
    Part.OUTSIDE: "code outside of modules that computes otherwise",
    Part.GRADIENT: "gradients that come out otherwise of A's gradients and activations",
    Part.BUFFER: "buffers that come out otherwise",
    Part.UPDATE: "updates that come out otherwise of A's gradients, parameters and state",
}
COUNTED = {
    Part.MODULE: "module call",
    Part.OUTSIDE: "tensor made outside of modules",
    Part.GRADIENT: "gradient",
    Part.BUFFER: "buffer",
    Part.UPDATE: "update",
}


def replay_text(replay: Replay, paint: Paint = plain) -> str:
    """Return the result: the answer first, then whose own computation differs.

    Args:
        replay: What was found.
        paint: Gives words a look.
    """
    return fold("\n".join(_lines(replay, paint)))


def _lines(replay: Replay, paint: Paint) -> Iterator[str]:
    yield _answer(replay, paint)
    for unit in replay.swapped:
        inert = "  (inert: no resolved value moved)" if unit in replay.inert else ""
        yield f"  swapped   {change(unit)}{inert}"
    for part in Part:
        rows = [own for own in replay.differing if own.part is part]
        if rows:
            yield paint(TITLES[part], "title")
            yield from _differing(rows)
    equal = [_count(part, replay.equal(part)) for part in Part if replay.equal(part)]
    yield f"equal     {', '.join(equal) if equal else 'nothing that was replayed'}"
    if replay.cannot:
        yield paint(f"cannot be replayed in place ({len(replay.cannot)})", "title")
        yield from _cannot(replay.cannot)
    if replay.untestable:
        yield paint("differs between A and B, and could not be swapped here", "title")
        yield from (f"  {change(row.unit)}: {row.reason}" for row in replay.untestable)
    yield from _notes(replay, paint)


def _answer(replay: Replay, paint: Paint) -> str:
    at = f"step {replay.step}"
    if replay.verdict is ReplayVerdict.INCONCLUSIVE:
        return paint(f"? no module call of {at} could be replayed in place", "bad")
    calls = [own for own in replay.owns if own.part is Part.MODULE and not own.reason]
    moved = sum(own.part is Part.MODULE for own in replay.differing)
    if not replay.differing:
        return paint(f"= nothing of {at} computes otherwise: {_count(Part.MODULE, len(calls))} replayed", "good")
    others = len(replay.differing) - moved
    more = f", and {plural(others, 'other computation')}" if others else ""
    return paint(f"≠ {moved} of {_count(Part.MODULE, len(calls))} of {at} compute otherwise on A's inputs{more}", "bad")


def _differing(owns: Sequence[Own]) -> Iterator[str]:
    for own in owns[:MOST_ROWS]:
        kind = f", {own.module_type}" if own.module_type else ""
        yield f"  {name(own.part, own.address)}{kind}"
        for moved in own.moved[:MOST_RECORDS]:
            yield f"      {_what(own, moved)}{_elements(moved)}"
        if len(own.moved) > MOST_RECORDS:
            yield f"      and {plural(len(own.moved) - MOST_RECORDS, 'more record')}"
    if len(owns) > MOST_ROWS:
        yield f"  and {len(owns) - MOST_ROWS} more (--format json lists all)"


def name(part: Part, address: Address) -> str:
    """Return what computed something, in words."""
    place = ":".join(word for word in (address.root, address.fqn) if word and word != "-")
    call = f" (call {address.call})" if address.call and part is Part.MODULE else ""
    passage = "" if address.micro_batch in ("-", "0") else f"micro-batch {address.micro_batch}, "
    rank = f"{step(address).partition(',')[0]}, " if address.rank else ""
    own = address.slot if part in (Part.GRADIENT, Part.OUTSIDE) else ""
    made = " (recomputed)" if address.phase == "recompute" else ""
    return printable(f"{rank}{passage}{own + ' of ' if own else ''}{place}{call}{made}")


def _what(own: Own, moved: Moved) -> str:
    """Return which record it is, and which code made it."""
    if own.part in (Part.GRADIENT, Part.OUTSIDE, Part.BUFFER):
        return printable(f"{moved.inside}: ") if moved.inside else ""
    if own.part is Part.UPDATE:
        return f"{moved.address.slot}: "
    if moved.inside:
        return printable(f"its own code {moved.inside}, {moved.address.slot}: ")
    return printable(f"{moved.address.slot}: ")


def _elements(moved: Moved) -> str:
    found = moved.statistics
    return moved.note if found is None else ", ".join(_parts(found))


def _parts(found: ElementStatistics) -> Iterator[str]:
    yield f"{found.differing} of {plural(found.numel, 'element')}"
    if found.max_ulp is not None:
        yield f"at most {found.max_ulp} ULP{' (across zero)' if found.across_zero else ''}"
    yield found.signature


def _cannot(owns: Sequence[Own]) -> Iterator[str]:
    """Yield reasons with what they hold for, each reason once."""
    by_reason: dict[str, list[str]] = {}
    for own in owns:
        by_reason.setdefault(own.reason, []).append(name(own.part, own.address))
    for reason, names in by_reason.items():
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        yield f"  {', '.join(names[:MOST_NAMED])}{more}"
        yield f"      {printable(reason)}"


def _notes(replay: Replay, paint: Paint) -> Iterator[str]:
    yield paint("notes", "title")
    were = "was" if replay.written == 1 else "were"
    yield f"  {plural(replay.written, 'tensor')} had other bits and {were} set to A's"
    yield from (f"  {note}" for note in replay.notes)


def _count(part: Part, number: int) -> str:
    if part is Part.OUTSIDE and number != 1:
        return f"{number} tensors made outside of modules"
    return plural(number, COUNTED[part])
