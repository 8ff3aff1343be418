"""Texts for people: 80 columns, and looks only where somebody sees them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bisect_diverge.cli import output
from bisect_diverge.cli.check import command as check
from bisect_diverge.cli.env import command as env
from bisect_diverge.cli.show import command as show
from bisect_diverge.model.environment import Environment, Layer, Setting
from bisect_diverge.model.run import RunRecord
from bisect_diverge.report.fold import WIDTH
from tests.helpers.runs import training_rows, write_run


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return two runs whose environments differ in long values of two layers."""
    place = tmp_path_factory.mktemp("columns")

    def run(name: str) -> str:
        settings = tuple(
            Setting(layer=layer, knob="LONG", value=f"{name} " * 70 + name * 120, resolved=False)
            for layer in (Layer.CONFIGURATION, Layer.KERNELS)
        )
        command = ("python", "train.py", *(f"--option-{n}={name}" for n in range(12)))
        record = RunRecord(command=command, environment=Environment(settings))
        return str(write_run(place / name, training_rows(2), record=record))

    return [run("a"), run("b")]


@pytest.mark.parametrize(
    ("command", "runs", "more"),
    [(env, 1, ()), (env, 2, ()), (show, 1, ()), (show, 1, ("r0/0/0/forward/model:#0:output.0",)), (check, 1, ())],
)
def test_a_text_has_80_columns_and_no_escapes(pair: list[str], command: Any, runs: int, more: tuple[str, ...]) -> None:
    """Whatever a run holds; what is wider is one word, quoted or not, which is there to be copied."""
    text = CliRunner().invoke(command, [*pair[:runs], *more]).stdout
    assert text
    wide = [line for line in text.splitlines() if len(line) > WIDTH]
    assert [line for line in wide if " " in line.strip() and "'" not in line] == []
    assert "\x1b" not in text


def test_a_result_that_could_not_be_written_is_refused_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No directory, or none that may be written to."""
    output.check_writable(None)
    output.check_writable(tmp_path / "result.html")
    with pytest.raises(output.UsageError, match="No such directory"):
        output.check_writable(tmp_path / "no" / "result.html")
    monkeypatch.setattr(output.os, "access", lambda *_: False)
    with pytest.raises(output.UsageError, match="Permission denied"):
        output.check_writable(tmp_path / "result.html")
    with pytest.raises(output.UsageError, match="Permission denied"):
        output.make_folder(tmp_path / "trials")
