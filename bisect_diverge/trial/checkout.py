"""A directory with the source of a trial in it, and links to everything else that lies in the user's."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from bisect_diverge.environment.git import Git, GitError
from bisect_diverge.environment.source import CODE
from bisect_diverge.trial import lfs
from bisect_diverge.trial.packages import CannotBuildError
from bisect_diverge.trial.sources import SECONDS, Index, Sources, State

FOLDER = "source"
"""Folder of a search that holds the checkouts, beside the folders of its trials."""
LEVELS = 2
"""Of so many folders above the directory what lies beside it is linked too: scripts read ``../data/train.npy``."""
MOST_BESIDE = 2000
"""A folder with more in it is not looked into."""
_NEVER = frozenset({".git", "__pycache__"})
"""Not linked: the checkout has a repository of its own, and byte code belongs to other files."""


@dataclass(frozen=True, slots=True)
class Content:
    """The recorded content of one file."""

    value: str
    """Its hash."""
    path: Path
    """Where it lies now."""


def check_out(sources: Sources, tree: str, state: State, files: Mapping[str, Content | None]) -> Path:
    """Return a directory with a tree in it, made when it is first asked for.

    Ignored and other untracked files of the user's are linked in, but no code that the run did not have.

    Args:
        sources: Where the tree is from.
        tree: Object name.
        state: What ``HEAD`` of the checkout names.
        files: Further files: path to content; None: there is none. They are no part of the tree.

    Raises:
        CannotBuildError: if it cannot be made.
    """

    def fill(target: Path) -> None:
        with sources.index() as git:
            _lay_out(git, tree, target)
            objects = (str(sources.scratch / "objects"), *sources.alternates)
            _own_repository(target, state, objects, Path(git.variables["GIT_INDEX_FILE"]))
        _submodules(sources, tree, target, files)
        _place(target, files)
        inside = sources.path_of(".")
        if inside:
            (target / inside).mkdir(parents=True, exist_ok=True)
        git = sources.runner()
        others = git.names("ls-files", "--others", "--directory", "-z")
        unknown = git.names("ls-files", "--others", "--exclude-standard", "-z")
        gone = {path for path, content in files.items() if content is None}
        _link(sources.top, target, others, {*gone, *(path for path in unknown if PurePosixPath(path).suffix in CODE)})

    try:
        return _made(sources.top, sources.scratch, f"{tree} {state.commit}", files, fill)
    except GitError as error:
        raise CannotBuildError(str(error)) from error


def mirror(top: Path, scratch: Path, files: Mapping[str, Content | None], inside: str = ".") -> Path:
    """Return a directory in which some files of another have other contents; the rest is linked.

    Code is copied, not linked: Python looks for modules beside the file that a link leads to.

    Args:
        top: The directory of the user's.
        scratch: Where it is made.
        files: Path below `top` to content; None: there is none.
        inside: Folder below `top` that a command runs in: no link, from which ``..`` would lead to the user's.
    """

    def fill(target: Path) -> None:
        _place(target, files)
        (target / inside).mkdir(parents=True, exist_ok=True)
        gone = {path for path, content in files.items() if content is None}
        real = {inside, *gone, *(str(parent) for path in (inside, *files) for parent in PurePosixPath(path).parents)}
        _link(top, target, [entry.name for entry in os.scandir(top)], gone, real, copy=True)

    return _made(top, scratch, f"{top} {inside}", files, fill)


def above(top: Path, place: Path) -> dict[str, str]:
    """Return the folders above the user's directory to those above the one that takes its place."""
    pairs = zip(top.parents[:LEVELS], place.parents, strict=False)
    return {str(old): str(new) for old, new in pairs}


def _made(
    top: Path, scratch: Path, key: str, files: Mapping[str, Content | None], fill: Callable[[Path], None]
) -> Path:
    rows = [f"{path} {content.value if content else ''}" for path, content in sorted(files.items())]
    name = hashlib.blake2b("\n".join([key, *rows]).encode(errors="surrogateescape"), digest_size=8).hexdigest()
    place, inner = scratch / name, Path(*top.parts[1:][-LEVELS:])
    if place.exists():
        return place / inner
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=scratch, prefix="making-", ignore_cleanup_errors=True) as folder:
            whole = Path(folder) / "tree"
            (whole / inner).mkdir(parents=True)
            fill(whole / inner)
            _beside(top, whole / inner, scratch)
            try:
                whole.rename(place)
            except OSError:
                if not place.exists():  # else another trial has made it at the same time
                    raise
    except OSError as error:
        raise CannotBuildError(f"the source cannot be laid out in {scratch}: {error.strerror}") from error
    return place / inner


def _beside(top: Path, target: Path, scratch: Path) -> None:
    """Link what lies beside the user's directory, and beside the folder that it lies in.

    A link to that directory leads to the one that takes its place, or it would bring the present source along.
    """
    real, held = os.path.realpath(top), os.path.realpath(scratch)
    origin, place = top, target
    for _ in top.parents[:LEVELS]:
        own, origin, place = origin.name, origin.parent, place.parent
        try:
            entries = list(os.scandir(origin))
        except OSError:
            continue
        above_all = os.path.realpath(origin)
        for entry in entries if len(entries) <= MOST_BESIDE else ():
            name = entry.name
            leads = os.path.realpath(entry.path) if entry.is_symlink() else f"{above_all.rstrip('/')}/{name}"
            if f"{leads}/".startswith(f"{real}/"):
                if name != own:
                    (place / name).symlink_to(os.path.relpath(target / os.path.relpath(leads, real), place))
            elif not any(f"{path}/".startswith(f"{leads}/") for path in (real, held)):
                (place / name).symlink_to(origin / name)


def _own_repository(target: Path, state: State, objects: Iterable[str], index: Path) -> None:
    """Make a repository in a checkout: a script that asks for its commit is answered, and cannot touch the user's."""
    git = target / ".git"
    for folder in ("refs/heads", "objects/info"):
        (git / folder).mkdir(parents=True)
    (git / "HEAD").write_text(f"{state.commit or 'ref: refs/heads/none'}\n", encoding="utf-8")
    (git / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n", encoding="utf-8")
    (git / "objects/info/alternates").write_text("".join(f"{place}\n" for place in objects), encoding="utf-8")
    shutil.copyfile(index, git / "index")


def _submodules(sources: Sources, tree: str, target: Path, files: Iterable[str]) -> None:
    """Fill the folders of submodules: by a link where the right commit lies there, else with that commit's files.

    Raises:
        GitError: if a submodule does not have the commit.
    """
    for path, commit in sources.links(tree).items():
        origin, place = sources.top / path, target / path
        if not (origin / ".git").exists():
            continue  # it was not there when the run was recorded, or nobody can tell
        git = Git(origin, seconds=SECONDS)
        if place.is_dir():
            place.rmdir()
        changed = git.names("status", "--porcelain", "-z", "--untracked-files=no")
        inside = any(file.startswith(f"{path}/") for file in files)
        if git.text("rev-parse", "HEAD") == commit and not changed and not inside:
            place.symlink_to(origin)
            continue
        others = git.names("ls-files", "--others", "--directory", "-z")
        with Index(git, sources.scratch):
            _lay_out(git, commit, place)
        _link(origin, place, others, [file.removeprefix(f"{path}/") for file in files if file.startswith(f"{path}/")])


def _lay_out(git: Git, tree: str, target: Path) -> None:
    git.run("read-tree", tree)
    git.run(*lfs.AS_POINTERS, "checkout-index", "--all", "--force", f"--prefix={target}/")
    lfs.fill_in(git, target, git.names("ls-files", "-z"))


def _place(target: Path, files: Mapping[str, Content | None]) -> None:
    for path, content in files.items():
        place = target / path
        if content is None:
            place.unlink(missing_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        shutil.copyfile(content.path, place)
        if (content.path.stat().st_mode & 0o100) != 0:
            place.chmod(0o755)


def _link(
    top: Path,
    target: Path,
    paths: Iterable[str],
    left_out: Iterable[str],
    real: Iterable[str] = (),
    *,
    copy: bool = False,
) -> None:
    """Link what is not there yet.

    Args:
        top: The user's directory.
        target: The directory that is filled.
        paths: What to link, relative to `top`.
        left_out: Files not to link; a folder with one of them in it is made, and what else it holds is linked.
        real: Folders to be made in any case.
        copy: Copy code instead of linking it.
    """
    out = set(left_out)
    folders = {str(parent) for path in out for parent in PurePosixPath(path).parents} | set(real)
    todo = [path.rstrip("/") for path in paths if path]
    while todo:
        path = todo.pop()
        place, origin = target / path, top / path
        if path in out or not _NEVER.isdisjoint(PurePosixPath(path).parts) or not os.path.lexists(origin):
            continue
        if _is_folder(origin) and (path in folders or _is_folder(place)):
            place.mkdir(parents=True, exist_ok=True)
            todo += [f"{path}/{entry.name}" for entry in os.scandir(origin)]
        elif not os.path.lexists(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            if copy and origin.suffix in CODE and origin.is_file():
                shutil.copyfile(origin, place)
            else:
                place.symlink_to(origin)


def _is_folder(path: Path) -> bool:
    """Whether a path is a folder, and not a link to one: what is made in that would be made in the user's."""
    return path.is_dir() and not path.is_symlink()
