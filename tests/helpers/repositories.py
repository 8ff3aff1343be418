"""Git repositories for tests, untouched by the configuration of whoever runs them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

CONFIGURATION = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
"""Variables that keep git from reading any configuration but the repository's."""
NAME = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
"""Options that name a committer."""


def git(folder: Path, *arguments: str) -> str:
    """Run git and return what it prints."""
    variables = {**os.environ, **CONFIGURATION}
    done = subprocess.run(["git", *arguments], cwd=folder, env=variables, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def write(folder: Path, **files: str) -> None:
    """Write files; two underscores in a name without slash stand for one, and a name without suffix is Python's."""
    for name, text in files.items():
        path = folder / (name if "/" in name else name.replace("__", "/"))
        path = path if path.suffix or name.startswith(".") else path.with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def commit(folder: Path, message: str = "more", **files: str) -> str:
    """Write files, commit everything, and return the commit."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / ".git").exists():
        git(folder, "init", "-q")
    write(folder, **files)
    git(folder, "add", ".")
    git(folder, *NAME, "commit", "-qm", message)
    return git(folder, "rev-parse", "HEAD")


def everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return time and content of every file of a repository, those of git among them, and what git says of it."""
    found = {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    for words in (("status", "--porcelain"), ("for-each-ref",), ("worktree", "list"), ("count-objects", "-v")):
        found[" ".join(words)] = (0, git(folder, "--no-optional-locks", *words).encode())
    return found
