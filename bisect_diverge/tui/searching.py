"""What is known of a search so far, and how it is said: one word or sentence for each thing on the screen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from bisect_diverge.model.address import Address
from bisect_diverge.model.trial import Bisection, BisectVerdict, Outcome, Role, Trial, Unit, Untested
from bisect_diverge.report.bisection_text import bisection_text
from bisect_diverge.report.fold import fold
from bisect_diverge.tui import words
from bisect_diverge.tui.bisection import Ended, Event, Finished, Note, Output, Planned, Result, Started, Unrecorded

_KEPT = 200
"""Lines of output that are kept."""
_ROLES = {
    Role.CAUSE: ("✗", "cause"),
    Role.REDUNDANT: ("✗", "cause, not the only one"),
    Role.PARTNERS: ("✗", "cause, with partners"),
    Role.STARTS: ("✗", "starts it"),
    Role.MASKED: ("?", "covered by another"),
}
OUTCOMES = {
    Outcome.A: ("=", "A's bits"),
    Outcome.B: ("≠", "B's bits"),
    Outcome.OTHER: ("≠", "other bits"),
    Outcome.SKIP: ("!", "did not run"),
    Outcome.FLAKY: ("?", "not repeatable"),
}
"""Glyph and words of each outcome."""
LEGEND = (
    ("✓", "proved, or innocent: tested, without a part in this divergence"),
    ("✗", "cause: it makes B's bits out of A's"),
    ("=", "the trial has A's bits"),
    ("≠", "the trial has B's bits, or neither's"),
    ("?", "not tested, not known yet, or covered by another"),
    ("!", "did not run; or inert or untestable, the reason stands beside it"),
    ("▸", "running"),
)
"""Glyph and meaning, for the help."""


@dataclass
class Searching:
    """The state of a search; changed by its events only."""

    asked: tuple[str, ...] = ()
    """Options of ``bd bisect`` that it runs with, each in one word."""
    units: tuple[Unit, ...] = ()
    untestable: tuple[Untested, ...] = ()
    most: int = 0
    first: Address | None = None
    trials: list[Trial] = field(default_factory=list)
    running: list[tuple[Unit, ...]] = field(default_factory=list)
    """What each running trial moves, the latest last."""
    unrecorded: str = ""
    """Which run is made without being recorded, ``A`` or ``B``; empty: none."""
    output: list[str] = field(default_factory=list)
    """The end of what the latest running trial has printed."""
    remarks: list[str] = field(default_factory=list)
    """What the search has said beside its trials."""
    result: Bisection | None = None
    status: int | None = None
    """Exit status; None: it runs still."""
    message: str = ""
    """What it said beside its progress, when it has ended."""

    def take(self, event: Event) -> None:
        """Change with an event."""
        if not isinstance(event, Output | Note):  # whatever comes next, that run is over
            self.unrecorded = event.of if isinstance(event, Unrecorded) else ""
        match event:
            case Planned():
                self.units, self.untestable = event.units, event.untestable
                self.most, self.first = event.most, event.first
            case Started():
                self.running, self.output = [*self.running, event.swapped], []
            case Finished():
                self.trials.append(event.trial)
                swapped = set(event.trial.swapped)
                self.running = [moved for moved in self.running if set(moved) != swapped]
            case Note():
                self.remarks.append(words.plain(event.text))
            case Output():
                self.output = [*self.output, words.plain(event.line)][-_KEPT:]
            case Result():
                self.result, self.running = event.bisection, []
                self.first = self.first or event.bisection.first
            case Ended():
                self.status, self.message, self.running = event.status, event.message, []

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.status is not None

    def bisection(self) -> Bisection:
        """Return the answer, or what is known instead of one."""
        return self.result or Bisection(
            verdict=BisectVerdict.INCONCLUSIVE,
            trials=tuple(self.trials),
            untestable=self.untestable,
            first=self.first,
            finished=False,
        )

    def rows(self) -> list[tuple[Unit, str, str]]:
        """Return each unit with a glyph and what is known of it."""
        known = {unit: self._so_far(unit) for unit in self.units}
        known |= {row.unit: ("!", f"untestable: {words.plain(row.reason)}") for row in self.untestable}
        if self.result is not None:
            known |= dict.fromkeys(self.result.innocent, ("✓", "innocent"))
            known |= {row.unit: ("!", f"inert: {words.plain(row.reason)}") for row in self.result.inert}
            known |= {row.unit: ("!", f"untestable: {words.plain(row.reason)}") for row in self.result.untestable}
            known |= {unit: ("✗", "cause, in part") for cause in self.result.causes for unit in cause.part_of}
            known |= {unit: _ROLES[cause.role] for cause in self.result.causes for unit in cause.units}
        return [(unit, glyph, text) for unit, (glyph, text) in known.items()]

    def _so_far(self, unit: Unit) -> tuple[str, str]:
        """Return what the trials say of a unit before there is an answer."""
        if any(unit in moved for moved in self.running):
            return "▸", "running"
        here = [trial for trial in self.trials if unit in trial.swapped]
        alone = [trial for trial in here if len(trial.swapped) == 1]
        if any(trial.outcome is Outcome.B for trial in alone):
            return "≠", "alone makes B"
        if any(unit in trial.inert for trial in here):
            return "!", "inert: no resolved value moved with it"
        if any(trial.outcome is Outcome.A for trial in here):
            return "=", "no effect so far"
        return "?", "not tested" if len(here) < 2 else "suspected"

    def controls(self) -> list[tuple[str, str]]:
        """Return glyph and sentence of what the controls have shown."""
        return [self._control("A", (), Outcome.A), self._control("B", self.units, Outcome.B)]

    def _control(self, name: str, moved: tuple[Unit, ...], wanted: Outcome) -> tuple[str, str]:
        if not moved and name == "B":
            return "?", "B cannot be run here" if self.over else "B not run yet"
        found = [trial for trial in self.trials if set(trial.swapped) == set(moved)]
        if not found:
            running = any(set(units) == set(moved) for units in self.running)
            return ("▸", f"{name} runs again") if running else ("?", f"{name} not run again yet")
        if all(trial.outcome is wanted for trial in found):
            return "✓", f"{name} repeats itself"
        outcomes = {trial.outcome for trial in found}
        return ("!", f"{name} did not run") if outcomes == {Outcome.SKIP} else ("✗", f"{name} does not repeat itself")

    def verdict(self, label_a: str, label_b: str) -> list[str]:
        """Return the verdict so far in lines, the most important first."""
        if self.result is not None:
            text = bisection_text(self.result, label_a, label_b, asked=self.asked)
            return [line for line in text.split("\n") if line.strip()]
        if self.over:
            return [words.plain(line) for line in self.message.split("\n")] if self.message else [self._ended()]
        check = [f"running {self.unrecorded} unrecorded: does recording change it?"] if self.unrecorded else []
        return [*check, *(list(self._sentences()) or ["nothing proved yet"]), *self.remarks]

    def _ended(self) -> str:
        return f"the search ended with status {self.status} and no result"

    def _sentences(self) -> Iterator[str]:
        """Yield what single trials prove, the latest first."""
        for trial in reversed(self.trials):
            names = " + ".join(words.plain(unit.knob) for unit in trial.swapped)
            if len(trial.swapped) == 1:
                yield f"A with only {names} changed has {OUTCOMES[trial.outcome][1]} (trial {trial.n})"
            left = [unit for unit in self.units if unit not in trial.swapped]
            if len(left) == 1 and trial.swapped and set(trial.swapped) <= set(self.units):
                knob = words.plain(left[0].knob)
                yield f"B with only {knob} put back has {OUTCOMES[trial.outcome][1]} (trial {trial.n})"

    def report(self, label_a: str, label_b: str) -> str:
        """Return the whole report as text."""
        return fold(bisection_text(self.bisection(), label_a, label_b, asked=self.asked)) + "\n"


def swap_of(swapped: tuple[Unit, ...], whole: tuple[Unit, ...]) -> str:
    """Return in words what a trial moves; `whole` is everything that can be moved."""
    if not swapped:
        return "none: A again"
    if set(swapped) == set(whole) and len(whole) > 1:
        return "all: B again"
    missing = [unit.knob for unit in whole if unit not in swapped]
    if len(missing) < len(swapped) and set(swapped) <= set(whole):  # not so where one was taken apart
        return words.plain("B - " + ", ".join(missing)) if missing else words.plain(f"A + {swapped[0].knob}")
    return words.plain("A + " + ", ".join(unit.knob for unit in swapped))
