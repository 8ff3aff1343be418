"""Runs git so that nothing of the user's repository is written, within a time limit."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

ALTERNATES = "GIT_ALTERNATE_OBJECT_DIRECTORIES"
"""Variable that names object stores which are only read."""
SECONDS = 5.0
"""Time that all git commands of one reading may take; usually it is 0.05."""


class GitError(Exception):
    """A git command failed or took too long."""


@dataclass(slots=True)
class Git:
    """Runs git within one time limit."""

    cwd: Path
    head: str = ""
    """The commit; empty before the first."""
    variables: dict[str, str] = field(default_factory=dict)
    seconds: float = field(default_factory=lambda: SECONDS)
    """Time that all commands together may take."""
    deadline: float = 0.0
    """When that time is up; set by the first command."""

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Return a command's output.

        Raises:
            GitError: if it fails or time is up.
        """
        self.deadline = self.deadline or time.monotonic() + self.seconds
        variables = {
            **os.environ,
            "LC_ALL": "C",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_LFS_SKIP_SMUDGE": "1",
            **self.variables,
        }
        name = next((word for word in arguments if "-" not in word[:1] and "=" not in word), "")
        command = [
            "git",
            "-c",
            "core.fsmonitor=false",
            "-c",
            "core.safecrlf=false",
            "-c",
            "core.quotePath=false",
        ]
        try:
            done = subprocess.run(
                [*command, *arguments],
                cwd=self.cwd,
                env=variables,
                input=stdin,
                capture_output=True,
                timeout=max(0.01, self.deadline - time.monotonic()),
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise GitError(f"git {name} took longer than {self.seconds:g} s") from error
        except (OSError, ValueError) as error:
            raise GitError(f"git {name}: {error}") from error
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").splitlines() or [f"status {done.returncode}"]
            raise GitError(f"git {name}: {lines[0]}")
        return done.stdout

    def text(self, *arguments: str) -> str:
        """Return a command's output as one text."""
        return os.fsdecode(self.run(*arguments)).removesuffix("\n")

    def names(self, *arguments: str) -> list[str]:
        """Return a command's output as texts, of which each ends with a zero byte."""
        return [name for name in os.fsdecode(self.run(*arguments)).split("\0") if name]

    def place(self, name: str) -> Path:
        """Return where the repository has something of its own: ``index``, ``objects``."""
        return self.cwd / self.text("rev-parse", "--git-path", name)

    def apart(self) -> Git:
        """Return git without the user's objects: one that is there is not written anew, but its time would be."""
        return replace(self, variables={n: v for n, v in self.variables.items() if n != ALTERNATES})
