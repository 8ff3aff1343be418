"""How a difference grows, in one sentence."""

import pytest

from bisect_diverge.model.findings import Distance, Growth, StepDistance
from bisect_diverge.report.numbers_text import growth_sentence


@pytest.mark.parametrize(
    ("later", "said"),
    [((1, 1), "the loss differs from step 0 on"), ((0, 1), "the loss first differs at step 0")],
)
def test_a_loss_that_is_equal_again_only_first_differs_somewhere(later: tuple[int, ...], said: str):
    """The sentence and the table below it do not contradict each other."""
    same = Distance(records=1)
    steps = tuple(
        StepDistance(step=n, parameters=same, gradients=same, loss=Distance(records=1, differing=differing))
        for n, differing in enumerate((1, *later))
    )
    assert growth_sentence(Growth(steps=steps, loss_first_differs=0, rate=None, dies_out=False)).startswith(said)
