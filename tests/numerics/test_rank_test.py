"""The exact rank-sum test: against every way to deal the numbers, and at its ends."""

from itertools import combinations
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisect_diverge.numerics.rank_test import larger, sizes, smaller, smallest_chance

NUMBERS = st.lists(st.integers(0, 4).map(float), min_size=1, max_size=5)


def by_hand(sample, reference):
    """Deal the numbers in every way, and count those with a rank sum as large."""
    both = [*sample, *reference]
    ranks = [sum(y < x for y in both) + (sum(y == x for y in both) + 1) / 2 for x in both]
    mine = sum(ranks[: len(sample)])
    dealt = [sum(ranks[i] for i in chosen) for chosen in combinations(range(len(both)), len(sample))]
    return sum(total >= mine for total in dealt) / len(dealt)


@given(NUMBERS, NUMBERS)
def test_it_counts_every_way_to_deal(sample, reference):
    """Ties share their ranks; the two directions mirror one another."""
    assert larger(sample, reference) == pytest.approx(by_hand(sample, reference))
    assert smaller(sample, reference) == pytest.approx(by_hand([-x for x in sample], [-x for x in reference]))
    assert 0 < larger(sample, reference) <= 1


def test_ends():
    """Apart: the smallest chance there is, of 4 and 4 one in 70. Nothing but ties: 1."""
    assert larger([5, 6, 7, 8], [1, 2, 3, 4]) == smallest_chance(4, 4) == 1 / comb(8, 4)
    assert larger([1, 1], [1, 1, 1]) == 1
    assert larger([3, 4], [1, 2, 3.5]) == pytest.approx(0.2)


def test_sizes():
    """The cheapest sizes that can reach a level; more comparisons pay for larger references."""
    for level, comparisons in ((0.05, 1), (0.00625, 5), (0.001, 20)):
        reference, sample = sizes(level, comparisons)
        assert smallest_chance(sample, reference) <= level
        assert smallest_chance(sample - 1, reference) > level
    assert sizes(0.00625, 5) == (8, 3)
    assert sizes(0.00625, 40)[0] > 8
    assert sizes(0.05, 5, least=20)[0] == 20
    assert sizes(1e-30, 1, most=5) == (5, 5)
