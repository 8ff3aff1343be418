"""Two configuration files that an argument names, one in each run: the report lists the keys in which they differ."""

from pathlib import Path

import pytest

from bisect_diverge.environment.hashing import hash_file
from bisect_diverge.model.environment import Environment, Layer, Setting
from bisect_diverge.model.run import RunRecord
from bisect_diverge.model.trial import Bisection, BisectVerdict, Cause, Role, Unit
from bisect_diverge.trial.keys_between import with_keys


def record(folder: Path, name: str, text: str) -> RunRecord:
    """Return a run that has read a configuration file."""
    (folder / name).write_text(text)
    row = Setting(layer=Layer.CONFIGURATION, knob=f"file:{name}", value=hash_file(folder / name), resolved=False)
    return RunRecord(cwd=str(folder), environment=Environment((row,)))


def notes(a: RunRecord, b: RunRecord, value_a: str | None, value_b: str | None) -> str:
    """Return the notes of a bisection that blames ``--config``."""
    unit = Unit(layer=Layer.CONFIGURATION, knob="argv.--config", a=value_a, b=value_b)
    cause = Cause(units=(unit,), role=Role.CAUSE, sufficient=True, necessary=True, same_divergence=True)
    return "\n".join(with_keys(Bisection(verdict=BisectVerdict.CAUSE, causes=(cause,)), a, b).notes)


def test_the_keys_are_listed(tmp_path: Path):
    """Keys that only one file has are listed too."""
    a = record(tmp_path, "a.json", '{"opt": {"lr": 0.1, "wd": 0}, "name": "x"}')
    b = record(tmp_path, "b.json", '{"opt": {"lr": 0.2, "wd": 0}, "name": "x", "ema": true}')

    assert notes(a, b, "a.json", "b.json") == (
        "the two files that argv.--config names differ in 2 keys, not tested one by one: opt.lr: 0.1 -> 0.2; "
        "ema: (not set) -> true"
    )


def test_a_credential_is_not_shown(tmp_path: Path):
    """Values under a name of a secret stay out of reports."""
    a = record(tmp_path, "a.json", '{"api_key": "one", "lr": 1}')
    b = record(tmp_path, "b.json", '{"api_key": "two", "lr": 1}')

    text = notes(a, b, "a.json", "b.json")
    assert "api_key: masked -> masked" in text
    assert "one" not in text.replace("one by one", "")


@pytest.mark.parametrize("values", [("a.json", None), ("0.1", "0.2"), ("a.json", "a.json"), ("a.json", "b.txt")])
def test_nothing_is_said_of_other_values(tmp_path: Path, values: tuple[str, str | None]):
    """A flag that names no two files of one format has no keys."""
    a, b = record(tmp_path, "a.json", '{"lr": 1}'), record(tmp_path, "b.txt", "lr 2")

    assert notes(a, b, *values) == ""
