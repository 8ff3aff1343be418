"""What a unit is made of: a guilty unit is taken apart, and its parts are searched by the routine that found it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from bisect_diverge.model.trial import Unit

if TYPE_CHECKING:
    from bisect_diverge.model.run import RunRecord

Take = Callable[["RunRecord", "RunRecord", Unit], Sequence[Unit]]
"""Takes a unit apart: A's record, B's record, the unit. What it returns

* is moved in the order in which it is returned, within the place of the unit;
* makes, all of it at B's values, the same configuration as the unit itself: that trial is not run again;
* is named by units that can be swapped like any others, one at a time and in any mix with other units;
* is empty, or one unit, where there is nothing to tell apart;
* may be steps of one way (commits, releases): units of the same layer and knob, of which the last swapped one counts.

Parts may have parts."""


@dataclass(frozen=True, slots=True)
class Supposed:
    """A way to take units apart into parts of which a trial has to show first that they are the unit."""

    take: Take
    """Takes a unit apart. One part is enough: that it is the unit is not known."""
    fits: Callable[[Unit], bool]
    """Whether a unit looks like one that it takes apart."""
    doubt: str
    """What has part in the divergence where all parts together are not the unit; the end of a sentence."""

    def __call__(self, a: RunRecord, b: RunRecord, unit: Unit) -> Sequence[Unit]:
        """Return the parts."""
        return self.take(a, b, unit)


PARTS: dict[str, Take] = {}
"""``layer:knob`` with ``*`` and ``?`` to what takes such a unit apart; the first fitting row counts. What swaps a unit
with parts (a configuration file: its keys; a range of commits: commits) has a row here."""


def parts_of(a: RunRecord, b: RunRecord, unit: Unit) -> tuple[Unit, ...]:
    """Return the parts of a unit; empty where it cannot be taken apart.

    Raises:
        ReplayError: if something that is needed to take it apart is gone.
    """
    take = _row(unit)
    parts = () if take is None else tuple(dict.fromkeys(take(a, b, unit)))
    return parts if len(parts) > 1 or isinstance(take, Supposed) else ()


def doubt_of(unit: Unit) -> str:
    """Return what has part in the divergence if all parts of a unit are not the unit; empty: they are the unit."""
    take = _row(unit)
    return take.doubt if isinstance(take, Supposed) else ""


def may_have_parts(unit: Unit) -> bool:
    """Whether something takes such a unit apart; there may be nothing to tell apart in it."""
    return _row(unit) is not None


def _row(unit: Unit) -> Take | None:
    return next((take for what, take in PARTS.items() if _fits(what, take, unit)), None)


def _fits(what: str, take: Take, unit: Unit) -> bool:
    named = fnmatchcase(f"{unit.layer}:{unit.knob}", what)
    return named and (not isinstance(take, Supposed) or take.fits(unit))
