"""Counts, numbers and places in words, the same in every report."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bisect_diverge.model.address import Address
    from bisect_diverge.model.environment import Difference
    from bisect_diverge.model.trial import Unit

Paint = Callable[[str, str], str]
"""Gives a text a look by its role (``bad``, ``good``, ``title``); colour only adds to the words."""


LONGEST = 60
"""Characters of a setting's value that are shown."""
FEWEST = 3
"""Entries that a long value has at least if it is a list."""
MOST_FILES = 3
"""Files of a source that are named."""
SHORT_HASH = 12
"""Characters of a hash that are shown."""
_HASH = re.compile(r"\b[0-9a-f]{32,}\b")


def plain(text: str, _role: str) -> str:
    """Return a text as it is: the look of files and pipes."""
    return text


def printable(text: str) -> str:
    """Return a text without anything that a terminal would act on."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)


def setting(value: str | None) -> str:
    """Return the value of a setting, short: hashes and what is longer than a report has room for are cut."""
    if value is None:
        return "(not set)"
    value = _HASH.sub(lambda hash_: hash_[0][:SHORT_HASH], value)
    return (value if len(value) <= LONGEST else f"{value[:LONGEST]}...") or '""'


def whole(value: str | None) -> str:
    """Return the value of a setting, uncut and as it is."""
    return "(not set)" if value is None else value or '""'


def change(row: Unit | Difference) -> str:
    """Return a setting with its values in A and B, short: ``hardware OMP_NUM_THREADS: 2 -> 1``.

    Of long lists only what differs is shown: ``kernels numpy.cpu_features: -X86_V3 -X86_V4``.
    """
    values = entries(row.a, row.b, LONGEST) or f"{setting(row.a)} -> {setting(row.b)}"
    return printable(f"{row.layer} {row.knob}: {values}{in_files(getattr(row, 'files', ()))}")


def in_files(names: Sequence[str]) -> str:
    """Return which files a change is in, as the end of a sentence: `` in a.py, b.py and 2 more``; empty: not known."""
    if not names:
        return ""
    more = len(names) - MOST_FILES
    return f" in {', '.join(names[:MOST_FILES])}{f' and {more} more' if more > 0 else ''}"


def entries(a: str | None, b: str | None, longest: int) -> str:
    """Return what B's list has less and more than A's; empty where they are short or no lists.

    Args:
        a: Value in A: entries with commas or spaces between them.
        b: Value in B.
        longest: Characters of a value that are shown as they are, and of the answer.
    """
    if a is None or b is None or max(len(a), len(b)) <= longest:
        return ""
    mark = "," if "," in a and "," in b else None
    lists = [[entry.strip() for entry in value.split(mark)] for value in (a, b)]
    both = Counter(lists[0]) & Counter(lists[1])
    if min(map(len, lists)) < FEWEST or 2 * both.total() < min(map(len, lists)):
        return ""
    less, more = Counter(lists[0]) - both, Counter(lists[1]) - both
    moved = [*(f"-{entry}" for entry in less.elements()), *(f"+{entry}" for entry in more.elements())]
    if not moved:
        return f"the same {both.total()} entries in another order"
    text = ", ".join(moved) if mark else " ".join(moved)
    return text if len(text) <= longest else f"{text[:longest]}... ({less.total()} entries less, {more.total()} more)"


def plural(number: int, word: str) -> str:
    """Return a count with its noun: ``1 record``, ``2 records``."""
    return f"{number} {word if number == 1 else word + ('es' if word.endswith('ch') else 's')}"


def magnitude(value: float) -> str:
    """Return a number with three significant digits."""
    return f"{value:.3g}"


def step(address: Address) -> str:
    """Return the step in words, with the rank where it is not 0."""
    rank = f"rank {address.rank}, " if address.rank else ""
    return f"{rank}step {address.step}"


def moment(address: Address) -> str:
    """Return step, micro-batch and phase in words."""
    pass_ = f", micro-batch {address.micro_batch}" if address.micro_batch != "-" else ""
    return f"{step(address)}{pass_}, {address.phase}"


def place(address: Address) -> str:
    """Return slot and name in words: ``output.0 of model:1``; a call other than the first is said."""
    name = ":".join(part for part in (address.root, address.fqn) if part and part != "-")
    call = f" (call {address.call})" if address.call else ""
    return printable(f"{address.slot} of {name}{call}" if name else address.slot)


def duration(seconds: float) -> str:
    """Return a time in words, no finer than it matters: ``45 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"


def size(count: int) -> str:
    """Return a number of bytes in binary units: ``3.2 MiB``."""
    if count < 1024:
        return plural(count, "byte")
    power = min(int(math.log2(count) // 10), 4)
    return f"{count / 1024**power:.1f} {'KMGT'[power - 1]}iB"
