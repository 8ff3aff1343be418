"""Clamps take noise away in every trial alike, and what they hold cannot be blamed."""

import pytest

from bisect_diverge.environment.apply import HELD
from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import Unit
from bisect_diverge.record.settings import VARIABLE, Settings, TrialSettings
from bisect_diverge.trial.clamp import CLAMPS, FILLS, split, with_clamps
from bisect_diverge.trial.runner import Launch


def unit(name):
    """Return a unit by ``layer.knob``."""
    layer, _, knob = name.partition(".")
    return Unit(layer=Layer(layer), knob=knob, a="0", b="1")


def test_they_hold_against_the_configuration():
    """Whatever a swap has set, the clamp's value counts; what it does not hold stays."""
    trial = TrialSettings(
        stop_after_step=3, pins=(("hardware.threads.intra_op", "4"), ("seeds.torch.manual_seed", "7"))
    )
    environment = {VARIABLE: Settings(run="/r", trial=trial).to_json(), "OMP_NUM_THREADS": "4", "HOME": "/h"}
    made = with_clamps(Launch(command=("x",), environment=environment, cwd="/"), CLAMPS)
    settings = Settings.from_json(made.environment[VARIABLE])
    pins = dict(settings.trial.pins)
    assert pins["hardware.threads.intra_op"] == "1"
    assert pins["kernels.deterministic"] == "True"
    assert pins["seeds.torch.manual_seed"] == "7"
    assert settings.trial.stop_after_step == 3
    variables = made.environment
    assert (variables["OMP_NUM_THREADS"], variables["PYTHONHASHSEED"], variables["HOME"]) == ("1", "0", "/h")


def test_what_they_pin_can_be_held():
    """Every pin is a knob that the process can hold."""
    assert {pin for clamp in CLAMPS.values() for pin in clamp.pins} <= set(HELD)


@pytest.mark.parametrize(
    ("name", "by"),
    [
        ("hardware.OMP_NUM_THREADS", "one thread"),
        ("hardware.MKL_DYNAMIC", "one thread"),
        ("hardware.threads.intra_op", "one thread"),
        ("kernels.deterministic", "deterministic algorithms"),
        ("seeds.PYTHONHASHSEED", "PYTHONHASHSEED=0"),
        ("seeds.torch.manual_seed", ""),
        ("kernels.MKL_CBWR", ""),
        ("hardware.loader.train.num_workers", ""),
    ],
)
def test_what_cannot_be_blamed(name, by):
    """It is listed with the clamp that holds it."""
    free, held = split([unit(name)], tuple(CLAMPS))
    assert [row.reason for row in held] == ([f"clamped: {by} in every trial"] if by else [])
    assert bool(free) == (not by)


def test_memory_is_filled_by_a_variable():
    """The C library takes the complement of the byte; nothing else changes."""
    trial = TrialSettings(stop_after_step=3)
    started = Launch(command=("x",), environment={VARIABLE: Settings(run="/r", trial=trial).to_json()}, cwd="/")
    for name in FILLS:
        made = with_clamps(started, [name])
        byte = int(name.rpartition(" ")[2], 16)
        assert int(made.environment["MALLOC_PERTURB_"]) == 255 - byte
        assert Settings.from_json(made.environment[VARIABLE]).trial.pins == ()
    assert len(FILLS) == 2
