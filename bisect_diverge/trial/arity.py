"""How many tokens a flag takes, learned from two command lines: no script tells."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bisect_diverge.environment.arguments import is_flag, plain_after, split

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def learned(a: Sequence[str], b: Sequence[str]) -> dict[str, int]:
    """Return how many tokens each flag takes, where a command line alone does not tell.

    A flag before a word may be a switch before a positional argument, and one before two words may take both. Of what
    is possible that is taken with which the two command lines differ least; where it makes no difference, one token, or
    all of several numbers.
    """
    takes: dict[str, int] = {}
    after: dict[str, list[int]] = {}
    for tokens in (a, b):
        for index, token in enumerate(tokens):
            if is_flag(token):
                after.setdefault(token, []).append(plain_after(tokens, index))
    joined = {token.partition("=")[0] for token in (*a, *b) if "=" in token}
    for flag, counts in after.items():
        most = max(counts)
        if not most:
            continue
        usual = most if most > 1 and _numbers_after(flag, most, a, b) else 1
        options = dict.fromkeys((usual, 1, *(() if flag in joined else (0,)), most))
        takes[flag] = min(options, key=lambda count: _differing_names(a, b, {**takes, flag: count}))
    return takes


def _numbers_after(flag: str, count: int, *lines: Sequence[str]) -> bool:
    """Whether a flag is followed by nothing but numbers wherever it is followed by so many tokens."""
    followed = [
        tokens[index + 1 : index + 1 + count]
        for tokens in lines
        for index, token in enumerate(tokens)
        if token == flag and plain_after(tokens, index) == count
    ]
    return all(_NUMBER.fullmatch(word) for words in followed for word in words)


def _differing_names(a: Sequence[str], b: Sequence[str], takes: Mapping[str, int]) -> int:
    of_a, of_b = ({each.name: each.value for each in split(tokens, takes)} for tokens in (a, b))
    return sum(of_a.get(name) != of_b.get(name) for name in {*of_a, *of_b})
