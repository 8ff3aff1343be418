"""``bd record``: run a training script and record it."""

from __future__ import annotations

import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from bisect_diverge.store.reader import Run

_KEEPS_US_OUT = r"-[A-Za-z]*[IE][A-Za-z]*"
"""An option of Python with which it takes no notice of us."""


@click.command(
    "record",
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
@click.option("-o", "--output", "output", metavar="RUN", help="Directory of the run.  [default: runs/001, ...]")
@click.option("--steps", metavar="A:B", help="Record steps A to B-1 only; either end may be left out.")
@click.option("--modules", metavar="GLOB", multiple=True, help="Record modules and parameters of these names only.")
@click.option(
    "--capture",
    type=click.Choice(["full", "digest"]),
    default="full",
    show_default=True,
    help="Keep tensors (within --keep) or digests only.",
)
@click.option(
    "--step-on",
    type=click.Choice(["optimizer", "forward", "manual"]),
    default="optimizer",
    show_default=True,
    help="What ends a step: an update, the forward of the first root, or bisect_diverge.step().",
)
@click.option("--keep", metavar="SIZE", default="4G", show_default=True, help="Budget for tensor bytes of a rank.")
@click.option("--data", metavar="PATH", multiple=True, help="File or directory that the script trains on.")
@click.option(
    "--keep-data/--no-keep-data",
    default=True,
    help="Keep copies of the small files that the script reads, for bd bisect.  [keep]",
)
@click.option("--features", metavar="PATH", multiple=True, help="File with feature logic (transforms, tokenizer).")
@click.option("--env", "env_names", metavar="NAME", multiple=True, help="Record this environment variable as well.")
@click.option("--force", is_flag=True, help="Replace a run that is there.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def command(
    output: str | None,
    steps: str | None,
    modules: tuple[str, ...],
    capture: str,
    step_on: str,
    keep: str,
    data: tuple[str, ...],
    keep_data: bool,
    features: tuple[str, ...],
    env_names: tuple[str, ...],
    force: bool,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND and record every activation, gradient, parameter and generator state.

    The script needs no change and computes the same bits as without us; its output passes through and its exit status
    is ours. Works for python train.py, python -m pkg.mod, torchrun and console scripts.

    \b
    bd record -o runs/a -- python train.py --lr 0.1
    OMP_NUM_THREADS=1 bd record -o runs/b -- python train.py --lr 0.1
    """
    from bisect_diverge.environment.named_variables import variables_named
    from bisect_diverge.environment.originals import keep_originals
    from bisect_diverge.environment.read import read_outside
    from bisect_diverge.errors import CommandError
    from bisect_diverge.model.run import Capture, RecordOptions, StepOn
    from bisect_diverge.record.api import check_paths, prepare_directory, remove_run
    from bisect_diverge.record.bootstrap import DIRECTORY, environment_for
    from bisect_diverge.record.launch import find_program, run_command
    from bisect_diverge.record.options import parse_size, parse_steps
    from bisect_diverge.record.settings import OUTSIDE, Settings

    options = RecordOptions(
        capture=Capture(capture),
        keep_bytes=parse_size(keep),
        steps=parse_steps(steps) if steps is not None else None,
        modules=modules,
        step_on=StepOn(step_on),
        keep_data=keep_data,
    )
    check_paths((*data, *features))
    find_program(command)  # before anything is made or replaced
    run = prepare_directory(Path(output) if output else _next_free(), force=force)
    outside, patch = read_outside(
        Path.cwd(), command, [Path(path) for path in data], [Path(path) for path in features], env_names
    )
    keep_originals(run, Path.cwd(), outside, patch, copies=keep_data)
    settings = Settings(
        run=str(run),
        command=command,
        cwd=str(Path.cwd()),
        options=options,
        outside=outside,
        env_names=(*env_names, *variables_named(Path.cwd(), command)),
        bootstrap=str(DIRECTORY),
    )
    log = run / "stdout.log"
    try:
        status = run_command(command, environment_for(settings, dict(os.environ)), log, lambda: _progress(run))
    except CommandError:
        remove_run(run)
        raise
    finally:
        (run / OUTSIDE).unlink(missing_ok=True)
    with suppress(BrokenPipeError):  # whatever became of our words, the status is the script's
        _conclude(run, command, status, keep_data=keep_data)
    sys.exit(status)


def _next_free() -> Path:
    number = 1
    while (path := Path("runs") / f"{number:03d}").exists():
        number += 1
    return path


def _progress(run: Path) -> str:
    from bisect_diverge.store.reader import progress

    found = progress(run)
    if found is None:
        return "bd: waiting for the first module call"
    steps, rows = found
    return f"bd: recording · step {steps} · {rows:,} records"


def _conclude(run: Path, command: tuple[str, ...], status: int, *, keep_data: bool) -> None:
    """Say what was recorded, note the script's status in the files, and keep the code that no commit has."""
    from bisect_diverge.record.api import remove_run

    files = sorted(run.glob("rank-*.h5"))
    if not files:
        remove_run(run)
        click.echo(_nothing(command, status), err=True)
        return
    from bisect_diverge.errors import RunError  # h5py takes a while, so only where it is needed
    from bisect_diverge.record.keep import keep_code
    from bisect_diverge.store.reader import Run
    from bisect_diverge.store.writer import set_exit_status

    for file in files:
        set_exit_status(file, status)
    keep_code(run, Path.cwd(), on=keep_data)
    try:
        with Run(run) as recorded:
            click.echo(_summary(run, recorded, status), err=True)
    except RunError as error:
        click.echo(f"bd: {error}", err=True)


def _nothing(command: tuple[str, ...], status: int) -> str:
    """Return what is said of a run without records; what may have hidden them, only where no failure explains it."""
    from bisect_diverge.record.api import HIDDEN

    first = f"bd: nothing was recorded: no process called a torch module{_failure(status)}"
    if status and not any(re.fullmatch(_KEEPS_US_OUT, word) for word in command):
        return first
    return f"{first}\n  (python -I and -E keep us out; forked children are not recorded;\n  {HIDDEN})"


def _failure(status: int) -> str:
    if status == 128 + signal.SIGINT:
        return " (interrupted)"
    with suppress(ValueError):
        return f" (ended by {signal.Signals(status - 128).name})"
    return f" (exit status {status})" if status else ""


def _summary(run: Path, recorded: Run, status: int) -> str:
    first = recorded.first
    rows = sum(len(file.events) for file in recorded.ranks.values())
    size = sum(file.path.stat().st_size for file in recorded.ranks.values())
    ranks = f" of {len(recorded.ranks)} ranks" if len(recorded.ranks) > 1 else ""
    count = first.step_count
    steps = f"{count:,} step{'' if count == 1 else 's'}{ranks}"
    ended = "" if status == 0 else f"; the script ended with status {status}"
    text = f"bd: recorded {steps}, {rows:,} records, {size / 1e6:,.1f} MB in {_short(run)}{ended}"
    if recorded.extra:
        more = len(recorded.extra)
        whose = (
            "process of the same rank, in its own file"
            if more == 1
            else "processes of the same rank, in their own files"
        )
        text += f"\n  and {more} more {whose}"
    return text


def _short(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
