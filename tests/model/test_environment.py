"""Looking a setting up."""

import pytest

from bisect_diverge.model.environment import Environment, Layer, Setting

ROWS = (
    Setting(layer=Layer.KERNELS, knob="MKL_CBWR", value="found", resolved=True),
    Setting(layer=Layer.KERNELS, knob="MKL_CBWR", value="asked", resolved=False),
    Setting(layer=Layer.HARDWARE, knob="threads.intra_op", value="2", resolved=True),
)


@pytest.mark.parametrize(
    ("layer", "knob", "resolved", "expected"),
    [
        ("kernels", "MKL_CBWR", None, "asked"),
        ("kernels", "MKL_CBWR", True, "found"),
        ("hardware", "threads.intra_op", None, "2"),
        ("hardware", "threads.intra_op", False, None),
        ("seeds", "MKL_CBWR", None, None),
    ],
)
def test_a_value_is_found_by_layer_and_knob(layer, knob, resolved, expected):
    """What was requested comes before what was read back, unless one of the two is asked for."""
    assert Environment(ROWS).value(layer, knob, resolved=resolved) == expected
