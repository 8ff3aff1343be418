"""The Python files of a script that is in no repository: itself and, one by one, the modules beside it that it imports.

Found by reading the files, not by running them: what is imported under a name that is made up at run time is not seen.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST_FILE = 1 << 20
"""Bytes; a larger file is not looked into, and is not kept."""
MOST_FILES = 1000


def local_files(script: Path, cwd: Path, most: int = MOST_FILES) -> tuple[Path, ...]:
    """Return a script and the files beside it or below a directory that it imports, and those that these import.

    Args:
        script: The script.
        cwd: Working directory.
        most: Files after which no more are looked for.
    """
    roots = tuple(dict.fromkeys((script.parent, cwd)))
    found: dict[Path, None] = {script: None}
    todo = [script]
    while todo and len(found) < most:
        for path in _imported(todo.pop(), roots):
            if path not in found and any(path.is_relative_to(root) for root in roots):
                found[path] = None
                todo.append(path)
    return tuple(found)


def _imported(path: Path, roots: tuple[Path, ...]) -> Iterator[Path]:
    try:
        if path.stat().st_size > LARGEST_FILE:
            return
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files(alias.name.split("."), roots)
        elif isinstance(node, ast.ImportFrom):
            base = roots if not node.level else (_up(path.parent, node.level - 1),)
            words = node.module.split(".") if node.module else []
            for alias in node.names:
                yield from _files([*words, alias.name], base)


def _up(folder: Path, levels: int) -> Path:
    for _ in range(levels):
        folder = folder.parent
    return folder


def _files(words: list[str], roots: tuple[Path, ...]) -> Iterator[Path]:
    """Yield the files that importing a dotted name loads: of every package on the way its ``__init__.py``."""
    for root in roots:
        folder, hit = root, False
        for word in words:
            module, package = folder / f"{word}.py", folder / word / "__init__.py"
            folder = folder / word
            for path in (module, package):
                if path.is_file():
                    hit = True
                    yield path
        if hit:
            return
