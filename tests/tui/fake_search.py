"""A search made of given events: nothing runs, everything can be asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from bisect_diverge.model.address import Address
from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import Bisection, BisectVerdict, Cause, Outcome, Role, Trial, Unit, Untested
from bisect_diverge.tui.app import BisectApp
from bisect_diverge.tui.bisection import Ended, Event, Finished, Output, Planned, Result, Started
from bisect_diverge.tui.commands import Commands
from bisect_diverge.tui.screens.bisect import BisectScreen
from tests.tui.screens import settle

FIRST = Address.parse("r0/3/1/forward/model:transformer.h.10.attn.c_proj#0:output.0")
THREADS = Unit(layer=Layer.HARDWARE, knob="OMP_NUM_THREADS", a="8", b="16")
DYNAMIC = Unit(layer=Layer.HARDWARE, knob="MKL_DYNAMIC", a=None, b="FALSE")
WORKERS = Unit(layer=Layer.CONFIGURATION, knob="argv.--workers", a="2", b="4")
CBWR = Unit(layer=Layer.KERNELS, knob="MKL_CBWR", a=None, b="AVX2")
MKL = Untested(
    unit=Unit(layer=Layer.RUNTIME, knob="MKL", a="2024.2", b="2025.0"), reason="it comes with the interpreter"
)
UNITS = (THREADS, DYNAMIC, CBWR, WORKERS)
PLAN = Planned(UNITS, (MKL,), 6, FIRST)


def trial(n: int, *swapped: Unit, outcome: Outcome = Outcome.A, **more: object) -> Trial:
    """Return a judged trial."""
    against_a = None if outcome in (Outcome.A, Outcome.SKIP) else FIRST
    return Trial(n=n, base="a", swapped=swapped, outcome=outcome, seconds=36.0 + n, first_against_a=against_a, **more)  # type: ignore[arg-type]


TRIALS = (
    trial(1),
    trial(2, *UNITS, outcome=Outcome.B),
    trial(3, WORKERS, CBWR, outcome=Outcome.A, inert=(CBWR,)),
    trial(4, THREADS, outcome=Outcome.B),
    trial(5, DYNAMIC, CBWR, WORKERS),
)
MIDDLE: tuple[Event, ...] = (
    PLAN,
    *(Finished(t) for t in TRIALS[:3]),
    Started((THREADS,)),
    Output("step 1 | loss 4.9012"),
    Output("step 2 | loss 4.1172 \x1b[31m"),
)


def result(**changes: object) -> Bisection:
    """Return the answer that these trials prove, with changes."""
    cause = Cause(
        units=(THREADS,), role=Role.CAUSE, sufficient=True, necessary=True, same_divergence=True, proof=(4, 5)
    )
    fields = {
        "verdict": BisectVerdict.CAUSE,
        "causes": (cause,),
        "innocent": (DYNAMIC, WORKERS),
        "inert": (Untested(unit=CBWR, reason="no resolved value moved with it"),),
        "untestable": (MKL,),
        "trials": TRIALS,
        "first": FIRST,
    }
    return Bisection(**(fields | changes))  # type: ignore[arg-type]


def pair() -> Bisection:
    """Return the answer where two act together."""
    both = Cause(
        units=(THREADS, DYNAMIC), role=Role.PARTNERS, sufficient=True, necessary=True, same_divergence=True, proof=(4,)
    )
    trials = (*TRIALS[:3], trial(4, THREADS, DYNAMIC, outcome=Outcome.B), trial(5, THREADS), trial(6, DYNAMIC))
    return result(causes=(both,), innocent=(WORKERS,), trials=trials)


DONE: tuple[Event, ...] = (PLAN, *(Finished(t) for t in TRIALS), Result(result()), Ended(0))
PAIR: tuple[Event, ...] = (PLAN, *(Finished(t) for t in pair().trials), Result(pair()), Ended(0))
FAILED: tuple[Event, ...] = (Ended(2, "bd: nothing lies at runs/t16\n  bd record makes one"),)
NOTHING: tuple[Event, ...] = (Result(Bisection(verdict=BisectVerdict.NO_DIFFERENCE)), Ended(1))
_PART = Bisection(
    verdict=BisectVerdict.INCONCLUSIVE,
    trials=TRIALS[:3],
    untestable=(MKL,),
    first=FIRST,
    notes=("the search stopped early: stopped by the user",),
    finished=False,
)
INTERRUPTED: tuple[Event, ...] = (*MIDDLE, Result(_PART), Ended(3))


class FakeSearch:
    """Tells events when it is started, and notes what it is asked for."""

    def __init__(self, *events: Event) -> None:
        self.events = events
        self.asked: list[str] = []
        self.tell: Callable[[Event], None] = lambda _: None

    def start(self, tell: Callable[[Event], None]) -> None:
        """Tell everything."""
        self.asked.append("start")
        self.tell = tell
        for event in self.events:
            tell(event)

    def stop(self) -> None:
        """Note it."""
        self.asked.append("stop")

    def stop_now(self) -> None:
        """Note it."""
        self.asked.append("stop now")

    def close(self) -> None:
        """Note it."""
        self.asked.append("close")


@asynccontextmanager
async def bisecting(
    search: FakeSearch, size: tuple[int, int] = (120, 40), theme: str = "dark"
) -> AsyncIterator[Pilot[None]]:
    """Yield the running app when it has come to rest."""
    app = BisectApp(Commands("runs/base", "runs/t16"), search, theme)
    app.bisect_screen._clock = lambda: 0.0
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await settle(pilot)
        yield pilot


def bisect_screen(pilot: Pilot[None]) -> BisectScreen:
    """Return the bisect screen."""
    return next(screen for screen in pilot.app.screen_stack if isinstance(screen, BisectScreen))
