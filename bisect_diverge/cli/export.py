"""``bd export``: the tensors of a run for other programs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from bisect_diverge.store.export import Exported
    from bisect_diverge.store.reader import Run
    from bisect_diverge.store.selection import Wanted


def _steps(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[int, int | None] | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d*):(\d*)|(\d+)", text)
    if match is None:
        raise click.BadParameter("give FIRST:END, FIRST: or one step; END is not included")
    if match[3]:
        return int(match[3]), int(match[3]) + 1
    return int(match[1] or 0), int(match[2]) if match[2] else None


@click.command("export")
@click.argument("run", metavar="RUN")
@click.option(
    "-o",
    "--output",
    "out",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="File (h5) or directory (npz, pt) to write.  [NAME.h5, NAME-npz or NAME-pt here]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["h5", "npz", "pt"]),
    help="One HDF5 file with a dataset for each tensor, or an archive for each rank and step.  [as PATH ends, else h5]",
)
@click.option("--steps", callback=_steps, metavar="FIRST:END", help="Steps to export; END is not included.")
@click.option("--modules", multiple=True, metavar="GLOB", help="Export records whose FQN or address matches.")
@click.option("--force", is_flag=True, help="Replace a file, or an earlier export, that is there.")
def command(
    run: str,
    *,
    out: Path | None,
    form: str | None,
    steps: tuple[int, int | None] | None,
    modules: tuple[str, ...],
    force: bool,
) -> None:
    """Write the tensors of RUN, bit for bit, for programs that do not know its format.

    A dataset is called like the address of its tensor: /r0/3/0/forward/model:blocks.2.attn#0/output.0. bfloat16 and
    float8 are unsigned integers in .h5 and .npz, and themselves in .pt; the attribute dtype (in .npz the member
    index.json) says which.

    \b
    bd export runs/a --steps 3:5
    bd export runs/a --format pt --modules 'blocks.2.*' -o block2
    """
    from bisect_diverge.store.reader import Run
    from bisect_diverge.store.selection import Wanted

    chosen, why = _form(out, form)
    with Run(run) as opened:
        name = opened.path.resolve()
        target = out or Path(f"{name.stem if name.is_file() else name.name}{'.h5' if chosen == 'h5' else f'-{chosen}'}")
        done = _FORMS[chosen](opened, target, Wanted(steps=steps, modules=modules), force)
    click.echo(f"{done.path}: {done.tensors} tensors{why}")
    if done.left_out:
        click.echo(f"bd: {done.left_out} more records have only a digest (or their tensor in the baseline)", err=True)


def _form(out: Path | None, asked: str | None) -> tuple[str, str]:
    """Return the form to write, and what is to be said of it.

    Raises:
        UsageError: if the name of the output says another form than --format.
    """
    from bisect_diverge.errors import UsageError

    if out is None:
        return asked or "h5", ""
    named = _SUFFIXES.get(out.suffix.lower())
    if named is None:
        return asked or "h5", "" if asked else " (one HDF5 file; --format npz or pt writes archives)"
    if asked not in (None, named):
        raise UsageError(
            f"{out} ends like {named}, and --format says {asked}", hint="leave one of them out, or make them agree"
        )
    return named, "" if named == "h5" else " (a directory with an archive for each rank and step)"


def _h5(run: Run, out: Path, wanted: Wanted, force: bool) -> Exported:
    from bisect_diverge.store.export import export_tree

    return export_tree(run, out, wanted, force=force)


def _npz(run: Run, out: Path, wanted: Wanted, force: bool) -> Exported:
    from bisect_diverge.store.export import export_archives, save_npz

    return export_archives(run, out, wanted, "npz", save_npz, force=force)


def _pt(run: Run, out: Path, wanted: Wanted, force: bool) -> Exported:
    from bisect_diverge.record.torch_file import save_pt
    from bisect_diverge.store.export import export_archives

    return export_archives(run, out, wanted, "pt", save_pt, force=force)


_FORMS = {"h5": _h5, "npz": _npz, "pt": _pt}
_SUFFIXES = {".h5": "h5", ".hdf5": "h5", ".npz": "npz", ".pt": "pt"}
"""Ends of names that say a form."""
