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

HIDDEN = "what torch.compile makes of a function that calls a module, and a direct .forward(), are no module calls"
"""What can be behind a run in which none was seen."""


@contextmanager
def record(
    path: str | os.PathLike[str],
    *,
    capture: str = "full",
    keep: str | int = "4G",
    steps: tuple[int, int | None] | None = None,
    modules: Sequence[str] = (),
    step_on: str = "optimizer",
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
        step_on: What ends a step: ``"optimizer"`` each update, ``"forward"`` each forward of the root that is called
            first, ``"manual"`` your calls of `step`.
        data: Files and directories whose content belongs to the run's environment.
        force: Replace a run that is there.

    Raises:
        OutputExistsError: if there is something at `path` and `force` is false.
        UsageError: if an argument makes no sense, or this process is being recorded already.
    """
    from bisect_diverge.environment.originals import keep_originals
    from bisect_diverge.environment.read import read_outside
    from bisect_diverge.model.run import Capture, RecordOptions, State, StepOn
    from bisect_diverge.record.install import current, finish, install
    from bisect_diverge.record.keep import keep_code
    from bisect_diverge.record.options import check_steps, parse_size
    from bisect_diverge.record.process import say
    from bisect_diverge.record.settings import Settings

    if current() is not None:
        raise UsageError("this process is being recorded already", hint="leave out one of the two recordings")
    if capture not in set(Capture):
        raise UsageError(f"capture is 'full' or 'digest', not {capture!r}")
    if step_on not in set(StepOn):
        raise UsageError(f"step_on is 'optimizer', 'forward' or 'manual', not {step_on!r}")
    options = RecordOptions(
        capture=Capture(capture),
        keep_bytes=parse_size(str(keep)),
        steps=steps,
        modules=tuple(modules),
        step_on=StepOn(step_on),
    )
    if steps is not None:
        check_steps(*steps)
    check_paths(data)
    run = prepare_directory(Path(path), force=force)  # last of the checks: it may remove an older run
    outside, patch = read_outside(Path.cwd(), sys.argv, [Path(entry) for entry in data], (), ())
    keep_originals(run, Path.cwd(), outside, patch)
    cwd = Path.cwd()
    recorder, patches = install(Settings(run=str(run), options=options, outside=outside))
    state = State.INTERRUPTED
    try:
        yield
        state = State.COMPLETE
    finally:
        opened = recorder.opened or not recorder.active  # not active: why is said already
        finish(recorder, patches, state)
        if opened:
            keep_code(run, cwd)
        else:
            say(f"nothing was recorded in {run}: no torch module was called\n  ({HIDDEN})")


def step() -> None:
    """End the step under way, where steps are counted by hand (``--step-on manual``, or ``step_on="manual"``).

    Does nothing in a process that is not being recorded, so a script may keep the call.
    """
    install = sys.modules.get("bisect_diverge.record.install")
    recorder = install.current() if install is not None else None
    if recorder is None:
        return
    from bisect_diverge.record.quiet import quiet

    with quiet(recorder, "the end of a step"):
        recorder.end_step()


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
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_dir():
            _make_alone(path)
    except OSError as error:
        raise UsageError(
            f"cannot make {path}: {error.strerror or error}", hint="choose another directory with -o"
        ) from error
    return path


def _make_alone(path: Path) -> None:
    """Make a directory; of two that are given the same path at the same moment one fails.

    Raises:
        OutputExistsError: if it has been made since we looked.
    """
    try:
        path.mkdir()
    except FileExistsError as error:
        raise OutputExistsError(f"{path} exists already", hint="another recording has just made it") from error


_OURS = re.compile(r"rank-\d+(\.\d+)?\.h5|stdout\.log|source\.patch|outside\.json|trials|files|seen-\d+")


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
    from bisect_diverge.environment.inputs import FOLDER
    from bisect_diverge.record.settings import OUTSIDE

    copies = [f"{FOLDER}/{copy.name}" for copy in (path / FOLDER).glob("*") if re.fullmatch("[0-9a-f]{32}", copy.name)]
    for name in ("stdout.log", "source.patch", OUTSIDE, *copies):
        with contextlib.suppress(OSError):
            (path / name).unlink()
    for folder in (path / FOLDER, path):
        with contextlib.suppress(OSError):
            folder.rmdir()
