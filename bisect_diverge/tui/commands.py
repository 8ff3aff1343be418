"""The command lines that print what the screen shows: nothing is on it that a command cannot print."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from bisect_diverge.model.address import Address


@dataclass(frozen=True, slots=True)
class Commands:
    """How the two runs were given on the command line."""

    run_a: str
    """Path of the baseline."""
    run_b: str
    """Path of the candidate."""
    options: tuple[str, ...] = ()
    """Options that change the comparison: ``("--from", "3")``."""
    searched: tuple[str, ...] = ()
    """Options of a search, each in one word: ``("--clamp", "--repeat=3")``."""

    def diff(self) -> str:
        """Return the command that prints the comparison."""
        return shlex.join(["bd", "diff", self.run_a, self.run_b, *self.options])

    def show(self, address: Address, *, in_a: bool) -> str:
        """Return the command that prints one tensor of one run."""
        return shlex.join(["bd", "show", self.run_a if in_a else self.run_b, str(address)])

    def bisect(self) -> tuple[str, ...]:
        """Return the command that searches the cause, as words."""
        return ("bisect", self.run_a, self.run_b, *self.asked())

    def asked(self) -> tuple[str, ...]:
        """Return the options of the search, each in one word: its own, and the offset of the comparison."""
        options = self.options
        at = options.index("--offset-b") if "--offset-b" in options else len(options)
        return (*(["=".join(options[at : at + 2])] if at < len(options) else []), *self.searched)
