"""Which runs must not be repeated side by side."""

import pytest

from bisect_diverge.environment.load import depends_on_load
from bisect_diverge.model.environment import Environment, Layer, Setting


def environment(**knobs):
    """Build an environment; ``layer__knob`` to value, with ``_`` for ``.`` nowhere."""
    rows = []
    for name, value in knobs.items():
        layer, _, knob = name.partition("__")
        rows.append(Setting(layer=Layer(layer), knob=knob.replace("__", "."), value=value, resolved=True))
    return Environment(tuple(rows))


@pytest.mark.parametrize(
    ("knobs", "why"),
    [
        ({}, ""),
        ({"kernels__cudnn__benchmark": "True"}, ""),
        (
            {"kernels__cudnn__benchmark": "True", "hardware__accelerators": "1"},
            "cuDNN chooses kernels by timing (kernels cudnn.benchmark: True)",
        ),
        ({"kernels__cudnn__benchmark": "False", "hardware__accelerators": "1"}, ""),
        ({"kernels__compiled__0__mode": "max-autotune"}, "kernels are chosen by timing"),
        ({"kernels__compiled__0__mode": "default", "kernels__compiled__0__backend": "inductor"}, ""),
        ({"kernels__compiled__0__backend": "inductor", "hardware__accelerators": "2"}, "Triton tunes kernels"),
        ({"kernels__compiled__1__options": "{'max_autotune': True}"}, "kernels are chosen by timing"),
        ({"kernels__inductor__max_autotune": "True"}, "kernels are chosen by timing"),
        ({"kernels__inductor__max_autotune": "True", "kernels__inductor__deterministic": "True"}, ""),
        ({"kernels__TORCHINDUCTOR_COORDINATE_DESCENT_TUNING": "1"}, "kernels are tuned by timing"),
        ({"hardware__OMP_DYNAMIC": "TRUE"}, "OpenMP takes fewer threads on a busy machine"),
        ({"hardware__OMP_DYNAMIC": "false"}, ""),
    ],
)
def test_settings_that_look_at_the_clock_or_the_load_are_named(knobs, why):
    """The first that is on is told; what forbids the choice, or has no device to act on, is looked at."""
    assert depends_on_load(environment(), environment(**knobs)).startswith(why)
    assert bool(depends_on_load(environment(**knobs))) == bool(why)
