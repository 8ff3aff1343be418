"""What is told of names in ``--set`` that nobody knows."""

from types import SimpleNamespace

import pytest

from bisect_diverge.cli.chosen import doubts
from bisect_diverge.environment.hashing import hash_bytes
from bisect_diverge.model.environment import Environment, Layer, Setting
from bisect_diverge.model.run import RunRecord
from bisect_diverge.model.trial import Unit

TEXT = b'{"optim": {"lr": 0.1}}'


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run that has read a configuration file and was given a variable."""
    (tmp_path / "cfg.json").write_bytes(TEXT)
    rows = (("file:cfg.json", hash_bytes(TEXT)), ("HIDDEN", "3"))
    settings = tuple(Setting(layer=Layer.CONFIGURATION, knob=k, value=v, resolved=False) for k, v in rows)
    record = RunRecord(cwd=str(tmp_path), environment=Environment(settings))
    monkeypatch.setattr("bisect_diverge.trial.oracle.merged_record", lambda _run: record)
    return SimpleNamespace(path=tmp_path)


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("hardware.OMP_NUM_THREAD", "hardware.OMP_NUM_THREAD looks like a typo of hardware.OMP_NUM_THREADS", ""),
        ("configuration.HIDDE", "configuration.HIDDE looks like a typo of configuration.HIDDEN", ""),
        ("configuration.MYVAR", "", "neither a table nor a run knows configuration.MYVAR: it is set for this trial"),
        ("configuration.HIDDEN", "", ""),
        ("hardware.OMP_NUM_THREADS", "", ""),
        ("hardware.OMP_TOOL", "", ""),
        ("configuration.file:cfg.json:optim.lrx", "cfg.json has no key optim.lrx (did you mean optim.lr?)", ""),
        ("configuration.file:cfg.json:optim.lr", "", ""),
        ("configuration.file:cfg.json:optim", "", ""),
        ("configuration.file:cfg.json", "", ""),
        ("configuration.argv.--lr", "", ""),
    ],
)
def test_a_name_that_nobody_knows(run, name, wrong, said):
    """What looks like a typo is doubted; another name may be set on purpose."""
    layer, _, knob = name.partition(".")
    unit = Unit(layer=Layer(layer), knob=knob, a=None, b="1")
    assert doubts([unit], run, None) == ([wrong] if wrong else [], [said] if said else [])
