"""docs/file-format.md says what the program does."""

import re
from pathlib import Path

import pytest

from bisect_diverge.model.address import PHASES
from bisect_diverge.model.elements import ELEMENT_TYPES
from bisect_diverge.model.record import Flag
from bisect_diverge.model.run import SCHEMA, State
from bisect_diverge.store import schema

PAGE = (Path(__file__).parent.parent.parent / "docs" / "file-format.md").read_text(encoding="utf-8")


def test_the_schema_number_is_that_of_the_program():
    """The page specifies the schema that is written."""
    assert f"specifies schema **{SCHEMA}**" in PAGE
    assert schema.FORMAT in PAGE


@pytest.mark.parametrize("element", ELEMENT_TYPES, ids=lambda element: element.name)
def test_every_element_type_is_listed_with_its_code_and_storage(element):
    """Codes are part of the format."""
    stored = f"`{element.storage.removeprefix('<')}`" if element.storage else "-"

    assert re.search(rf"\| {element.code} \| `{element.name}` \| {re.escape(stored)}", PAGE)


def test_every_column_is_listed_with_its_type():
    """Readers find columns by name."""
    for layout in (schema.EVENT, schema.STATUS):
        for name in layout.names or ():
            kind = layout[name].str.lstrip("<|")
            rows = [line for line in PAGE.splitlines() if line.startswith("|") and f"`{name}`" in line]
            assert any(f"`{kind}`" in row for row in rows), name


def test_phases_states_and_flags_are_listed_in_order():
    """Numbers of closed sets are part of the format."""
    assert ", ".join(f"{code} {phase}" for code, phase in enumerate(PHASES)) in PAGE
    assert ", ".join(f"{code} {state}" for code, state in enumerate(State)) in PAGE
    for flag in Flag:
        assert re.search(rf"^\| {flag.value} \| {str(flag.name).lower().replace('_', '.')} \|", PAGE, re.MULTILINE), (
            flag
        )


def test_the_size_of_a_row_is_that_of_the_program():
    """The page states the bytes of a row."""
    assert f"A row takes {schema.EVENT.itemsize} bytes" in PAGE


def test_every_dataset_is_listed(tmp_path: Path):
    """What the writer creates is on the page."""
    import h5py

    names: list[str] = []
    with h5py.File(tmp_path / "x.h5", "w", libver=("v110", "v110")) as file:
        schema.create(file, "xxh3-128", SCHEMA)
        file.visit(names.append)

    for name in names:
        assert name.startswith("pool") or any(f"`/{name}" in line for line in PAGE.splitlines()), name
