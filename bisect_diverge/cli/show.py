"""``bd show``: what a run holds, or one of its tensors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from bisect_diverge.cli.options import form_option
from bisect_diverge.cli.output import put

if TYPE_CHECKING:
    from bisect_diverge.store.reader import Run


@click.command("show")
@click.argument("run", metavar="RUN")
@click.argument("address", metavar="[ADDRESS]", required=False, default="")
@click.option("--step", type=click.IntRange(min=0), metavar="STEP", help="List only records of this step.")
@click.option("--match", "glob", default="", metavar="GLOB", help="List records whose address or FQN matches.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    metavar="N",
    help="Records, or steps, to list.",
)
@form_option
def command(run: str, address: str, *, step: int | None, glob: str, limit: int, form: str) -> None:
    """Say what RUN holds; with ADDRESS, one of its tensors.

    A part of an address lists the records that have it: 'attn.c_proj', 'output.0', '3/0/forward'; a glob ('*.attn')
    those whose whole address or FQN fits. A run that
    is still being recorded, or was interrupted, is shown up to its last whole flush.

    \b
    bd show runs/a
    bd show runs/a attn.c_proj --step 3
    bd show runs/a r0/3/0/forward/model:blocks.2.attn#0:output.0
    """
    from bisect_diverge.store.reader import Run

    with Run(run) as opened:
        if address or glob or step is not None:
            text, document = _records(opened, address, step, glob, limit)
        else:
            text, document = _overview(opened, limit)
    if form == "json":
        put(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        put(text)


def _overview(run: Run, limit: int) -> tuple[str, object]:
    from bisect_diverge.report.fold import fold
    from bisect_diverge.report.run_overview import run_overview
    from bisect_diverge.report.run_text import run_text

    overview = run_overview(run)
    return fold(run_text(overview, limit), whole_words=True), overview.to_json()


def _records(run: Run, text: str, step: int | None, glob: str, limit: int) -> tuple[str, object]:
    from bisect_diverge.errors import UsageError
    from bisect_diverge.model.address import Address
    from bisect_diverge.report.fold import fold
    from bisect_diverge.report.record_detail import matching, nothing_matches, record_details
    from bisect_diverge.report.record_text import matches_text, record_text

    try:
        whole = Address.parse(text)
    except UsageError:
        if not glob and any(letter in text for letter in "*?"):
            text, glob = "", text
        found = matching(run, text, glob, step, limit)
        if not found.total:
            raise UsageError("no record matches", hint=nothing_matches(run, text, glob, step)) from None
        return matches_text(found), found.to_json()  # a record a line, however long: such a list is searched
    details = record_details(run, whole)
    return fold(record_text(details), whole_words=True), {
        "schema": 1,
        "records": [detail.to_json() for detail in details],
    }
