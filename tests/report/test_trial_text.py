"""The first sentence of a trial: whose bits, up to where, and whether anything was tested."""

from dataclasses import replace

import pytest

from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import Outcome, Trial, Unit
from bisect_diverge.report.trial_text import trial_text

UNIT = Unit(layer=Layer.HARDWARE, knob="OMP_NUM_THREAD", a=None, b="1")
TRIAL = Trial(n=1, base="a", swapped=(UNIT,), outcome=Outcome.B, stopped_at_step=1)


@pytest.mark.parametrize(
    ("trial", "doubts", "sentence"),
    [
        (TRIAL, (), "B's bits up to step 1, where it ended: this change makes B out of A"),
        (
            replace(TRIAL, outcome=Outcome.A),
            (),
            "A's bits up to step 1, where it ended: this change makes no difference",
        ),
        (
            replace(TRIAL, outcome=Outcome.A, swapped=()),
            (),
            "A's bits up to step 1, where it ended: A repeats itself",
        ),
        (
            replace(TRIAL, outcome=Outcome.A, inert=(UNIT,)),
            (),
            "nothing was tested: hardware.OMP_NUM_THREAD did not move; the bits are A's up to step 1",
        ),
        (
            replace(TRIAL, outcome=Outcome.A),
            ["x looks like a typo of y"],
            "nothing was tested: x looks like a typo of y; the bits are A's up to step 1",
        ),
        (replace(TRIAL, outcome=Outcome.OTHER), ["x looks like a typo of y"], "neither A's bits nor B's"),
        (replace(TRIAL, stopped_at_step=None), (), "B's bits: this change makes B out of A"),
    ],
)
def test_the_first_sentence(trial, doubts, sentence):
    """No more is claimed than was compared, and nothing of a name that nobody reads."""
    assert trial_text(trial, with_b=True, doubts=doubts).splitlines()[0] == sentence
