"""How far two tensors are apart, and how that grows from step to step, in words and in a small table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.model.findings import Layout
from bisect_diverge.report.words import magnitude, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bisect_diverge.model.findings import Distance, Extent, Growth, Numbers, Rate, StepDistance

ROWS = 12
"""Steps of the growth that a text lists; the others are counted."""

PARTS = ("parameters", "gradients", "loss")
"""What the growth is told of; attributes of `StepDistance`."""


def more_numbers(numbers: Numbers, *, scalar: bool = False) -> Iterator[str]:
    """Yield where the differing elements lie (unless there is one only), how far most are apart, and what else."""
    if not scalar:
        yield extent_sentence(numbers.extent)
    if numbers.ulp_percentiles and numbers.extent.layout is not Layout.ONE_ELEMENT:
        percents = ", ".join(f"{percent} % within {ulp} ULP" for percent, ulp in numbers.ulp_percentiles)
        yield percents
    counts = (
        (numbers.nan_appearing, "NaN in B only"),
        (numbers.nan_vanishing, "NaN in A only"),
        (numbers.inf_appearing, "infinite in B only"),
        (numbers.inf_vanishing, "infinite in A only"),
        (numbers.sign_flips, "of other sign"),
    )
    yield from (f"{count} {what}" for count, what in counts if count)


def extent_sentence(extent: Extent) -> str:
    """Return where the differing elements of a tensor lie."""
    if extent.layout is Layout.ONE_INDEX:
        return f"all at index {extent.index} of axis {extent.axis}"
    return {
        Layout.ONE_ELEMENT: "one element",
        Layout.EVERYWHERE: "nearly all elements",
        Layout.SCATTERED: "scattered over the tensor",
    }[extent.layout]


def growth_sentence(growth: Growth) -> str:
    """Return how a difference grows, in one sentence."""
    parts = []
    if growth.loss_first_differs is not None:
        parts.append(_loss_sentence(growth, growth.loss_first_differs))
    elif growth.steps and any(step.loss.records for step in growth.steps):
        parts.append("the loss never differs")
    if growth.dies_out:
        at = "" if growth.equal_again_at is None else f", from step {growth.equal_again_at} on"
        parts.append(f"the difference dies out: the runs are equal again{at}")
    elif growth.rate is not None:
        parts.append(rate_sentence(growth.rate))
    if growth.without_values:
        parts.append(f"distances are missing: {growth.without_values}")
    return "; ".join(parts) or "too few steps to tell"


def _loss_sentence(growth: Growth, first: int) -> str:
    """Return from where the loss differs; of one that is equal again in some later step, only where it first does."""
    again = any(row.step > first and row.loss.records and not row.loss.differing for row in growth.steps)
    return f"the loss first differs at step {first}" if again else f"the loss differs from step {first} on"


def rate_sentence(rate: Rate) -> str:
    """Return a fitted growth rate with its uncertainty."""
    low, high = magnitude(rate.low), magnitude(rate.high)
    word = "grows" if rate.low > 1 else "shrinks" if rate.high < 1 else "neither grows nor shrinks for certain"
    return (
        f"the distance of the {rate.of} {word}, by x {magnitude(rate.factor)} a step "
        f"(95 %: {low} to {high}, {plural(rate.steps, 'step')})"
    )


def listed_steps(growth: Growth) -> tuple[StepDistance, ...]:
    """Return the steps that a text lists: all, or the first and the last three."""
    steps = growth.steps
    return steps if len(steps) <= ROWS else (*steps[: ROWS - 3], *steps[-3:])


def growth_lines(growth: Growth) -> Iterator[str]:
    """Yield a table: largest ULP and relative L2 distance of parameters, gradients and loss in each step."""
    yield f"{'step':>6}" + "".join(f"  {part + ' ULP, L2':<22}" for part in PARTS).rstrip()
    for step in listed_steps(growth):
        if len(growth.steps) > ROWS and step is growth.steps[-3]:
            yield f"   ... {plural(len(growth.steps) - ROWS, 'step')} left out (--format json has all)"
        cells = "".join(f"  {distance_text(getattr(step, part)):<22}" for part in PARTS)
        yield f"{step.step:>6}{cells}".rstrip()


def distance_text(distance: Distance) -> str:
    """Return a distance as ``ULP, relative L2``; what is not known is a question mark, nothing recorded a dash."""
    if not distance.records:
        return "-"
    if not distance.differing:
        return "= equal"
    ulp = "?" if distance.max_ulp is None else str(distance.max_ulp)
    length = "?" if distance.relative_l2 is None else magnitude(distance.relative_l2)
    return f"{ulp}, {length}"
