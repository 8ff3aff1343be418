"""The library's one door: `record` a block of code."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bisect_diverge.errors import OutputExistsError, UsageError


@contextmanager
def record(
    path: str | os.PathLike[str],
    *,
    capture: str = "full",
    keep: str | int = "4G",
    steps: tuple[int, int | None] | None = None,
    modules: Sequence[str] = (),
    data: Sequence[str | os.PathLike[str]] = (),
    force: bool = False,
) -> Iterator[None]:
    """Record everything that models and optimizers do inside the block.

    Nothing is computed otherwise than without it: parameters end with the same bits.

    Args:
        path: Directory of the run; it must not exist.
        capture: ``"full"`` keeps tensors within the budget, ``"digest"`` keeps digests only.
        keep: Budget for tensor bytes of one rank, a number of bytes or a text such as ``"4G"``.
        steps: Steps ``(first, end)`` to record, `end` excluded and None for all that follow.
        modules: Globs of FQNs to record; empty: all.
        data: Files and directories whose content belongs to the run's environment.
        force: Replace a run that is there.

    Raises:
        OutputExistsError: if there is something at `path` and `force` is false.
        UsageError: if an argument makes no sense, or this process is being recorded already.
    """
    from bisect_diverge.environment.read import read_outside
    from bisect_diverge.model.run import Capture, RecordOptions, State
    from bisect_diverge.record.install import current, finish, install
    from bisect_diverge.record.options import check_steps, parse_size
    from bisect_diverge.record.process import say
    from bisect_diverge.record.settings import Settings

    if current() is not None:
        raise UsageError("this process is being recorded already", hint="leave out one of the two recordings")
    if capture not in set(Capture):
        raise UsageError(f"capture is 'full' or 'digest', not {capture!r}")
    options = RecordOptions(
        capture=Capture(capture),
        keep_bytes=parse_size(str(keep)),
        steps=steps,
        modules=tuple(modules),
    )
    if steps is not None:
        check_steps(*steps)
    check_paths(data)
    run = prepare_directory(Path(path), force=force)  # last of the checks: it may remove an older run
    outside, patch = read_outside(Path.cwd(), sys.argv, [Path(entry) for entry in data], (), ())
    if patch is not None:
        (run / "source.patch").write_bytes(patch)
    recorder, patches = install(Settings(run=str(run), options=options, outside=outside))
    state = State.INTERRUPTED
    try:
        yield
        state = State.COMPLETE
    finally:
        opened = recorder.opened or not recorder.active  # not active: why is said already
        finish(recorder, patches, state)
        if not opened:
            say(f"nothing was recorded in {run}: no torch module was called")


def prepare_directory(path: Path, *, force: bool) -> Path:
    """Make the directory of a new run and return its absolute path.

    Only a directory that holds nothing but a recording is replaced, however much force is asked for.

    Raises:
        OutputExistsError: if something is there and `force` is false, or what is there is no recording.
        UsageError: if it cannot be made.
    """
    path = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links that the user means to keep
    try:
        if path.exists() and not (path.is_dir() and not any(path.iterdir())):
            if not force:
                raise OutputExistsError(
                    f"{path} exists already",
                    hint="choose another name, or replace it with --force",
                )
            if not path.is_dir() or not _is_recording(path):
                raise OutputExistsError(
                    f"{path} is there and is no recording; --force replaces recordings only",
                    hint="choose another name, or remove it yourself",
                )
            _refuse_live(path)
            shutil.rmtree(path)
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot make {path}: {error.strerror or error}", hint="choose another directory with -o"
        ) from error
    return path


_OURS = re.compile(r"rank-\d+(\.\d+)?\.h5|stdout\.log|source\.patch|trials")


def _is_recording(path: Path) -> bool:
    """Whether a directory holds only what a recording puts there."""
    names = [entry.name for entry in path.iterdir()]
    # A recording that ended before the first module call has no rank's file, but it has no trials either.
    has_ranks = any(name.endswith(".h5") for name in names)
    return all(_OURS.fullmatch(name) and (has_ranks or name != "trials") for name in names)


def _refuse_live(path: Path) -> None:
    """Refuse to replace a run that is being recorded at this moment.

    Raises:
        OutputExistsError: if its writer is alive.
    """
    from bisect_diverge.errors import RunError
    from bisect_diverge.model.run import State
    from bisect_diverge.store.reader import RunFile

    for file in path.glob("rank-*.h5"):
        try:
            opened = RunFile(file)
        except RunError:  # a damaged one may be replaced
            continue
        status = opened.status
        opened.close()
        if status.state is State.IN_PROGRESS:
            raise OutputExistsError(
                f"{path} is being recorded right now, by process {status.pid} on {status.host}",
                hint="wait for it, end it, or choose another name",
            )


def check_paths(paths: Sequence[str | os.PathLike[str]]) -> None:
    """Refuse declared files and directories that are not there.

    Raises:
        UsageError: if one is missing.
    """
    for path in paths:
        if not Path(path).exists():
            raise UsageError(f"no such file or directory: {path}", hint="--data and --features name what is there")


def remove_run(path: Path) -> None:
    """Remove the directory of a run in which nothing was recorded; what the script has put there stays."""
    for name in ("stdout.log", "source.patch"):
        with contextlib.suppress(OSError):
            (path / name).unlink()
    with contextlib.suppress(OSError):
        path.rmdir()
