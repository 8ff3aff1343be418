"""The releases of a package between two versions, as the index has them."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import lru_cache

from packaging.version import InvalidVersion, Version

from bisect_diverge.errors import ReplayError
from bisect_diverge.trial.requirements import ordered

SECONDS = 60
_LISTED = re.compile(r"^Available versions: (.+)$", re.MULTILINE)


def between(name: str, a: str, b: str, interpreter: str) -> list[str]:
    """Return the versions from A's to B's, both included, in this order; pre-releases are left out.

    Args:
        name: The package.
        a: A's version.
        b: B's version.
        interpreter: Its pip is asked first: it lists what runs there.

    Raises:
        ReplayError: if nobody can be asked, or the two cannot be compared.
    """
    try:
        low, high = sorted((Version(a), Version(b)))
    except InvalidVersion as error:
        raise ReplayError(f"{name} {a} and {b} are no versions that can be ordered") from error
    inside = [v for v in listed(name, interpreter) if low < Version(v) < high and not Version(v).is_prerelease]
    way = ordered({*inside, a, b})
    return way if way[0] == a else way[::-1]


@lru_cache(maxsize=64)
def listed(name: str, interpreter: str) -> tuple[str, ...]:
    """Return the versions of a package that the index has for an interpreter.

    Raises:
        ReplayError: if it does not answer.
    """
    trouble = ""
    for program in dict.fromkeys((interpreter, sys.executable)):
        words = [program, "-m", "pip", "index", "versions", name, "--disable-pip-version-check"]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            trouble = trouble or f"{type(error).__name__}"
            continue
        match = _LISTED.search(done.stdout)
        if match:
            return tuple(version for version in match[1].split(", ") if _is_version(version))
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        trouble = trouble or (lines[-1].removeprefix("ERROR: ") if lines else "pip is not there")
    raise ReplayError(
        f"the releases of {name} between the two are not known: {trouble}",
        hint="they are asked of pip's index: pip index versions " + name,
    )


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True
