"""Folds lines that are longer than a report is wide; nothing is cut off, and commands can still be pasted."""

from __future__ import annotations

import re

WIDTH = 80
"""Columns of a text report, the same on every terminal and in files."""

_LOOK = re.compile(r"\x1b\[[0-9;]*m")
_LABEL = re.compile(r" +[a-z][a-z ]{0,9}  +(?=\S)")
"""A label with its column, as ``  kind      ``: what follows is folded into the second column."""
_WORD = re.compile(r"(\S+)( *)")
_SHELL_WORD = re.compile(r"((?:'[^']*'|\"[^\"]*\"|\S)+)( *)")
"""A word of a shell: what is quoted has spaces of its own, at which no backslash continues a line."""
_COMMAND = re.compile(r"\s*(?:next: |\d+  )?(?:bd|export|git|pip|unset) ")
"""A command of the shell, which is folded with a backslash."""


def fold(text: str, width: int = WIDTH, *, whole_words: bool = False) -> str:
    """Return a text whose lines are at most so many columns wide.

    A line breaks at spaces, a word that is wider than a line anywhere; what follows stands further in. A command breaks
    at spaces only, with a backslash, so that it can be pasted.

    Args:
        text: The text, with looks or without.
        width: Columns of a line.
        whole_words: Leave a word that is wider than a line as it is: an address or a path that is to be copied.
    """
    lines = text.split("\n")
    return "\n".join(line if _columns(line) <= width else _folded(line, width, whole_words) for line in lines)


def _columns(text: str) -> int:
    return len(_LOOK.sub("", text))


def _folded(line: str, width: int, whole_words: bool) -> str:
    is_command = bool(_COMMAND.match(line))
    whole_words = whole_words or is_command
    label = _LABEL.match(line)
    indent = len(line) - len(line.lstrip(" "))
    hang = " " * (len(label.group()) if label and len(label.group()) < width // 2 else indent + 2)
    room = width - 2 * is_command
    lines: list[str] = []
    current = " " * indent
    for word, gap in (_SHELL_WORD if is_command else _WORD).findall(line[indent:]):
        left = word
        fits_below = whole_words or len(hang) + _columns(left) <= room
        if _columns(current) + _columns(left) > room and fits_below and current.strip():
            lines.append(current.rstrip(" "))
            current = hang
        while not whole_words and _columns(current) + _columns(left) > room:
            cut = room - _columns(current)
            lines.append(current + left[:cut])
            current, left = hang, left[cut:]
        current += left + gap
    lines.append(current.rstrip(" "))
    return (" \\\n" if is_command else "\n").join(lines)
