"""Are the numbers of one small sample larger than those of another? An exact answer, ties and all."""

from __future__ import annotations

from itertools import groupby
from math import comb, inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def larger(sample: Sequence[float], reference: Sequence[float]) -> float:
    """Return the chance of ranks as large as a sample's if it were drawn like the reference.

    The one-sided p-value of the rank-sum test of Wilcoxon (1945) and of Mann and Whitney (1947). Equal numbers share
    the mean of their ranks, and the distribution is that of all ways to deal the given numbers to the two samples
    (Streitberg and Roehmel 1986), so that it is exact at any size and needs no model of the numbers.

    Args:
        sample: Numbers, at least one, none of them NaN.
        reference: Others, at least one.

    Returns:
        Larger than 0, at most 1: the probability of a rank sum of at least the sample's.
    """
    ranks = _doubled_ranks([*sample, *reference])
    mine = sum(ranks[: len(sample)])
    ways = _ways(ranks, len(sample))
    return sum(count for total, count in ways.items() if total >= mine) / comb(len(ranks), len(sample))


def smaller(sample: Sequence[float], reference: Sequence[float]) -> float:
    """Return the chance of ranks as small as a sample's if it were drawn like the reference; see `larger`."""
    return larger([-x for x in sample], [-x for x in reference])


def smallest_chance(sample: int, reference: int) -> float:
    """Return the smallest value that `larger` can have for samples of these sizes: every number beyond all others."""
    return 1 / comb(sample + reference, sample)


def sizes(level: float, comparisons: int, *, least: int = 2, most: int = 60) -> tuple[int, int]:
    """Return the sizes of two references and of each sample that cost the fewest numbers in all.

    Args:
        level: `smallest_chance` of a sample and a reference must not be larger.
        comparisons: How many samples are compared, beside the two references with one another.
        least: Fewest numbers of a reference.
        most: Most numbers of a reference.

    Returns:
        Numbers in each reference and in each sample; the last both `most` where no size is enough.
    """
    best, cost = (most, most), inf
    for reference in range(least, most + 1):
        sample = next((n for n in range(1, reference + 1) if smallest_chance(n, reference) <= level), None)
        if sample is not None and 2 * reference + comparisons * sample < cost:
            best, cost = (reference, sample), 2 * reference + comparisons * sample
    return best


def _doubled_ranks(numbers: Sequence[float]) -> list[int]:
    """Return twice the rank of each number, from 1; equal ones have the mean, twice which is a whole number."""
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    ranks = [0] * len(numbers)
    below = 0
    for _, group in groupby(order, key=numbers.__getitem__):
        tied = list(group)
        for at in tied:
            ranks[at] = 2 * below + len(tied) + 1
        below += len(tied)
    return ranks


def _ways(ranks: Sequence[int], size: int) -> dict[int, int]:
    """Return each sum of that many ranks to the number of ways in which it comes about."""
    found: list[dict[int, int]] = [{0: 1}, *({} for _ in range(size))]
    for rank in ranks:
        for taken in range(size - 1, -1, -1):
            above = found[taken + 1]
            for total, count in found[taken].items():
                above[total + rank] = above.get(total + rank, 0) + count
    return found[size]
