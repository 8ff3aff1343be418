"""Parsing of recording options that people write as text."""

from __future__ import annotations

import re

from bisect_diverge.errors import UsageError

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_size(text: str) -> int:
    """Return a number of bytes: ``4G``, ``512M``, ``1.5GiB``, ``1000``; units are powers of 1024.

    Raises:
        UsageError: if the text is no size.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", text, re.IGNORECASE)
    if match is None:
        raise UsageError(f"not a size: {text!r}", hint="a size looks like 4G, 512M or 1.5G")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def parse_steps(text: str) -> tuple[int, int | None]:
    """Return the steps ``[first, end)`` of ``A:B``; either may be left out.

    Raises:
        UsageError: if the text names no steps.
    """
    match = re.fullmatch(r"\s*(\d*)\s*:\s*(\d*)\s*", text)
    if match is None or not (match[1] or match[2]):
        raise UsageError(f"not a range of steps: {text!r}", hint="--steps 10:20 is steps 10 to 19, 5: is from 5 on")
    first, end = int(match[1] or 0), int(match[2]) if match[2] else None
    check_steps(first, end)
    return first, end


def check_steps(first: int, end: int | None) -> None:
    """Refuse steps ``[first, end)`` that cannot be recorded.

    Raises:
        UsageError: if there are none.
    """
    text = f"{first}:{'' if end is None else end}"
    if first < 0:
        raise UsageError(f"not a range of steps: {text!r}", hint="steps are counted from 0")
    if end is not None and end <= first:
        raise UsageError(f"an empty range of steps: {text!r}", hint="the end is excluded: --steps 10:11 is step 10")
