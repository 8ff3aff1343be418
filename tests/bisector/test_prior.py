"""Likely units decide where the chain is cut, and never how much a search may cost or what it answers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from bisect_diverge.bisector.plan import middles, ordered
from bisect_diverge.bisector.prior import LIKELY, weight_for
from bisect_diverge.bisector.search import bisect
from bisect_diverge.bisector.supposed import Effect, World
from bisect_diverge.model.address import Address, Phase
from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import Unit


def at(phase: Phase) -> Address:
    """Return an address in a phase."""
    return Address(rank=0, step=0, micro_batch="0", phase=phase, root="model", fqn="", call=0, slot="output.0")


def chain(*numbers: tuple[Layer, int]) -> tuple[Unit, ...]:
    """Return so many units of each layer, in the order of the plan."""
    return ordered([Unit(layer=layer, knob=f"k{i}", a="0", b="1") for layer, number in numbers for i in range(number)])


def test_every_phase_has_its_layers() -> None:
    """A new phase would be looked up in vain."""
    assert LIKELY.keys() == set(Phase)


@pytest.mark.parametrize(
    ("phase", "knob", "layer", "likely"),
    [
        (Phase.DATA, "seed", Layer.SEEDS, True),
        (Phase.DATA, "argv.--num-workers", Layer.CONFIGURATION, True),
        (Phase.DATA, "MKL_CBWR", Layer.KERNELS, False),
        (Phase.INIT, "torch.manual_seed", Layer.SEEDS, True),
        (Phase.FORWARD, "argv.--num-workers", Layer.CONFIGURATION, False),
        (Phase.BACKWARD, "MKL_CBWR", Layer.KERNELS, True),
        (Phase.FORWARD, "numpy", Layer.DEPENDENCIES, True),
    ],
)
def test_likely_units(phase: Phase, knob: str, layer: Layer, likely: bool) -> None:
    """Data: dataset, seeds and workers; initial weights: seeds and kernels; computing: kernels, hardware, packages."""
    unit = Unit(layer=layer, knob=knob, a="0", b="1")
    assert (weight_for(at(phase))(unit) > 1) == likely
    assert weight_for(None)(unit) == 1


def test_the_cut_parts_the_weight() -> None:
    """Six units of one layer are cut where the weight is even, if that needs no further halving."""
    units = chain((Layer.SEEDS, 6))
    heavy = {units[0]: 4.0, units[1]: 4.0}
    assert middles(units, 0, 6)[0] == 3
    assert middles(units, 0, 6, lambda unit: heavy.get(unit, 1.0))[0] == 2
    assert middles(units[:4], 0, 4, lambda unit: heavy.get(unit, 1.0))[0] == 2  # of four, one would leave three


@pytest.mark.parametrize("phase", list(Phase))
def test_the_bound_holds(phase: Phase) -> None:
    """One cause among n units costs 4 + ceil(log2 n) trials at most, and two repeats, wherever it is."""
    rng = random.Random(str(phase))
    for number in range(1, 18):
        units = ordered([Unit(layer=rng.choice(list(Layer)), knob=f"k{i}", a="0", b="1") for i in range(number)])
        for unit in units:
            world = World(units=units, effects=(Effect((frozenset({unit}),)),))
            result = bisect(units, replace(world, asked=[]), first=at(phase))
            assert [cause.units for cause in result.causes] == [(unit,)]
            assert len(result.trials) <= 6 + math.ceil(math.log2(number))


def cost(units: tuple[Unit, ...], first: Address | None, weight: Callable[[Unit], float]) -> float:
    """Return the trials that one cause takes, the likely ones counted as often as they are likely."""
    worlds = [(unit, World(units=units, effects=(Effect((frozenset({unit}),)),))) for unit in units]
    return sum(weight(unit) * len(bisect(units, world, first=first).trials) for unit, world in worlds)


def test_likely_causes_are_found_sooner() -> None:
    """The data differ: where seeds and the dataset are likelier than flags, a search takes fewer trials on average."""
    weight = weight_for(at(Phase.DATA))
    units = chain((Layer.CONFIGURATION, 2), (Layer.DATASET, 1), (Layer.SEEDS, 2))
    assert cost(units, at(Phase.DATA), weight) < cost(units, None, weight)
