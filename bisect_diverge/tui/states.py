"""The states of a record, each with a glyph, a word and a theme variable: colour never says it alone."""

from __future__ import annotations

from dataclasses import dataclass

EQUAL, DIFFERS, ONLY_A, ONLY_B, IGNORED = range(5)
"""Codes in `Comparison.state`."""

UNREADABLE = 5
"""Code of a record whose reading failed; known only once it was tried, so never in `Comparison.state`."""


@dataclass(frozen=True, slots=True)
class Look:
    """How a state looks."""

    name: str
    """In the theme variable (``$state-differs``) and the component class (``trace-list--differs``)."""
    glyph: str
    """One cell."""
    word: str
    """What the glyph means."""
    colour: str
    """Textual's theme variable that colours it unless a theme sets ``state-<name>`` itself."""


_EQUAL = Look("equal", "=", "equal", "foreground-muted")
_DIFFERS = Look("differs", "≠", "differs", "text-error")
_UNPAIRED = "text-warning"

LOOKS = {
    EQUAL: _EQUAL,
    DIFFERS: _DIFFERS,
    ONLY_A: Look("no-partner", "?", "only in A", _UNPAIRED),
    ONLY_B: Look("no-partner", "?", "only in B", _UNPAIRED),
    IGNORED: Look("ignored", "·", "ignored", "foreground-muted"),
    UNREADABLE: Look("unreadable", "!", "unreadable", "text-accent"),
}
"""Look of each code."""

LEGEND = (
    ("=", "equal: same dtype, shape and bits"),
    ("≠", "differs: in at least one bit"),
    ("?", "only in A, or only in B"),
    ("·", "ignored: not compared (--ignore, before --from, or an unused generator)"),
    ("!", "unreadable: reading it failed, the reason stands beside it"),
)
"""Glyph and meaning, for the help."""
