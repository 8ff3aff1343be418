"""``bd check``: whether the files of a run are whole."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from bisect_diverge.cli.options import form_option
from bisect_diverge.cli.output import paint, put, put_text


@click.command("check")
@click.argument("run", metavar="RUN")
@click.option("--repair", "mend", is_flag=True, help="Clear the mark that a killed writer left in the file.")
@click.option("--force", is_flag=True, help="With --repair: also where the writer cannot be seen to be gone.")
@form_option
def command(run: str, *, mend: bool, force: bool, form: str) -> None:
    """Check the files of RUN: their structure, every table and range, and the digest of every tensor kept.

    A recording whose writer was killed is whole up to its last flush, and bd reads it as it is; other HDF5 tools
    open it only after --repair.

    Exit status: 0 when nothing is wrong, 1 when something is, 2 when there is no recording to check.

    \b
    bd check runs/a
    bd check runs/a --repair
    """
    from bisect_diverge.errors import UsageError
    from bisect_diverge.report.check_text import check_text
    from bisect_diverge.store.reader import run_files
    from bisect_diverge.store.verify import check_file, repair

    if force and not mend:
        raise UsageError("--force belongs to --repair", hint=f"bd check {run} --repair --force")
    found = [check_file(path) for path in run_files(Path(run))]
    for number, checked in enumerate(found):
        if mend and checked.unclosed and not checked.problems and repair(Path(checked.path), force=force):
            click.echo(f"bd: cleared the mark of a killed writer in {checked.path}", err=True)
            found[number] = check_file(Path(checked.path))
    if form == "json":
        document = {"schema": 1, "run": run, "files": [checked.to_json() for checked in found]}
        put(json.dumps(document, indent=2, allow_nan=False))
    else:
        put_text(check_text(found, paint()), whole_words=True)
    sys.exit(1 if any(checked.problems for checked in found) else 0)
