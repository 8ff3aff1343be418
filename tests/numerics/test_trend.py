"""The growth rate and its uncertainty."""

import math

import numpy as np
import pytest

from bisect_diverge.numerics.trend import student, trend


@pytest.mark.parametrize(
    ("free", "expected"),
    [(1, 12.7062), (2, 4.3027), (5, 2.5706), (11, 2.2010), (20, 2.0860), (30, 2.0423), (100, 1.9840)],
)
def test_quantiles_of_student(free, expected):
    """As in any printed table."""
    assert student(free) == pytest.approx(expected, abs=6e-5)


def test_an_exact_line_is_found_without_uncertainty():
    """A quantity that grows by one factor."""
    found = trend(range(10, 30), [1e-7 * 1.3**n for n in range(20)])

    assert found is not None
    assert (found.factor, found.low, found.high) == pytest.approx((1.3, 1.3, 1.3))
    assert found.points == 20


def test_the_interval_holds_the_true_rate_as_often_as_it_says():
    """Of 400 noisy lines about 95 % have the true factor in their interval."""
    random = np.random.default_rng(1)
    steps = np.arange(12)
    hits = 0
    for _ in range(400):
        found = trend(steps.tolist(), np.exp(0.1 * steps + random.normal(0, 0.3, 12)).tolist())
        assert found is not None
        hits += found.low <= math.exp(0.1) <= found.high

    assert 0.92 <= hits / 400 <= 0.98


@pytest.mark.parametrize("values", [[], [1.0, 2.0], [0.0, 0.0, 0.0, 1.0], [math.inf, math.nan, 1.0, 2.0]])
def test_too_few_points_give_no_rate(values):
    """Zeros and what is not finite have no logarithm."""
    assert trend(range(len(values)), values) is None


def test_extreme_rates_stay_finite():
    """The result goes into JSON, which has no infinity."""
    found = trend([0, 1, 2], [1e-300, 1e300, 1.0])

    assert found is not None
    assert math.isfinite(found.high)
