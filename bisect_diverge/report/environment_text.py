"""An environment, or what differs between two, as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bisect_diverge.environment.confounded import layers_of
from bisect_diverge.model.environment import Layer
from bisect_diverge.model.trial import Unit
from bisect_diverge.report.bisection_commands import fix_command
from bisect_diverge.report.words import entries, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bisect_diverge.environment.differences import NotCompared
    from bisect_diverge.model.environment import Difference, Environment, Setting

LONGEST = 100
"""Characters of a value that are shown."""


def environment_text(environment: Environment, layers: Sequence[Layer] = ()) -> str:
    """Return all settings by layer, requested ones before resolved ones.

    Args:
        environment: What to show.
        layers: Layers to show; empty: all.
    """
    lines: list[str] = []
    for layer in layers or list(Layer):
        rows = [s for s in environment.settings if s.layer is layer]
        if rows:
            lines += [
                str(layer),
                *_block("requested", rows, resolved=False),
                *_block("resolved", rows, resolved=True),
            ]
    return "\n".join(lines) if lines else "no settings were recorded"


def differences_text(
    differences: Sequence[Difference],
    skipped: Sequence[NotCompared],
    details: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Return what differs by layer, what each difference explains below it, and what was not compared.

    Args:
        differences: What differs.
        skipped: What was not compared.
        details: What differs inside files, by knob (`report.contents`).
    """
    lines = [] if differences else ["the environments are equal"]
    layer = None
    shown: set[tuple[Layer, str]] = set()
    for entry in differences:
        if entry.layer is not layer:
            layer = entry.layer
            lines.append(str(layer))
        lines += [f"  {line}" for line in _entry(entry, shown, (details or {}).get(entry.knob, ()))]
    if skipped:
        lines += ["not compared", *_columns(((f"{row.layer} {row.knob}", row.why) for row in skipped), "  ")]
    return "\n".join(lines)


def confounded_text(made: Sequence[Difference]) -> str:
    """Return a warning that several things were changed at once, and how B is recorded with one of them only.

    Args:
        made: Inputs that differ (`environment.confounded.inputs`).

    Returns:
        Empty where all of them are of one layer.
    """
    layers = layers_of(made)
    if len(layers) < 2:
        return ""
    names = f"{', '.join(layers[:-1])} and {layers[-1]}"
    lines = [
        f"{len(layers)} layers differ ({names}): what differs in the results cannot be put down to one of them",
        "  for a clean comparison leave one of these as it is in B, and record B again with all others as in A:",
    ]
    for layer in layers:
        lines.append(f"  {layer}")
        lines += [f"    {fix_command(_as_unit(row))}" for row in made if row.layer is layer]
    return "\n".join([*lines, "  or let bd bisect try them one by one"])


def pins(made: Sequence[Difference]) -> list[dict[str, str]]:
    """Return the same commands as plain JSON values; empty where all inputs that differ are of one layer."""
    if len(layers_of(made)) < 2:
        return []
    return [{"layer": str(row.layer), "knob": row.knob, "command": fix_command(_as_unit(row))} for row in made]


def _as_unit(row: Difference) -> Unit:
    return Unit(layer=row.layer, knob=row.knob, a=row.a, b=row.b)


def _block(title: str, rows: Iterable[Setting], *, resolved: bool) -> Iterator[str]:
    chosen = [row for row in rows if row.resolved is resolved]
    if chosen:
        yield f"  {title}"
        yield from _columns(((row.knob, _short(row.value)) for row in chosen), "    ")


def _columns(rows: Iterable[tuple[str, str]], indent: str) -> Iterator[str]:
    """Yield two columns; the first is as wide as most need, so that one long name moves nothing else."""
    pairs = list(rows)
    width = max((len(name) for name, _ in pairs if len(name) <= 40), default=0)
    for name, value in pairs:
        yield f"{indent}{name:<{width}}  {value}"


def _entry(entry: Difference, shown: set[tuple[Layer, str]], details: Sequence[str]) -> Iterator[str]:
    """Yield an input that differs, with what the processes had of it in the same line, and what it explains.

    What stands below an earlier input, which may explain it too, is counted.
    """
    had = next((row for row in entry.resolved if row.knob == entry.knob), None)
    yield _difference(entry) + ("" if had is None else f"; the processes had {_values(had)}")
    yield from (f"    {_short(line)}" for line in details)
    rows = [row for row in entry.resolved if row is not had]
    new = [row for row in rows if (row.layer, row.knob) not in shown]
    yield from (f"    {_difference(row)}" for row in new)
    if len(new) < len(rows):
        yield f"    {plural(len(rows) - len(new), 'row')} above may come of this as well"
    shown.update((row.layer, row.knob) for row in new)


def _difference(row: Difference) -> str:
    return f"{row.knob}: {_values(row)}"


def _values(row: Difference) -> str:
    return entries(row.a, row.b, LONGEST) or f"{_side(row.a)} -> {_side(row.b)}"


def _side(value: str | None) -> str:
    return "(not set)" if value is None else _short(value) or '""'


def _short(value: str) -> str:
    """Return a value on one line; what is cut off is counted."""
    text = value.replace("\\", "\\\\") if any(c in value for c in "\n\r\t") else value
    text = text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}... ({len(text)} characters; --format json has all)"
