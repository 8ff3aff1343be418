"""What a run is sensitive to, as text for people."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from bisect_diverge.environment.differences import principal
from bisect_diverge.report.fold import fold
from bisect_diverge.report.words import Paint, moment, place, plain, plural, printable, whole
from bisect_diverge.trial.memory import MEANING, is_about_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.model.environment import Difference
    from bisect_diverge.model.trial import Trial, Unit, Untested
    from bisect_diverge.study.vary import Variation

MOST_MOVED = 3
"""So many resolved values that moved with a knob are named."""


def variation_text(variation: Variation, label: str, paint: Paint = plain) -> str:
    """Return the result: the answer first, then each knob with what came of it.

    Args:
        variation: What came of it.
        label: How a trial of this run is repeated: its path; empty where it is gone.
        paint: Gives words a look.
    """
    return fold("\n".join(_lines(variation, label, paint)))


def _lines(variation: Variation, label: str, paint: Paint) -> Iterator[str]:
    if not variation.repeats:
        yield paint("nothing was tried", "bad")
        return
    if not variation.repeats_itself:
        yield from _not_repeatable(variation, paint)
        return
    yield _answer(variation, paint)
    for trial in variation.sensitive:
        yield f"  {_change(trial)}"
        yield f"    first at {_at(trial)}"
        yield from _moved(trial.consequences)
        own = f"{trial.swapped[0]} "
        yield from (printable(f"    {note}") for note in trial.overridden if note.startswith(own))
    yield from _block("without effect (tested: the same bits)", [_change(t) for t in variation.without_effect], paint)
    inert = [_change(t) for t in variation.inert]
    yield from _block("inert (swapped, but the resolved value did not move: not tested)", inert, paint)
    failed = [f"{_change(t)}: {printable(t.reason)}" for t in variation.failed]
    yield from _block("could not be tried", failed, paint)
    yield from _block("do not apply here", _reasons(variation.inapplicable), paint)
    yield from _block("not tried: stopped before", [_unit(unit) for unit in variation.left], paint)
    yield from _block("notes", list(_notes(variation)), paint)
    yield from _block("to repeat a trial", _repeat(variation, label), paint)


def _answer(variation: Variation, paint: Paint) -> str:
    sensitive = {_name(trial) for trial in variation.sensitive}
    tested = sensitive | {_name(trial) for trial in variation.without_effect}
    if not tested:
        return paint("no knob was tested", "bad")
    if not sensitive:
        return paint(f"sensitive to none of {plural(len(tested), 'knob')} tested", "good")
    return paint(f"sensitive to {plural(len(sensitive), 'knob')} of {len(tested)} tested", "bad")


def _not_repeatable(variation: Variation, paint: Paint) -> Iterator[str]:
    yield paint("the run does not repeat itself: what a knob does cannot be told", "bad")
    for trial in variation.repeats:
        if trial.reason:
            yield f"  trial {trial.n}: {printable(trial.reason)}"
        elif trial.first_against_a is not None:
            yield f"  trial {trial.n} first differs at {_at(trial)}"
    yield "next: fix the seeds, or try PYTHONHASHSEED=0, one thread (OMP_NUM_THREADS=1) or deterministic algorithms"


def _moved(rows: Sequence[Difference]) -> Iterator[str]:
    """Yield what moved with a knob: values that both runs have, of those that move along with others the first."""
    known = principal([row for row in rows if row.a is not None and row.b is not None])
    if known:
        names = ", ".join(map(_unit, known[:MOST_MOVED]))
        more = f" and {len(known) - MOST_MOVED} more" if len(known) > MOST_MOVED else ""
        yield f"    which moved {names}{more}"


def _at(trial: Trial) -> str:
    first = trial.first_against_a
    return "a record that only one of the two has" if first is None else f"{moment(first)}, {place(first)}"


def _block(title: str, rows: Sequence[str], paint: Paint) -> Iterator[str]:
    if rows:
        yield paint(title, "title")
        yield from (f"  {row}" for row in rows)


def _reasons(rows: Sequence[Untested]) -> list[str]:
    """Return a line for each reason, with the knobs that have it."""
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        by_reason.setdefault(row.reason, []).append(printable(str(row.unit)))
    return [f"{reason}: {', '.join(names)}" for reason, names in by_reason.items()]


def _notes(variation: Variation) -> Iterator[str]:
    yield f"the run repeated {plural(len(variation.repeats), 'time')}: identical"
    yield "each knob was swapped alone: two that act only together are not found"
    last = variation.repeats[0].stopped_at_step
    if last is not None:
        yield f"compared up to step {last}"
    if any(is_about_memory(trial.swapped[0]) for trial in variation.sensitive):
        yield MEANING


def _repeat(variation: Variation, label: str) -> list[str]:
    """Return the command that repeats the first trial with other bits; none where the run is gone."""
    if not label or not variation.sensitive:
        return []
    unit = variation.sensitive[0].swapped[0]
    return [printable(shlex.join(["bd", "trial", label, "--set", f"{unit}={unit.b or ''}"]))]


def _name(trial: Trial) -> str:
    return str(trial.swapped[0])


def _change(trial: Trial) -> str:
    return _unit(trial.swapped[0])


def _unit(unit: Unit | Difference) -> str:
    return printable(f"{unit.layer} {unit.knob}: {whole(unit.a)} -> {whole(unit.b)}")


def variation_plan_text(
    units: Sequence[Unit], out: Sequence[Untested], trials: int, seconds: float, paint: Paint = plain
) -> str:
    """Return what would be tried and what it would cost.

    Args:
        units: What would be swapped.
        out: What means nothing here.
        trials: Trials, repeats of the run included.
        seconds: What they would take.
        paint: Gives words a look.
    """
    time = f"about {seconds / 60:.0f} min" if seconds >= 90 else f"about {seconds:.0f} s"
    lines = [paint(f"{plural(len(units), 'value')} to try, one a trial: {plural(trials, 'trial')}, {time}", "title")]
    lines += [f"  {_unit(unit)}" for unit in units]
    lines += _block("do not apply here", _reasons(out), paint)
    return fold("\n".join(lines))
