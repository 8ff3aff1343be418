"""Runs git so that nothing of the user's repository is written, within a time limit."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

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
            **self.variables,
        }
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
            raise GitError(f"git {arguments[0]} took longer than {self.seconds:g} s") from error
        except (OSError, ValueError) as error:
            raise GitError(f"git {arguments[0]}: {error}") from error
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").splitlines() or [f"status {done.returncode}"]
            raise GitError(f"git {arguments[0]}: {lines[0]}")
        return done.stdout

    def text(self, *arguments: str) -> str:
        """Return a command's output as one text."""
        return os.fsdecode(self.run(*arguments)).removesuffix("\n")
