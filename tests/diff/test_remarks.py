"""Sentences on what explains a divergence and is no difference between paired rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.helpers.compare import compare_rows
from tests.helpers.runs import Row

BLOCK = "r0/0/0/{}/model:0#0:output.0"


def remade(content: str) -> list[Row]:
    """Return a step in which a module is run again by activation checkpointing; its gradient is of what that made."""
    return [
        Row("r0/0/-/init/model:0.weight#0:param", "w"),
        Row(BLOCK.format("forward"), "made"),
        Row("r0/0/0/forward/model:#0:output.0", "out"),
        Row(BLOCK.format("recompute"), content),
        Row("r0/0/-/optimizer/opt:0.weight#0:grad", f"of {content}"),
    ]


def notes(folder: Path, a: list[Row], b: list[Row]) -> list[str]:
    """Return the notes of a comparison."""
    return list(compare_rows(folder, a, b).divergence.notes)


def test_what_one_run_makes_again_otherwise(tmp_path: Path):
    """Named with its place; not where both do it, nor where what is made again is what the forward made."""
    good, bad = remade("made"), remade("another mask")
    assert any(
        note.startswith("in B activation checkpointing makes other values") for note in notes(tmp_path, good, bad)
    )
    other = [*bad[:-1], replace(bad[-1], value="x")]
    assert not any("activation checkpointing makes" in note for note in notes(tmp_path / "both", bad, other))


def test_parameters_in_another_order(tmp_path: Path):
    """The first place at which the orders part is named; equal orders are not."""
    names = ("0.weight", "1.weight", "2.weight")
    rows = {name: Row(f"r0/0/-/optimizer/opt:{name}#0:grad", name) for name in names}
    a = [rows[name] for name in names]
    b = [rows["0.weight"], rows["2.weight"], replace(rows["1.weight"], value="other")]
    found = [note for note in notes(tmp_path, a, b) if "in another order" in note]
    assert len(found) == 1
    assert "where A has opt:1.weight, B has opt:2.weight" in found[0]
    same = [*a[:2], replace(rows["2.weight"], value="other")]
    assert not any("in another order" in note for note in notes(tmp_path / "same", a, same))
