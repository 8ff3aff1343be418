"""Reports of bisections, against golden files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bisect_diverge.bisector.noise import ONLY_JUDGED
from bisect_diverge.bisector.search import bisect
from bisect_diverge.bisector.supposed import Effect, World
from bisect_diverge.model.address import Address, Phase
from bisect_diverge.model.divergence import Side
from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import (
    Bisection,
    BisectVerdict,
    Budget,
    Cause,
    Observer,
    Outcome,
    Role,
    SearchOptions,
    Trial,
    Unit,
    Untested,
)
from bisect_diverge.report.bisection_commands import fix_command, trial_command
from bisect_diverge.report.bisection_json import bisection_json
from bisect_diverge.report.bisection_table import trial_line
from bisect_diverge.report.bisection_text import bisection_text
from bisect_diverge.report.fold import fold
from tests.report.test_divergence import DIVERGED

CREATES = "recording creates the effect: unrecorded, A and B have the same bits in the parameters after step 1"
GOLDENS = Path(__file__).parent.parent / "golden" / "bisection"

NUMPY = Unit(layer=Layer.DEPENDENCIES, knob="numpy", a="2.3.5", b="2.4.6")
THREADS = Unit(layer=Layer.HARDWARE, knob="OMP_NUM_THREADS", a=None, b="3")
DYNAMIC = Unit(layer=Layer.HARDWARE, knob="MKL_DYNAMIC", a=None, b="FALSE")
CBWR = Unit(layer=Layer.KERNELS, knob="MKL_CBWR", a=None, b="AUTO")
WORKERS = Unit(layer=Layer.CONFIGURATION, knob="argv.--workers", a="0", b="2")
RATE = Unit(layer=Layer.CONFIGURATION, knob="argv.--lr", a="0.1", b="0.2")
SEED = Unit(layer=Layer.SEEDS, knob="PYTHONHASHSEED", a="0", b=None)
CODE = Unit(layer=Layer.SOURCE, knob="commit", a="1f3c9e", b="77aa01")
GPU = Unit(layer=Layer.HARDWARE, knob="accelerator.models", a="A100", b="H100")
FILE = WORKERS
KEYS = tuple(replace(FILE, knob=f"{FILE.knob}.{key}") for key in ("lr", "size", "seed"))
UNITS = (NUMPY, THREADS, DYNAMIC, CBWR, WORKERS, RATE, SEED, CODE)

FIRST = Address(rank=0, step=0, micro_batch="0", phase=Phase.FORWARD, root="model", fqn="", call=0, slot="output.0")


def world(*effects: Effect, dead: frozenset[Unit] = frozenset({CBWR})) -> World:
    """Return a world of these effects over all units."""
    return World(units=UNITS, effects=effects, dead=dead)


def any_of(*sets: tuple[Unit, ...], cancels: bool = False) -> Effect:
    """Return an effect of any of these sets."""
    return Effect(tuple(frozenset(units) for units in sets), cancels)


def noisy(swapped: frozenset[Unit], *, repeat: int = 0) -> Trial:
    """Return a trial that never repeats itself."""
    return Trial(
        n=0,
        base="a",
        swapped=tuple(swapped),
        outcome=Outcome.OTHER,
        signature=str(repeat),
        first_against_a=FIRST,
        seconds=2.0,
    )


def clamped(result: Bisection) -> Bisection:
    """Return a result of which every trial ran with a clamp."""
    trials = tuple(replace(trial, clamps=("one thread",)) for trial in result.trials)
    return replace(result, trials=trials, notes=("clamped in every trial: one thread", *result.notes))


GPU_ROW = Untested(unit=GPU, reason="this machine has no H100")

CASES: dict[str, Callable[[], Bisection]] = {
    "one_cause": lambda: bisect(UNITS, world(any_of((NUMPY,))), first=FIRST, untestable=[GPU_ROW]),
    "partners": lambda: bisect(UNITS, world(any_of((THREADS, DYNAMIC))), first=FIRST),
    "redundant": lambda: bisect(UNITS, world(any_of((THREADS,), (WORKERS,))), first=FIRST),
    "two_causes": lambda: bisect(UNITS, world(any_of((RATE,)), any_of((SEED,))), first=FIRST),
    "cancelling": lambda: bisect(UNITS, world(any_of((RATE,)), any_of((NUMPY,), (SEED,), cancels=True)), first=FIRST),
    "group": lambda: bisect(
        UNITS,
        World(units=UNITS, effects=(any_of((CODE,)),), needs=((CODE, NUMPY), (NUMPY, CODE))),
        first=FIRST,
    ),
    "by_elimination": lambda: bisect(UNITS[:3], World(units=UNITS[:3], effects=()), untestable=[GPU_ROW], first=FIRST),
    "starts": lambda: bisect(
        UNITS[:3],
        World(units=(*UNITS[:3], GPU), effects=(any_of((NUMPY,)), any_of((GPU,)))),
        untestable=[GPU_ROW],
        first=FIRST,
    ),
    "partners_start": lambda: bisect(
        UNITS[:3],
        World(units=(*UNITS[:3], GPU), effects=(any_of((THREADS, DYNAMIC)), any_of((GPU,)))),
        untestable=[GPU_ROW],
        first=FIRST,
    ),
    "one_unit": lambda: bisect(UNITS[:1], World(units=UNITS[:1], effects=(any_of((NUMPY,)),)), first=FIRST),
    "left_out": lambda: bisect(
        UNITS[:3],
        World(units=UNITS[:3], effects=()),
        untestable=[Untested(unit=GPU, reason="left out by --skip")],
        first=FIRST,
    ),
    "not_repeatable": lambda: bisect(UNITS, noisy, first=FIRST),
    "no_difference": lambda: bisect([], noisy),
    "parts": lambda: bisect(
        UNITS,
        world(any_of((FILE,), (KEYS[1],))),
        first=FIRST,
        drill=lambda unit: KEYS if unit == FILE else (),
    ),
    "clamped": lambda: clamped(bisect(UNITS[:3], world(any_of((NUMPY,))), first=FIRST)),
    "recording_creates": lambda: replace(
        bisect(UNITS[:1], noisy, first=FIRST),
        verdict=BisectVerdict.INCONCLUSIVE,
        observer=Observer.CREATES,
        notes=(CREATES,),
        reason=CREATES,
    ),
    "out_of_budget": lambda: bisect(
        UNITS, world(any_of((THREADS, DYNAMIC))), SearchOptions(budget=Budget(trials=6)), first=FIRST
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_text(name: str, request: pytest.FixtureRequest) -> None:
    """The report says the verdict first, then the proof, then the rest."""
    text = bisection_text(CASES[name](), "runs/a", "runs/b") + "\n"
    golden = GOLDENS / f"{name}.txt"
    if request.config.getoption("--update-goldens"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(text, encoding="utf-8")

    assert golden.read_text(encoding="utf-8") == text


def test_json() -> None:
    """The JSON has the keys of the contract."""
    document = json.loads(bisection_json(CASES["one_cause"]()))

    assert document["schema"] == 1
    assert document["verdict"] == "cause"
    assert document["causes"][0]["units"] == [{"layer": "dependencies", "knob": "numpy", "a": "2.3.5", "b": "2.4.6"}]
    assert {"role", "sufficient", "necessary", "same_divergence", "consequences"} <= set(document["causes"][0])
    assert {"n", "swapped", "outcome", "seconds", "stopped_at_step"} <= set(document["trials"][0])
    assert document["first"] == {"address": str(FIRST)}
    assert {"innocent", "inert", "untestable"} <= set(document)


def test_the_kind_of_the_divergence() -> None:
    """What kind it is and how large: rounding of another order of summation, or another value."""
    found = CASES["one_cause"]()
    text = bisection_text(replace(found, divergence=DIVERGED), "a", "b")
    assert "\n  kind: computation, reduction-order: as small as rounding: another order of summation" in text
    assert "\n  elements: f32[4,64]: 2 of 256 elements differ, first [2, 17], at most 3 ULP" in text
    document = json.loads(bisection_json(replace(found, divergence=DIVERGED)))
    assert document["first"]["kind"] == "computation"
    assert document["first"]["tensor"]["max_ulp"] == 3
    one_sided = replace(DIVERGED, first=replace(DIVERGED.first, side=Side.B), tensor=None)
    assert "elements" not in bisection_text(replace(found, divergence=one_sided), "a", "b")


def test_what_goes_on_forgets_nothing() -> None:
    """The same command with ``--fresh`` would begin anew."""
    text = bisection_text(CASES["out_of_budget"](), "a", "b", asked=("--max-trials=6", "--fresh"))
    assert "next: the same command again, without --fresh; trials that were made are not made twice" in text


def test_fix_commands() -> None:
    """Each sort of unit has its own way back to A's value."""
    assert [fix_command(unit) for unit in (NUMPY, THREADS, WORKERS, CODE)] == [
        "pip install numpy==2.3.5",
        "unset OMP_NUM_THREADS",
        "# give the argument --workers 0",
        "git checkout 1f3c9e",
    ]
    assert fix_command(SEED) == "export PYTHONHASHSEED=0"
    assert fix_command(Unit(layer=Layer.DEPENDENCIES, knob="apex", a=None, b="1")) == "pip uninstall apex"
    assert fix_command(Unit(layer=Layer.CONFIGURATION, knob="argv.--fast", a=None, b="")) == (
        "# leave out the argument --fast"
    )
    assert fix_command(Unit(layer=Layer.CONFIGURATION, knob="RATE", a="a b; ls", b=None)) == "export RATE='a b; ls'"


@pytest.mark.parametrize(
    ("knob", "value", "text"),
    [
        ("argv.--mom#2", "0.9", "# give the argument --mom 0.9 (its 2nd time)"),
        ("argv.--mom#13", None, "# leave out the argument --mom (its 13th time)"),
        ("argv.0", "train", "# argument 0: train"),
        ("argv.--fast", "", "# give the argument --fast"),
    ],
)
def test_fix_of_an_argument(knob: str, value: str | None, text: str) -> None:
    """An argument that is given more than once is told by its number, in words."""
    assert fix_command(Unit(layer=Layer.CONFIGURATION, knob=knob, a=value, b="x")) == text


def test_a_clamped_trial_says_so() -> None:
    """In progress, and in the table where others are not clamped."""
    trial = Trial(n=3, base="a", swapped=(), outcome=Outcome.OTHER, seconds=3, clamps=("one thread",))
    assert trial_line(trial) == "trial 3 · A (clamped: one thread) · other · 3.0 s"
    result = CASES["not_repeatable"]()
    text = bisection_text(replace(result, trials=(*result.trials, trial)), "a", "b")
    assert "A (clamped: one thread)" in text
    assert "or search with --clamp" not in text, "the notes say what clamps did"


def test_trial_command() -> None:
    """A trial is run by hand with B's value of each swapped unit."""
    assert trial_command([NUMPY, WORKERS], "runs/a", "runs/b") == [
        *("bd", "trial", "runs/a", "--set", "dependencies.numpy=@B", "--set", "configuration.argv.--workers=@B"),
        *("--b", "runs/b"),
    ]


def test_a_step_is_named_by_its_value() -> None:
    """Of a package that was taken apart release by release ``@B`` would be the last release."""
    step = replace(NUMPY, a="2.0.0", b="2.0.1")
    words = trial_command([step, WORKERS], "a", "b", wholes=[NUMPY])
    assert words[3:7] == ["--set", "dependencies.numpy=2.0.1", "--set", "configuration.argv.--workers=@B"]
    assert trial_command([NUMPY], "a", "b", wholes=[NUMPY, step])[4] == "dependencies.numpy=@B"


def test_trial_line() -> None:
    """A trial is one line of progress."""
    trial = Trial(n=3, base="a", swapped=(NUMPY,), outcome=Outcome.A, seconds=34)

    assert trial_line(trial, " of ~7") == "trial 3 of ~7 · A + {numpy} · =A · 34.0 s"


def test_no_fix_that_was_not_shown() -> None:
    """Where putting the cause back was not shown to give A, what was shown is printed, or nothing."""
    result = CASES["one_cause"]()
    cause = replace(result.causes[0], necessary=False)
    shown = replace(result, causes=(cause,))
    silent = replace(shown, trials=tuple(t for t in shown.trials if t.outcome is not Outcome.A))

    assert "to make B like A\n  pip install numpy==2.3.5" in bisection_text(shown, "a", "b")
    assert "to make B like A" not in bisection_text(replace(silent, causes=(replace(cause, proof=()),)), "a", "b")


def test_the_reason_of_a_skipped_trial_stands_below_it() -> None:
    """In whole words, and no column is wider for it."""
    reason = "the recorded command ended with status 1: " + "ModuleNotFoundError " * 40
    trial = Trial(n=1, base="a", swapped=(), outcome=Outcome.SKIP, reason=reason, seconds=2)
    found = Bisection(verdict=BisectVerdict.INCONCLUSIVE, trials=(trial,))
    lines = fold(bisection_text(found, "runs/a", "runs/b")).splitlines()
    at = lines.index("  1  A              skip     2.0")
    assert lines[at + 1].startswith("     the recorded command ended with status 1: ModuleNotFoundError")
    assert all(line.split()[-1] in ("ModuleNotFoundError", "...") for line in lines[at + 1 : at + 5])
    assert max(map(len, lines)) <= 80


def test_how_far_was_compared_is_said() -> None:
    """Next to the proof once, of what is innocent, and of what B covers; with a horizon, that."""
    found = CASES["one_cause"]()
    found = replace(found, trials=tuple(replace(trial, stopped_at_step=1) for trial in found.trials))
    text = bisection_text(found, "a", "b")
    assert text.count("compared up to step 1, the step after the first divergence") == 1
    assert "innocent (tested) up to step 1" in text
    limited = bisection_text(replace(found, notes=(f"x; {ONLY_JUDGED}",)), "a", "b")
    assert "compared up to the horizon\n" in limited
    unit = found.innocent[0]
    covered = replace(found.causes[0], units=(unit,), role=Role.MASKED, sufficient=False, necessary=False)
    text = bisection_text(replace(found, causes=(*found.causes, covered)), "a", "b")
    assert "but has no part in B up to step 1: there it is covered" in text


def test_what_is_covered_in_b_goes_back_too() -> None:
    """Where the cause alone put back shows the covered unit, all of both make A again."""
    trials = (
        Trial(n=1, base="a", swapped=(), outcome=Outcome.A),
        Trial(n=2, base="a", swapped=(WORKERS, RATE), outcome=Outcome.B),
        Trial(n=3, base="a", swapped=(WORKERS,), outcome=Outcome.B),
        Trial(n=4, base="a", swapped=(RATE,), outcome=Outcome.OTHER),
        Trial(n=5, base="a", swapped=(WORKERS, RATE), outcome=Outcome.B),
    )
    cause = Cause(units=(WORKERS,), role=Role.CAUSE, sufficient=True, necessary=False, same_divergence=True, proof=(3,))
    covered = replace(cause, units=(RATE,), role=Role.MASKED, sufficient=False, proof=(4,))
    found = Bisection(verdict=BisectVerdict.CAUSE, causes=(cause, covered), trials=trials)
    text = bisection_text(found, "a", "b")
    assert "to make B like A, all of these\n  # give the argument --workers 0\n  # give the argument --lr 0.1" in text


def test_what_moves_by_itself_is_in_the_first_sentence() -> None:
    """An unseeded generator is the answer, and no note among others."""
    found = Bisection(verdict=BisectVerdict.NOT_REPEATABLE, reason="nobody seeds numpy.random; call x(...)")
    assert bisection_text(found, "a", "b").startswith(
        "A does not repeat itself: nobody seeds numpy.random; call x(...)"
    )
