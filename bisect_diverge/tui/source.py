"""The source line behind a record, and the command that opens it in an editor."""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Site:
    """Where a module was called."""

    path: Path
    """File, as recorded."""
    line: int
    """Line, from 1."""

    @classmethod
    def parse(cls, text: str) -> Site | None:
        """Return the site that ``file:line`` names; None where there is none."""
        path, _, line = text.rpartition(":")
        return cls(Path(path), int(line)) if path and line.isdecimal() else None

    def text(self) -> str | None:
        """Return the line as the file has it now; None if the file or the line is not there."""
        try:
            with self.path.open(encoding="utf-8", errors="replace") as file:
                lines = itertools.islice(file, self.line - 1, self.line)
                return next(lines, "").strip() or None
        except (OSError, ValueError):
            return None


def editor_command(site: Site, environment: Mapping[str, str] | None = None) -> list[str]:
    """Return the command that opens a site in the user's editor, at its line if we know how to say so."""
    variables = os.environ if environment is None else environment
    command = shlex.split(variables.get("VISUAL") or variables.get("EDITOR") or "vi")
    place = f"{site.path}:{site.line}"
    name = Path(command[0]).name
    if name in ("code", "codium", "cursor", "windsurf"):
        return [*command, "--wait", "--goto", place]
    if name in ("hx", "helix", "subl", "zed"):
        return [*command, place]
    if name in ("vi", "vim", "nvim", "view", "nano", "emacs", "emacsclient", "micro", "kak", "joe", "ne"):
        return [*command, f"+{site.line}", str(site.path)]
    return [*command, str(site.path)]
