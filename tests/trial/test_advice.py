"""What a run that does not repeat itself lacks is named where its settings tell."""

import pytest

from bisect_diverge.model.address import Address
from bisect_diverge.model.environment import Environment, Layer, Setting
from bisect_diverge.trial.advice import advice


def environment(**seeds):
    """Return an environment in which setters were called with these seeds; ``__`` stands for a dot."""
    return Environment(
        tuple(
            Setting(layer=Layer.SEEDS, knob=name.replace("__", "."), value=value, resolved=False)
            for name, value in seeds.items()
        )
    )


INIT = Address.parse("r0/0/-/init/model:0.weight#0:param")
DATA = Address.parse("r0/0/-/data/train:#0:batch.0")
NUMPY = Address.parse("r0/0/-/rng/-:#0:numpy")
FORWARD = Address.parse("r0/0/0/forward/model:0#0:output.0")


def test_a_seed_taken_from_the_time_is_named_with_its_setter():
    """Both values are shown."""
    (said,) = advice(environment(torch__manual_seed="17"), environment(torch__manual_seed="18"), [INIT])
    assert "gives torch.manual_seed another seed each time (17 when it was recorded, 18 now)" in said


@pytest.mark.parametrize(
    ("called", "where", "setters"),
    [
        ({}, INIT, "torch.manual_seed"),
        ({"torch__manual_seed": "0"}, INIT, ""),
        ({"torch__manual_seed": "0"}, DATA, "numpy.random.seed or random.seed"),
        ({}, NUMPY, "numpy.random.seed"),
        ({}, FORWARD, ""),
    ],
)
def test_a_setter_that_is_never_called_is_named(called, where, setters):
    """By the phase in which repeats differ, or by the generator itself."""
    said = "\n".join(advice(environment(**called), environment(**called), [where, where]))
    assert (f"never calls {setters}: call" in said) if setters else (said == "")
