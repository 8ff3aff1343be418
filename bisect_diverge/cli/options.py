"""Options that several verbs have: each is written once."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMATS = ("text", "json", "markdown", "html")

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def _seconds(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhd]?)\s*", text)
    if match is None:
        raise click.BadParameter("a time looks like 90s, 30m or 2h")
    seconds = float(match[1]) * _UNITS[match[2]]
    if not seconds:
        raise click.BadParameter("no trial fits in no time; a time looks like 90s, 30m or 2h")
    return seconds


def layers(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the layers that an option names, one by one or with commas between."""
    from bisect_diverge.model.environment import Layer

    names = tuple(name.strip() for value in values for name in value.split(",") if name.strip())
    if values and not names:
        raise click.BadParameter(f"name a layer; there are {', '.join(Layer)}")
    unknown = [name for name in names if name not in set(Layer)]
    if unknown:
        raise click.BadParameter(
            f"no such layer: {', '.join(unknown)}{near(unknown, list(Layer))}; there are {', '.join(Layer)}"
        )
    return names


def near(unknown: Sequence[str], known: Sequence[str]) -> str:
    """Return the names that are nearest to what was typed, as the end of a sentence; empty: none is near."""
    import difflib

    found = dict.fromkeys(name for text in unknown for name in difflib.get_close_matches(text, known, 1))
    return f" (did you mean {' or '.join(found)}?)" if found else ""


def _image_command(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
    from bisect_diverge.trial.images import PLACE

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise click.BadParameter(f"{text}: {error}") from error
    if text and not any(PLACE in word for word in words):
        raise click.BadParameter(f"{text}: say with {PLACE} where the image stands, as in 'apptainer exec {PLACE}'")
    return text


form_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)
"""Of a verb whose result is text or JSON."""

any_form_option = click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="Output format; html is one page that needs nothing else.",
)
"""Of a verb whose result has a page too."""

out_option = click.option(
    "-o",
    "--output",
    "out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the result there.",
)

keep_trials_option = click.option(
    "--keep-trials",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep the trials' folders there.",
)

image_cmd_option = click.option(
    "--image-cmd",
    default="",
    callback=_image_command,
    metavar="COMMAND",
    help="What runs a command in a container image: 'apptainer exec {image}'.",
)

skip_option = click.option(
    "--skip", callback=layers, multiple=True, metavar="LAYER,...", help="Leave these layers as they are in A."
)

budget_option = click.option("--budget", callback=_seconds, metavar="TIME", help="Stop after this time (90s, 30m, 2h).")
