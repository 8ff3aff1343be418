"""The tables of knobs and the page that describes them."""

import re
from pathlib import Path

import pytest

from bisect_diverge.environment.kernels import COMPILE_KNOBS, OPTIMIZER_KNOBS
from bisect_diverge.environment.read import TABLES
from bisect_diverge.environment.setters import NUMPY_SETTERS, SETTERS
from bisect_diverge.environment.variables import ALLOWED, EXCLUDED, layer_of

PAGE = (Path(__file__).parents[2] / "docs" / "environment.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("knob", [knob for table in TABLES.values() for knob in table], ids=lambda knob: knob.name)
def test_every_knob_is_on_the_page(knob):
    """A knob is documented by its row, word for word."""
    kind = "resolved" if knob.resolved else "requested"

    assert f"| `{knob.name}` | {kind} | {knob.meaning} |" in PAGE


@pytest.mark.parametrize(
    "row", [row for rows in (*ALLOWED.values(), EXCLUDED) for row in rows], ids=lambda row: row.pattern
)
def test_every_variable_is_on_the_page(row):
    """A variable is documented by its row, word for word."""
    assert f"| `{row.pattern}` | {row.meaning} |" in PAGE


@pytest.mark.parametrize("setter", [*SETTERS, *NUMPY_SETTERS], ids=lambda setter: setter.knob)
def test_every_setter_is_on_the_page(setter):
    """A watched function is documented by its name."""
    assert f"`{setter.knob}`" in PAGE


@pytest.mark.parametrize("knob", [*OPTIMIZER_KNOBS, *COMPILE_KNOBS])
def test_what_objects_of_a_script_are_asked_is_on_the_page(knob):
    """Arguments of optimizers and of ``torch.compile`` are documented by their names."""
    assert re.search(rf"[`.]{knob}`", PAGE)


def test_no_variable_is_in_two_layers():
    """A pattern stands in one table."""
    patterns = [row.pattern for rows in ALLOWED.values() for row in rows]

    assert sorted(set(patterns)) == sorted(patterns)
    assert all(
        layer_of(p.replace("*", "X")) is layer for layer, rows in ALLOWED.items() for p in (r.pattern for r in rows)
    )


def test_no_two_knobs_of_a_layer_have_one_name():
    """A name stands for one knob."""
    for table in TABLES.values():
        names = [knob.name for knob in table]

        assert len(names) == len(set(names))
