"""The source of two runs, put together again: every state between A's and B's, and mixtures of their files.

Git writes into an object store and an index of our own; the repositories are only read. (``git worktree add`` would
leave a note of itself in the user's repository until it is pruned, and its ``HEAD`` would be a reference of theirs.)
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bisect_diverge.environment import source
from bisect_diverge.environment.git import ALTERNATES, Git, GitError
from bisect_diverge.environment.hashing import hash_bytes
from bisect_diverge.environment.knobs import NOT_READ
from bisect_diverge.environment.originals import PATCH
from bisect_diverge.model.environment import Layer
from bisect_diverge.trial import lfs
from bisect_diverge.trial.packages import CannotBuildError

if TYPE_CHECKING:
    from bisect_diverge.model.run import RunRecord

SECONDS = 120.0
"""Time that all git commands of one trial may take."""
NONE = "none"
PLAIN = "100644"
"""Mode of an ordinary file."""
LINK = "160000"
"""Mode of a submodule."""
_GONE = f"0 {'0' * 40}"
_VALUE = re.compile(r"(?:[0-7]{6} )?[0-9a-f]{40}(?:[0-9a-f]{24})?")
"""Content of a file: an object of git, after its mode where that is not `PLAIN`."""
_CLAIMED = (Layer.CONFIGURATION, Layer.DATASET, Layer.FEATURES)


@dataclass(frozen=True, slots=True)
class State:
    """The source at some point between A's and B's."""

    name: str
    """For people: the commit, and what was changed since."""
    commit: str
    """The commit; empty before the first."""
    patch: Path | None = None
    """What leads from the commit to it."""


class Sources:
    """The sources of two runs that were recorded in git repositories.

    Args:
        a: The baseline.
        b: The candidate.
        scratch: Directory for objects and indexes.

    Raises:
        CannotBuildError: if the source of one of them cannot be had any more.
    """

    def __init__(self, a: RunRecord, b: RunRecord, scratch: Path) -> None:
        self.a, self.b = a, b
        self.scratch = scratch
        self.top = _top(Path(a.cwd)) or _nothing(a)
        """The working tree in which A was recorded."""
        tops = [self.top, *([other] if (other := _top(Path(b.cwd))) else [])]
        (scratch / "objects").mkdir(parents=True, exist_ok=True)
        places = [str(Git(top).place("objects")) for top in dict.fromkeys(tops)]
        self._variables = {
            "GIT_OBJECT_DIRECTORY": str(scratch / "objects"),
            ALTERNATES: os.pathsep.join(places),
        }
        self.alternates = places
        """Object stores of the user's repositories."""
        for record in (a, b):
            self._must_have(_state(record).commit)
        self.states = self._line(_state(a), _state(b))
        """From A's to B's: every commit between them where one leads to the other."""
        self._trees: dict[State, str] = {}
        self._listed: dict[str, tuple[dict[str, str], dict[str, str]]] = {}
        self._brought: dict[str, str | None] | None = None
        self._unknown: dict[str, str] | None = None
        self._claimed = {path for record in (a, b) for path in (*self._names(record, _CLAIMED), *self._written(record))}

    def tree(self, state: State) -> str:
        """Return the tree of a state.

        Raises:
            CannotBuildError: if it cannot be made.
        """
        if state not in self._trees:
            self._trees[state] = self._made(state)
        return self._trees[state]

    def listed(self, tree: str) -> dict[str, str]:
        """Return path and object name of everything in a tree; the object of a submodule is a commit: `links`."""
        return self._contents(tree)[0]

    def links(self, tree: str) -> dict[str, str]:
        """Return path and commit of the submodules in a tree."""
        return self._contents(tree)[1]

    def explains(self, name: str, values: tuple[str | None, str | None]) -> bool:
        """Return whether a file with these contents in A and B is what the two trees make of it.

        It is if one of them has it, or if a submodule had it as its commit does.

        Args:
            name: The file, named relative to the working directory, or absolute.
            values: Hashes of its content; None: it was not loaded.
        """
        path = self.path_of(name)
        trees = [self.tree(state) for state in (self.states[0], self.states[-1])]
        if any(path in self.listed(tree) for tree in trees):
            return True
        pairs = zip(trees, values, strict=True)
        return all(value is None or self._in_submodule(tree, path) == value for tree, value in pairs)

    def has(self, tree: str, name: str, value: str | None = None) -> bool:
        """Return whether a tree has a file, or a submodule in it has it with this content."""
        path = self.path_of(name)
        return path in self.listed(tree) or (value is not None and self._in_submodule(tree, path) == value)

    def named(self, commit: str) -> State:
        """Return the state of a commit of the user's choice.

        Raises:
            CannotBuildError: if there is no such commit.
        """
        try:
            found = self.runner().text("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
        except GitError:
            raise CannotBuildError(f"there is no commit {commit} in the repository {self.top}") from None
        return State(found[:12], found)

    def mixture(self, state: State, files: Mapping[str, str | None]) -> str:
        """Return the tree of a state with some files replaced, and A's of those that belong to another layer.

        Args:
            state: Where most files are from.
            files: Path below the top to its value, as `differing` returns it; None: no such file.
        """
        self.unknown()
        own = self._differing(self.states[0], state)
        back = {path: values[0] for path, values in own.items() if path in self._claimed}
        wanted = back | self._with_its_script() | dict(files)
        if not wanted:
            return self.tree(state)
        for path, value in wanted.items():
            if value is not None and not _VALUE.fullmatch(value):
                raise CannotBuildError(f"{value} is no content of {path}: give @B, or the name of an object of git")
        lines = [f"{_entry(value)}\t{path}" for path, value in wanted.items()]
        with self.index() as git:
            git.run("read-tree", self.tree(state))
            git.run("update-index", "-z", "--index-info", stdin=b"".join(os.fsencode(line) + b"\0" for line in lines))
            return _written(git)

    def differing(self, one: State, other: State) -> dict[str, tuple[str | None, str | None]]:
        """Return the files in which two states differ, with both values: those that belong to no other layer."""
        self.unknown()
        apart = self._claimed | self._with_its_script().keys()
        return {path: values for path, values in self._differing(one, other).items() if path not in apart}

    def unknown(self) -> dict[str, str]:
        """Return the differing files of Git LFS of which a content is not on this machine, each with the reason."""
        if self._unknown is None:
            pairs = self._differing(self.states[0], self.states[-1]).items() if self._has_lfs() else ()
            self._unknown = {path: reason for path, values in pairs if (reason := self._why_unknown(path, values))}
            self._claimed |= self._unknown.keys()
        return self._unknown

    def _has_lfs(self) -> bool:
        trees = {self.tree(state) for state in (self.states[0], self.states[-1])}
        rows = {blob for tree in trees for path, blob in self.listed(tree).items() if lfs.is_attributes(path)}
        return lfs.is_used(self._told("cat-file", "blob", blob) for blob in rows)

    def _why_unknown(self, path: str, values: tuple[str | None, str | None]) -> str:
        for side, value in zip("AB", values, strict=True):
            blob = (value or "").rpartition(" ")[2]
            oid = lfs.oid_of(self._told("cat-file", "blob", blob)) if value and not value.startswith(LINK) else ""
            if oid and lfs.find(oid, self.runner().place("lfs/objects"), self.top / path) is None:
                return f"{side}'s content is kept by Git LFS, and is not on this machine: git lfs fetch --all"
        return ""

    def returned(self) -> dict[str, str]:
        """Return path and name of files that A read, that are in B's tree only: it was untracked, and is not now."""
        last = self._differing(self.states[0], self.states[-1])
        rows = [(s.layer, s.knob.removeprefix("file:")) for s in self.a.environment.settings if "file:" in s.knob]
        names = {self.path_of(name): name for layer, name in rows if layer in _CLAIMED}
        return {path: names[path] for path in names if last.get(path, ("", ""))[0] is None}

    def _with_its_script(self) -> dict[str, str | None]:
        """Return the code that only one of the runs has, where they run different scripts: each keeps its own.

        Which script is run is another unit, and it must be there to be run.
        """
        if self._brought is None:
            self._brought = {}
            if program(self.a) != program(self.b):
                for path, (one, other) in self._differing(self.states[0], self.states[-1]).items():
                    if (one is None) != (other is None) and Path(path).suffix in source.CODE:
                        self._brought[path] = one or other
        return self._brought

    def features(self) -> dict[str, str | None]:
        """Return B's value of each file that was declared as feature logic, as far as its tree has it."""
        names = {*self._names(self.a, (Layer.FEATURES,)), *self._names(self.b, (Layer.FEATURES,))}
        last = self._differing(self.states[0], self.states[-1])
        return {path: last[path][1] for path in names if path in last}

    def path_of(self, name: str) -> str:
        """Return the path below the top of a file that is named relative to the working directory; empty: outside."""
        path = os.path.relpath(os.path.join(os.path.realpath(self.a.cwd), name), self.top)  # noqa: PTH118
        return "" if path.startswith("..") else path

    def name_of(self, path: str) -> str:
        """Return the name of a file relative to the working directory, as records have it; `path_of` backwards."""
        return os.path.relpath(Path(self.top) / path, os.path.realpath(self.a.cwd))

    def runner(self) -> Git:
        """Return git with our object store."""
        return Git(self.top, variables=dict(self._variables), seconds=SECONDS)

    def index(self) -> Index:
        """Return a context in which git has an index of its own."""
        return Index(self.runner(), self.scratch)

    def _contents(self, tree: str) -> tuple[dict[str, str], dict[str, str]]:
        if tree not in self._listed:
            files: dict[str, str] = {}
            links: dict[str, str] = {}
            for row in os.fsdecode(self._told("ls-tree", "-r", "-z", tree)).split("\0"):
                head, _, path = row.partition("\t")
                if path:
                    mode, _, name = head.split()
                    (links if mode == LINK else files)[path] = name
            self._listed[tree] = (files, links)
        return self._listed[tree]

    def _in_submodule(self, tree: str, path: str) -> str:
        """Return the hash of a file as the commit of a submodule has it; empty if none has."""
        for place, commit in self.links(tree).items():
            if path.startswith(f"{place}/"):
                with contextlib.suppress(GitError, OSError):
                    rest = path.removeprefix(f"{place}/")
                    git = Git(self.top / place, seconds=SECONDS)
                    return hash_bytes(git.run("cat-file", "blob", f"{commit}:{rest}"))
        return ""

    def _names(self, record: RunRecord, layers: Iterable[Layer]) -> set[str]:
        """Return the paths of the files that have a row in some layers; code that is read as data is code."""
        found = set()
        for row in record.environment.settings:
            name = row.knob.removeprefix("file:")
            code = row.layer is not Layer.FEATURES and Path(name).suffix in source.CODE
            if row.layer in layers and name != row.knob and not code:
                found.add(self.path_of(name))
        return found - {""}

    def _written(self, record: RunRecord) -> set[str]:
        """Return the paths of what a run wrote: an output that is tracked, or that the command names, is no source."""
        paths = (path for path in record.written if Path(path).suffix not in source.CODE)
        return {self.path_of(os.path.relpath(path, record.cwd)) for path in paths} - {""}

    def _differing(self, one: State, other: State) -> dict[str, tuple[str | None, str | None]]:
        words = ("diff-tree", "-r", "-z", "--no-renames", "--full-index", self.tree(one), self.tree(other))
        fields = os.fsdecode(self._told(*words)).split("\0")
        found = {}
        for row, path in zip(fields[::2], fields[1::2], strict=False):
            mode_a, mode_b, blob_a, blob_b, _ = row.removeprefix(":").split()
            found[path] = (_value(mode_a, blob_a), _value(mode_b, blob_b))
        return found

    def _line(self, a: State, b: State) -> tuple[State, ...]:
        first = [a, *([_bare(a)] if a.patch and a.commit else [])]
        last = [*([_bare(b)] if b.patch and b.commit else []), b]
        if a.commit == b.commit:
            return (a, b)
        between = self._between(a.commit, b.commit)
        if between is None:
            back = self._between(b.commit, a.commit)
            between = None if back is None else [*reversed(back[:-1]), b.commit]
        if between is None:
            return (a, b)
        return tuple(dict.fromkeys((*first, *(State(c[:12], c) for c in between[:-1]), *last)))

    def _between(self, old: str, new: str) -> list[str] | None:
        """Return the commits after `old` up to `new`, the oldest first, along first parents; None: no such way."""
        if not old or not new:
            return None
        told = self._told("log", "--first-parent", "--reverse", "--format=%H %P", f"{old}..{new}")
        rows = [line.split() for line in told.decode().splitlines()]
        return [row[0] for row in rows] if rows and rows[0][1:2] == [old] else None

    def _must_have(self, commit: str) -> None:
        if not commit:  # recorded before the first
            return
        try:
            self.runner().run("cat-file", "-e", f"{commit}^{{commit}}")
        except GitError:
            text = f"commit {commit[:12]} is not in the repository any more (amended, rebased, not fetched?)"
            raise CannotBuildError(text) from None

    def _made(self, state: State) -> str:
        with self.index() as git:
            git.run("read-tree", *([state.commit] if state.commit else ["--empty"]))
            if state.patch is not None:
                _apply(git, state.patch)
            return _written(git)

    def _told(self, *arguments: str) -> bytes:
        try:
            return self.runner().run(*arguments)
        except GitError as error:
            raise CannotBuildError(str(error)) from error


class Index:
    """An index of our own; errors of git are those of a configuration that cannot be made."""

    def __init__(self, git: Git, scratch: Path) -> None:
        self._git = git
        self._folder = tempfile.TemporaryDirectory(dir=scratch, prefix="index-")

    def __enter__(self) -> Git:
        self._git.variables["GIT_INDEX_FILE"] = f"{self._folder.name}/index"
        return self._git

    def __exit__(self, _type: object, error: BaseException | None, _trace: object) -> None:
        self._folder.cleanup()
        if isinstance(error, GitError):
            raise CannotBuildError(str(error)) from error


def _apply(git: Git, patch: Path) -> None:
    """Apply a patch to the index, with copies of the files that it changes in our own store."""
    fields = os.fsdecode(git.run("apply", "--numstat", "-z", str(patch))).split("\0")
    paths = [field.split("\t", 2)[2] for field in fields if field]
    apart = git.apart()
    for row in os.fsdecode(git.run("ls-files", "--stage", "-z", "--", *paths)).split("\0"):
        if row and not row.startswith(LINK):
            content = git.run("cat-file", "blob", row.split()[1])
            apart.run("hash-object", "-w", "--stdin", "--no-filters", stdin=content)
    apart.run("apply", "--cached", "--whitespace=nowarn", str(patch))


def _written(git: Git) -> str:
    return git.apart().text("write-tree", "--missing-ok")


def requested(record: RunRecord, knob: str) -> str:
    """Return the value of a source setting; empty if it has none."""
    return record.environment.value(Layer.SOURCE, knob) or ""


def program(record: RunRecord) -> str:
    """Return the script that a run was started with, as far as it is known."""
    return record.environment.value(Layer.CONFIGURATION, "argv.program") or ""


def _state(record: RunRecord) -> State:
    """Return the state in which a run was recorded.

    Raises:
        CannotBuildError: if what was not committed was not kept as it was.
    """
    commit, changes = requested(record, "commit"), requested(record, "uncommitted")
    commit = "" if commit == NONE else commit
    if changes in (NONE, ""):
        return State(commit[:12], commit)
    trouble = next((text for knob, text in _LOST if requested(record, knob)), "")
    patch = Path(record.place) / PATCH
    if changes.startswith(NOT_READ):
        trouble = f"what was not committed was {changes}"
    elif not trouble and not (record.place and patch.is_file()):
        trouble = f"the uncommitted changes of {record.place or 'the run'} are gone: there is no source.patch"
    if trouble:
        raise CannotBuildError(trouble)
    return State(f"{commit[:12] or 'no commit'} with changes {changes.rpartition(':')[2][:8]}", commit, patch)


_LOST = (
    ("uncommitted.masked", "a line of its uncommitted changes looked like a credential and was not kept"),
    ("uncommitted.patch", "its uncommitted changes were too large to be kept"),
)


def _bare(state: State) -> State:
    return State(state.commit[:12], state.commit)


def _nothing(record: RunRecord) -> Path:
    if shutil.which("git") is None:
        raise CannotBuildError("git is not installed here (there is none on PATH): no recorded commit can be read")
    raise CannotBuildError(f"there is no git repository at {record.cwd} any more")


def _top(cwd: Path) -> Path | None:
    try:
        return Path(Git(cwd).text("rev-parse", "--show-toplevel"))
    except (GitError, OSError):
        return None


def _value(mode: str, blob: str) -> str | None:
    if mode == "000000":
        return None
    return blob if mode == PLAIN else f"{mode} {blob}"


def _entry(value: str | None) -> str:
    if value is None:
        return _GONE
    return value if " " in value else f"{PLAIN} {value}"
