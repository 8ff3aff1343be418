"""Globs of ``--modules`` that fit nothing: mostly a name mistyped."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping

NEAREST = 3
"""Names that are offered instead."""


def unmatched(globs: Iterable[str], names: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield a sentence for each glob that fits no module and no parameter.

    Args:
        globs: Those of ``--modules``.
        names: Roots to the FQNs of their modules and parameters.
    """
    known = {name for below in names.values() for name in below}
    for glob in globs:
        if not any(fnmatch.fnmatchcase(name, glob) for name in known):
            yield f"--modules {glob!r} matches no module of {', '.join(names)}{_nearest(glob, known)}"


def _nearest(glob: str, known: set[str]) -> str:
    from difflib import get_close_matches  # in the script's process: only where it is needed

    close = get_close_matches(glob.strip("*."), sorted(filter(None, known)), NEAREST)
    return f"; nearest: {', '.join(close)}" if close else ""
