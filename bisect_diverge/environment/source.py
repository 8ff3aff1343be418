"""Source: the commit, what is not committed, and the content of every module that was imported."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from bisect_diverge.environment.git import ALTERNATES, Git, GitError
from bisect_diverge.environment.hashing import hash_bytes, hash_file
from bisect_diverge.environment.knobs import NOT_READ, setting
from bisect_diverge.environment.local import local_files
from bisect_diverge.environment.patch import mask_patch
from bisect_diverge.model.environment import Layer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bisect_diverge.model.environment import Setting

PATCH_BYTES = 16 << 20
"""Largest patch that is kept, and searched for credentials."""
UNTRACKED_BYTES = 1 << 20
"""Largest untracked file that counts as source."""
UNTRACKED_FILES = 5000

CODE = frozenset(
    {
        ".py",
        ".pyi",
        ".pyx",
        ".pxd",
        ".c",
        ".cc",
        ".cpp",
        ".cxx",
        ".h",
        ".hpp",
        ".cu",
        ".cuh",
        ".hip",
        ".rs",
        ".sh",
    }
)
"""Suffixes of untracked files that count as source. Others are outputs of runs more often than inputs; they
count when the command names them."""

SKIPPED_FOLDERS = frozenset(
    {
        "__pycache__", "node_modules", "site-packages", "dist-packages", "wandb", "mlruns", "lightning_logs",
        "outputs", "multirun", "torch_compile_debug", ".ipynb_checkpoints", ".venv", "venv", ".tox", ".nox",
    }
)  # fmt: skip
"""Folders whose untracked files are never source: packages, and copies that trackers make of it."""


SUBMODULE = "submodule:"
"""How the knob of a submodule begins in which something is not committed."""


def read_outside(cwd: Path, command: Sequence[str]) -> tuple[list[Setting], bytes | None]:
    """Return the state of the working directory's repository and the patch of what is not committed.

    Nothing of the user's is written: the changes are added to a copy of the index, their contents to a
    temporary object store.
    """
    if shutil.which("git") is None:
        return [_setting("repository", "none"), *_script(cwd, command)], None
    git = Git(cwd)
    try:
        top = git.text("rev-parse", "--show-toplevel")
    except GitError as error:
        unknown = "not a git repository" not in str(error) and "work tree" not in str(error)
        value = f"{NOT_READ}: {error}" if unknown else "none"
        return [_setting("repository", value), *_script(cwd, command)], None
    settings = [_setting("repository", "git")]
    try:
        git.cwd = Path(top)
        settings += _submodules(git)
        state = _changes(git, _named_files(cwd, Path(top), command))
    except (GitError, OSError) as error:
        settings += [_setting("commit", git.head or "none"), _setting("uncommitted", f"{NOT_READ}: {error}")]
        return settings, None
    settings.append(_setting("commit", git.head or "none"))
    if not state.patch:
        settings += [_setting("uncommitted", "none"), _setting("tree", state.tree, resolved=True)]
        return settings, None
    if len(state.patch) > PATCH_BYTES:
        settings.append(_setting("uncommitted", hash_bytes(state.patch)))
        settings.append(_setting("uncommitted.patch", f"not kept: {len(state.patch)} bytes", resolved=True))
        return settings, None
    masked = mask_patch(state.patch)
    settings.append(_setting("uncommitted", hash_bytes(masked.patch)))
    settings.append(_setting("uncommitted.files", ", ".join(state.files), resolved=True))
    if masked.lines:
        usable = "the patch still applies" if masked.applies else "the patch no longer applies"
        settings.append(_setting("uncommitted.masked", f"{masked.lines} lines; {usable}", resolved=True))
    else:
        settings.append(_setting("tree", state.tree, resolved=True))
    return settings, masked.patch


def script_of(cwd: Path, command: Sequence[str]) -> Path | None:
    """Return the Python file that a command runs: the first that exists, or the module after ``-m``."""
    for index, token in enumerate(command):
        if token == "-m" and index + 1 < len(command):
            inner = cwd.joinpath(*command[index + 1].split("."))
            for candidate in (inner / "__main__.py", inner.with_name(f"{inner.name}.py")):
                if candidate.is_file():
                    return candidate
        elif token.endswith(".py") and (cwd / token).is_file():
            return cwd / token
    return None


def _script(cwd: Path, command: Sequence[str]) -> Iterator[Setting]:
    """Yield the content of the script and of its own modules: all that is known where there is no repository."""
    try:
        script = script_of(cwd, command)
        if script is None:
            return
        by_its_path = not script.is_relative_to(cwd)  # ``/code/train.py``; ``../code/train.py`` begins with cwd here
        for path in local_files(Path(os.path.normpath(script)), cwd):
            relative = os.path.relpath(path, cwd)
            if not SKIPPED_FOLDERS.intersection(PurePosixPath(relative).parts):
                name = str(path) if by_its_path and not path.is_relative_to(cwd) else relative
                yield _setting(f"file:{name}", hash_file(path))
    except (OSError, ValueError):
        return


def _setting(knob: str, value: str, *, resolved: bool = False) -> Setting:
    return setting(Layer.SOURCE, knob, value, resolved=resolved)


@dataclass(slots=True)
class _State:
    """The working tree as it is."""

    tree: str
    """Object name of its tree."""
    patch: bytes
    """What leads from the commit to it."""
    files: list[str]
    """Files in the patch, each with the letter that git gives the change."""


def _changes(git: Git, named: set[str]) -> _State:
    """Return the working tree as if everything in it that is source had been committed."""
    try:
        git.head = git.text("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    except GitError:
        git.head = ""
    index, objects = git.place("index"), git.place("objects")
    untracked = _untracked(git, named)
    with tempfile.TemporaryDirectory(prefix="bisect-diverge-") as folder:
        scratch = Path(folder)
        (scratch / "objects").mkdir()
        if index.exists():
            shutil.copyfile(index, scratch / "index")
        others = os.environ.get(ALTERNATES)
        git.variables = {
            "GIT_INDEX_FILE": str(scratch / "index"),
            "GIT_OBJECT_DIRECTORY": str(scratch / "objects"),
            ALTERNATES: str(objects) + (f":{others}" if others else ""),
        }
        git.run("add", "--update", "--ignore-errors", ".")
        if untracked:
            paths = b"\0".join(os.fsencode(path) for path in untracked)
            git.run("add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul", stdin=paths)
        tree = git.apart().text("write-tree", "--missing-ok")
        base = git.head or git.text("hash-object", "-t", "tree", os.devnull)
        patch = git.run(
            "diff-index", "--cached", "--patch", "--binary", "--full-index", "--no-renames", "--no-color",
            "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", base,
        )  # fmt: skip
        names = git.text("diff-index", "--cached", "--name-status", "--no-renames", "-z", base).split("\0")
    files = [f"{letter} {name}" for letter, name in zip(names[::2], names[1::2], strict=False)]
    return _State(tree, patch, files)


def _submodules(git: Git) -> Iterator[Setting]:
    """Yield the hash of what is changed and not committed in each submodule in which something is.

    Raises:
        GitError: if git does not tell.
    """
    if not (git.cwd / ".gitmodules").is_file():
        return
    for row in git.names("status", "--porcelain=v2", "-z", "--untracked-files=no", "--ignore-submodules=untracked"):
        fields = row.split(" ", 8)
        if fields[0] == "1" and fields[2][:1] == "S" and fields[2][2] == "M":
            inner = replace(git, cwd=git.cwd / fields[8])
            patch = inner.run("diff", "--binary", "--no-color", "--no-ext-diff", "--no-textconv", "HEAD")
            yield _setting(f"{SUBMODULE}{fields[8]}", hash_bytes(patch))


def _untracked(git: Git, named: set[str]) -> list[str]:
    """Return the untracked files that are source: code by its suffix, anything that the command names."""
    found = []
    environments: dict[PurePosixPath, bool] = {}

    def packaged(folder: PurePosixPath) -> bool:
        if folder not in environments:
            own = (git.cwd / folder / "pyvenv.cfg").exists() or folder.name in SKIPPED_FOLDERS
            environments[folder] = own or (folder != folder.parent and packaged(folder.parent))
        return environments[folder]

    for path in os.fsdecode(git.run("ls-files", "--others", "--exclude-standard", "-z")).split("\0"):
        pure = PurePosixPath(path)
        if not path or (pure.suffix not in CODE and path not in named) or packaged(pure.parent):
            continue
        full = git.cwd / path
        if full.is_file() and full.stat().st_size <= UNTRACKED_BYTES:
            found.append(path)
    return sorted(found)[:UNTRACKED_FILES]


def _named_files(cwd: Path, top: Path, command: Sequence[str]) -> set[str]:
    """Return the files below `top` that a command names, relative to it: ``--config new.yaml``."""
    found = set()
    for token in command:
        try:
            path = (cwd / token.rpartition("=")[2]).resolve()
            if path.is_file():
                found.add(path.relative_to(top.resolve()).as_posix())
        except (OSError, ValueError):
            continue
    return found
