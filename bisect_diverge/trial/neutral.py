"""Whether recording a command changes it: an unrecorded run against a recorded one.

Where the two differ the unrecorded run is made again, so that what never repeats itself is told apart from what
recording changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bisect_diverge.errors import NotComparableError, RunError, UsageError
from bisect_diverge.model.neutrality import NUMBER_OF_LINES, Change, Finding, Item, Neutrality, Repetition
from bisect_diverge.store.reader import Run
from bisect_diverge.trial.observe import RUN, Observed, observe
from bisect_diverge.trial.witnessed import witnessed

if TYPE_CHECKING:
    from pathlib import Path

    from bisect_diverge.model.run import Capture
    from bisect_diverge.model.witness import Witness
    from bisect_diverge.trial.workspace import Workspace

Parts = Mapping[str, str]
"""Part of a thing to what it is."""

_TIMES = re.compile(
    r"\d[\d.,:]*\s?(?:[mnuµ]?s|secs?|seconds?|min|minutes?|h|hours?|it/s|s/it)\b|\d+:\d\d(?::\d\d)?(?:[.,]\d+)?"
)
_DIGITS = re.compile(r"[-+]?\d[\d.,:e+-]*")


def neutrality(
    command: Sequence[str],
    capture: Capture,
    workspace: Workspace,
    *,
    keep_bytes: int,
    announce: Callable[[str], None] = lambda _: None,
) -> Neutrality:
    """Run a command with and without the recorder, and compare all that can be seen of it.

    Args:
        command: Program and arguments.
        capture: How it is recorded.
        workspace: Where it runs.
        keep_bytes: Budget for tensor bytes of a rank.
        announce: Called with what is about to run.

    Raises:
        UsageError: if the command calls no torch module.
    """
    announce("unrecorded")
    with workspace.folder() as folder:
        plain = observe(command, folder, None)
    announce(f"recorded, {capture}")
    with workspace.folder() as folder:
        recorded = observe(command, folder, capture, keep_bytes)
        names = _names(folder / RUN)
    items = compare(plain, recorded, None, names)
    runs = [plain, recorded]
    if any(item.finding is Finding.CHANGED for item in items):
        announce("unrecorded again")
        with workspace.folder() as folder:
            again = observe(command, folder, None)
        runs.append(again)
        items = compare(plain, recorded, again, names)
    return Neutrality(items=items, runs=tuple(Repetition(capture=run.capture, seconds=run.seconds) for run in runs))


def _names(run: Path) -> dict[int, dict[str, str]]:
    """Return for each rank the place of a parameter (`model.witness`) to its name.

    Raises:
        UsageError: if nothing was recorded.
    """
    found: dict[int, dict[str, str]] = {}
    if not list(run.glob("rank-*.h5")):
        raise UsageError(
            "nothing was recorded: no process called a torch module",
            hint="give the command that trains, after --: bd neutral -- python train.py",
        )
    try:
        with Run(run) as opened:
            for rank, file in opened.ranks.items():
                found[rank] = witnessed(file, file.steps).names
    except (RunError, NotComparableError):  # places will do for names
        pass
    return found


def compare(
    plain: Observed, recorded: Observed, again: Observed | None, names: Mapping[int, Mapping[str, str]]
) -> tuple[Item, ...]:
    """Return everything that was compared.

    Args:
        plain: An unrecorded run.
        recorded: The recorded one.
        again: The unrecorded one, repeated; None: whatever differs counts as changed.
        names: Rank to names of parameters.
    """
    runs = (plain, recorded, again)
    items = [_of_parts(kind, *(None if run is None else kind.parts(run) for run in runs)) for kind in _PROCESS]
    items += [_of_texts(kind, *runs) for kind in _TEXTS]
    for kind in _ENDS:
        parts = [None if run is None else _ranks(run, kind.of_witness) for run in runs]
        seen = kind if plain.witnesses else replace(kind, absent=_LEFT)
        items.append(_renamed(_of_parts(seen, *parts), names))
    items += [_of_parts(kind, *(None if run is None else kind.parts(run) for run in runs)) for kind in _FILES]
    return tuple(items)


# -- what is compared ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """A row of the tables below."""

    name: str
    parts: Callable[[Observed], Parts] = lambda _: {}
    lines: Callable[[Observed], Sequence[str]] = lambda _: ()
    of_witness: Callable[[Witness], Parts] = lambda _: {}
    absent: str = ""
    """Why there is nothing to compare where there are no parts."""
    bits: bool = True


_UNTOUCHED = "nobody drew from it"
_NO_UPDATE = "no optimizer made an update"

_PROCESS = (_Kind(name="exit status", parts=lambda run: {"": str(run.status)}),)
_TEXTS = (
    _Kind(name="standard output", lines=lambda run: run.output, absent="it printed nothing", bits=False),
    _Kind(name="standard error", lines=lambda run: run.errors, absent="it printed nothing", bits=False),
)
_ENDS = (
    _Kind(name="updates", of_witness=lambda w: {"": str(w.updates)}),
    _Kind(
        name="losses",
        of_witness=lambda w: {f"backward {n}": digest for n, digest in enumerate(w.losses or ())},
        absent="backward() was not called",
    ),
    _Kind(name="parameters", of_witness=lambda w: w.parameters, absent=_NO_UPDATE),
    _Kind(name="optimizer state", of_witness=lambda w: w.state, absent="no optimizer that made an update has any"),
    _Kind(name="buffers", of_witness=lambda w: w.buffers, absent="no model that was updated has any"),
    _Kind(
        name="generators",
        of_witness=lambda w: {slot: _UNTOUCHED if slot in w.untouched else d for slot, d in w.generators.items()},
    ),
    _Kind(
        name="graph breaks",
        of_witness=lambda w: {} if w.graph_breaks is None else {"": str(sum(w.graph_breaks.values()))},
        absent="torch.compile was not used",
    ),
    _Kind(name="process state", of_witness=lambda w: w.process, bits=False),
)
_FILES = (_Kind(name="files written", parts=lambda run: run.files, absent="it wrote none with Python", bits=False),)

_LEFT = "the process ended in a way that lets nobody look at its end: os._exit, a signal"


def _ranks(run: Observed, parts: Callable[[Witness], Parts]) -> dict[str, str]:
    """Return the parts of all ranks; those of rank 1 and later begin with ``r1/``."""
    return {
        f"r{rank}/{part}" if rank else part: value
        for rank, witness in run.witnesses.items()
        for part, value in parts(witness).items()
    }


def _of_parts(kind: _Kind, plain: Parts | None, recorded: Parts | None, again: Parts | None) -> Item:
    plain, recorded = plain or {}, recorded or {}
    repeat = plain if again is None else again
    parts = dict.fromkeys((*plain, *recorded, *repeat))
    if not parts:
        return Item(name=kind.name, finding=Finding.NOT_COMPARED, reason=kind.absent, bits=kind.bits)
    moving = tuple(part for part in parts if plain.get(part) != repeat.get(part))
    changed = tuple(
        Change(part=part, unrecorded=plain.get(part), recorded=recorded.get(part))
        for part in parts
        if part not in moving and plain.get(part) != recorded.get(part)
    )
    return _item(kind, len(parts) - len(moving) - len(changed), changed, moving)


def _item(kind: _Kind, equal: int, changed: tuple[Change, ...], moving: tuple[str, ...]) -> Item:
    finding = Finding.CHANGED if changed else Finding.UNREPEATABLE if moving else Finding.EQUAL
    return Item(name=kind.name, finding=finding, equal=equal, changed=changed, unrepeatable=moving, bits=kind.bits)


def _renamed(item: Item, names: Mapping[int, Mapping[str, str]]) -> Item:
    """Return an item with names for places."""

    def name(part: str) -> str:
        match = re.fullmatch(r"(?:r(\d+)/)?(opt\d+:\d+)(.*)", part)
        if match is None:
            return part
        known = names.get(int(match[1] or 0), {}).get(match[2], match[2])
        return f"{part[: match.start(2)]}{known}{match[3]}"

    changed = tuple(replace(change, part=name(change.part)) for change in item.changed)
    return replace(item, changed=changed, unrepeatable=tuple(map(name, item.unrepeatable)))


# -- texts -----------------------------------------------------------------------------------------------------


def _of_texts(kind: _Kind, plain: Observed, recorded: Observed, again: Observed | None) -> Item:
    """Compare lines; durations and times of day are left out."""
    one, two = ([_TIMES.sub("TIME", line) for line in kind.lines(run)] for run in (plain, recorded))
    repeat = one if again is None else [_TIMES.sub("TIME", line) for line in kind.lines(again)]
    if not (one or two or repeat):
        return Item(name=kind.name, finding=Finding.NOT_COMPARED, reason=kind.absent, bits=kind.bits)
    if len(one) != len(repeat):
        return _item(kind, 0, (), (NUMBER_OF_LINES,))
    moving = [n for n, line in enumerate(one) if line != repeat[n]]
    shapes = {_DIGITS.sub("#", one[n]) for n in moving}
    if len(one) != len(two):
        return _item(kind, 0, (_count(one, two, shapes),), ())
    differing = [n for n, line in enumerate(one) if line != two[n] and n not in moving]
    changed = [n for n in differing if _DIGITS.sub("#", one[n]) not in shapes]
    moving = sorted({*moving, *differing} - {*changed})
    return _item(
        kind,
        len(one) - len(moving) - len(changed),
        tuple(Change(part=f"line {n + 1}", unrecorded=one[n], recorded=two[n]) for n in changed),
        tuple(f"line {n + 1}" for n in moving),
    )


def _count(one: Sequence[str], two: Sequence[str], moving: Collection[str]) -> Change:
    """Return the change of the number of lines, with the first line that differs and is not of a moving shape."""
    common = min(len(one), len(two))
    differing = (n for n in range(common) if one[n] != two[n] and _DIGITS.sub("#", one[n]) not in moving)
    first = next(differing, common)

    def side(lines: Sequence[str]) -> str:
        return f"{len(lines)} lines, line {first + 1}: {lines[first] if first < len(lines) else '(none)'}"

    return Change(part=NUMBER_OF_LINES, unrecorded=side(one), recorded=side(two))
