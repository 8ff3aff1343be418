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


def test_a_generator_without_a_seed_and_a_worker_are_named():
    """``default_rng()`` is a setter like any other, and so is one that a loader worker has called."""
    worker = "loader__train__worker0__numpy__random__seed"
    before = environment(
        numpy__random__default_rng="fresh entropy 1", **{worker: "17 (the time), 18 (the time) (2 calls)"}
    )
    after = environment(numpy__random__default_rng="fresh entropy 2", **{worker: "19 (the time)"})
    said = advice(before, after, [NUMPY])
    assert len(said) == 2
    assert "gives numpy.random.default_rng another seed each time (fresh entropy 1 when" in said[1]
    assert "gives loader.train.worker0.numpy.random.seed another" in said[0]


def test_a_repeat_that_was_ended_earlier_has_the_same_seeds():
    """It has fewer calls; what was drawn for workers is no seed that the script gave."""
    before = environment(torch__manual_seed="0, 1, 2 (3 calls)", loader__train__base_seed="5")
    after = environment(torch__manual_seed="0", loader__train__base_seed="6")
    assert advice(before, after, [FORWARD]) == ()
